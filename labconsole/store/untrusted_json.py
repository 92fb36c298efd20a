"""Parses untrusted JSON: its bytes and the values it creates are bounded before it is parsed.

An empty list takes three bytes in a file and sixty-four in memory. The possible cost of a text is therefore counted
first, by the rule that the wire has for lines (wire/codec.py).
"""

from __future__ import annotations

import json
from typing import Any

from labconsole.errors import StoreError
from labconsole.wire.codec import count_parts

MAX_RECORD_BYTES = 16 << 20
"""For one record. The record of a hundred nodes has a few hundred kilobytes."""

MAX_VALUES = 2 << 20
"""For one text; a manifest of 250 000 files uses three quarters of it."""


def parse_json(source: str | bytes, where: str, *, max_bytes: int = MAX_RECORD_BYTES) -> Any:
    """Parse a JSON text.

    Raises StoreError beginning with ``where`` if it is too long, contains more than ``MAX_VALUES`` values, or is not
    strict JSON.
    """
    if len(source) > max_bytes:
        raise StoreError(f"{where}: has {len(source)} bytes; allowed: {max_bytes}")
    # A shorter text has no room for that many values.
    if len(source) > MAX_VALUES and count_parts(source) > MAX_VALUES:
        raise StoreError(f"{where}: holds {count_parts(source)} values; allowed: {MAX_VALUES}")
    try:
        return json.loads(source, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as exc:
        raise StoreError(f"{where}: not valid JSON: {exc}") from exc


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
