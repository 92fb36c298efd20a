"""SQLite files as somebody else may have made them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

REPEATED = 40
"""How often a page names another one here."""


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
    cell = moved + (b"\x7f" if kind == "table" else bytes(first[key : key + 1 + first[key]]))
    page = _interior_page([cell] * REPEATED, size, b"\x05" if kind == "table" else b"\x02")
    content[(root - 1) * size : root * size] = page
    content[28:32] = moved
    path.write_bytes(content + first)
    return path


def endless_schema(path: Path, source: Path, levels: int) -> Path:
    """A copy of a store whose list of tables names one row of it again and again, ``REPEATED`` ** ``levels`` times."""
    altered(path, source, "PRAGMA journal_mode=DELETE")
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    count = int.from_bytes(content[103:105], "big")
    leaf = content[:size]
    leaf[: 8 + 2 * count] = content[100 : 108 + 2 * count]  # the first page begins with the file's own header
    places = [leaf[8 + 2 * each : 10 + 2 * each] for each in range(count)]
    begins = [int.from_bytes(each, "big") for each in places]
    index = next(n for n, at in enumerate(begins) if b"sqlite_autoindex_runs_1" in leaf[at : at + 40])
    repeated_leaf = bytearray(leaf)
    repeated_leaf[3:5], repeated_leaf[8:10] = (1).to_bytes(2, "big"), places[index]
    pages = [bytes(leaf), bytes(repeated_leaf)]
    for _ in range(levels):
        last = (len(content) // size + len(pages)).to_bytes(4, "big") + b"\x7f"
        first = (len(content) // size + 1).to_bytes(4, "big") + b"\x01"
        pages.append(_interior_page([first if len(pages) == levels + 1 else last, *[last] * (REPEATED - 1)], size))
    top = pages.pop()
    content[100 : 112 + 2 * REPEATED] = top[: 12 + 2 * REPEATED]
    content[size - REPEATED * 5 : size] = top[-REPEATED * 5 :]
    content += b"".join(pages)
    content[28:32] = (len(content) // size).to_bytes(4, "big")
    path.write_bytes(content)
    return path


def _interior_page(cells: list[bytes], size: int, kind: bytes = b"\x05") -> bytes:
    """A page of these cells, each the number of a page and a key. The last page is named once more."""
    at = size - len(b"".join(cells))
    begins = [at + len(b"".join(cells[:each])) for each in range(len(cells))]
    head = kind + b"\0\0" + len(cells).to_bytes(2, "big") + at.to_bytes(2, "big") + b"\0" + cells[-1][:4]
    return (head + b"".join(each.to_bytes(2, "big") for each in begins)).ljust(at, b"\0") + b"".join(cells)
