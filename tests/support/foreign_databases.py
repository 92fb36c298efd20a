"""SQLite files as somebody else may have made them."""

from __future__ import annotations

import sqlite3
from pathlib import Path


def altered(path: Path, source: Path, *statements: str) -> Path:
    connection = sqlite3.connect(path)
    with sqlite3.connect(source) as original:
        original.backup(connection)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def repeated(path: Path, source: Path, name: str) -> Path:
    """A copy of a store in which a page names the first page of this table or index, of four rows, again and again."""
    altered(path, source, "PRAGMA journal_mode=DELETE")
    connection = sqlite3.connect(path)
    ((root, kind),) = connection.execute("SELECT rootpage, type FROM sqlite_master WHERE name = ?", (name,))
    connection.close()
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    first = content[(root - 1) * size : root * size]
    moved = (len(content) // size + 1).to_bytes(4, "big")
    key = int.from_bytes(first[8:10], "big")  # of an index: a short one, with its length in a byte before it
    cell, many = moved + (b"\x7f" if kind == "table" else bytes(first[key : key + 1 + first[key]])), 40
    at = size - many * len(cell)
    page = (b"\x05" if kind == "table" else b"\x02") + b"\0\0" + many.to_bytes(2, "big") + at.to_bytes(2, "big")
    page += b"\0" + moved + b"".join((at + each * len(cell)).to_bytes(2, "big") for each in range(many))
    content[(root - 1) * size : root * size] = page.ljust(at, b"\0") + cell * many
    content[28:32] = moved
    path.write_bytes(content + first)
    return path
