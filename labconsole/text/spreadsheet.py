"""Text that goes into a CSV file: what a spreadsheet would run as a formula is told apart from it. Pure.

Platform names are the operator's and notes anybody's: a run that was imported may bring a note that begins with "=".
"""

from __future__ import annotations

from typing import TypeVar

CellT = TypeVar("CellT")


def harmless_cell(cell: CellT) -> CellT | str:
    """A cell as it may stand in a file: text that begins like a formula gets an apostrophe before it."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell
