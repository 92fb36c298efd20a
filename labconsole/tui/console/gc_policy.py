"""Garbage collection in a console that runs for hours and must answer every key at once."""

from __future__ import annotations

import gc

YOUNG_OBJECTS = 7000
"""New objects before a collection: the samples of a hundred nodes would trigger it all the time."""


def freeze_garbage_collector() -> None:
    """Exempt all present objects, which live until the end, from garbage collection, and switch it on.

    A full collection walks everything imported: 60 ms in which no key is answered.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
    gc.enable()
