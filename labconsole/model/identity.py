"""Operator, time, run id and hashes, in the form that records use."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import secrets
import socket
from datetime import UTC, datetime
from typing import Any

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""Valid run ids. They arrive with imported files and become file names: no slash, no leading dot."""


def new_run_id(now: datetime) -> str:
    """``20261121T024501Z-7f3a9c``: UTC to the second and 24 random bits, so that labs can merge their stores."""
    if now.tzinfo is None:
        raise ValueError("a run id needs a time with a time zone")
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def content_hash(meaning: Any) -> str:
    """16 hexadecimal digits of what something means, as JSON. By them its records are found again."""
    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()[:16]


def utc_now() -> str:
    """Now, as RFC 3339 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def operator_name() -> str:
    """The operator, as user@host; a user without an entry in the password database appears by number."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid{os.getuid()}"
    return f"{user}@{socket.gethostname()}"
