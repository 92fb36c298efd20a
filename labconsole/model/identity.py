"""Names of runs: sortable by time, unique without asking anybody, safe as a file name."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""What may name a run. Ids come in with imported files and become file names: no slash, no leading dot."""


def new_run_id(now: datetime) -> str:
    """``20261121T024501Z-7f3a9c``: UTC to the second and 24 random bits, so that labs can merge their stores."""
    if now.tzinfo is None:
        raise ValueError("a run id needs a time with a time zone")
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
