"""The numbers of a record as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def numbers(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], int | float]]:
    """Each with its path."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from numbers(each, (*path, key))
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from numbers(each, (*path, place))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value
