"""The store that a dry run asks: the real one, or, where there is none yet, an empty one that is gone afterwards."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from labconsole.store.location import would_create


def find_dry_run_store(held: ExitStack, place: str | None) -> tuple[str | None, bool]:
    """Where to look, and whether that may be written to; what is made for it is removed with ``held``.

    A dry run makes nothing, and changes nothing. Raises StoreError.
    """
    if not would_create(place):
        return place, False
    return str(Path(held.enter_context(TemporaryDirectory())) / "runs.sqlite"), True
