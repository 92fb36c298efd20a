"""The store that a dry run reads: the real one, or a temporary empty one if there is none yet."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from labconsole.store.location import would_create


def find_dry_run_store(opened: ExitStack, place: str | None) -> tuple[str | None, bool]:
    """Where to look, and whether that may be written to. ``opened`` removes what is made for it.

    A dry run makes nothing, and changes nothing. Raises StoreError.
    """
    if not would_create(place):
        return place, False
    return str(Path(opened.enter_context(TemporaryDirectory())) / "runs.sqlite"), True
