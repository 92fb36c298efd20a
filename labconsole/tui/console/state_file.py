"""A small file that the console keeps between sessions: written whole or not at all, read with a size limit."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

log = logging.getLogger("labconsole.tui")

MOST_BYTES = 1_000_000


def write_atomically(path: Path, text: str) -> None:
    """Replace the file's contents. Raises OSError and then keeps the old contents."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def read_mapping(path: Path) -> dict[str, object]:
    """Return the file's JSON object, or an empty one if it is missing or unreadable. Only the log reports that."""
    try:
        if path.stat().st_size > MOST_BYTES:
            return {}
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as exc:
        log.info("could not read %s: %s", path, exc)
        return {}
    return kept if isinstance(kept, dict) else {}
