"""Who and when, as records say it."""

from __future__ import annotations

import getpass
import os
import socket
from datetime import UTC, datetime


def utc_now() -> str:
    """Now, as RFC 3339 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def operator_name() -> str:
    """Who runs this, as user@host; a user without an entry in the password database goes by number."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid{os.getuid()}"
    return f"{user}@{socket.gethostname()}"
