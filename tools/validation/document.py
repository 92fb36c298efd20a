"""The document between its markers: written as a whole, or a few of its tables in the place of what it has of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tables import Table

BEGIN, END = "<!-- validation: begin -->\n", "<!-- validation: end -->\n"
_HEADING = re.compile(r"(?m)^(?=### )")
_NUMBER = re.compile(r"### (\d+)\. ")
_SUM = re.compile(r"(?m)^(?:No failures|\*\*\d+ failures\*\*) in \d+ rows\.$")


def whole(text: str, conditions: Iterable[str], tables: Sequence[Table]) -> str:
    """All of it anew. Raises ValueError when the text has no markers."""
    sections = [_section(table) for table in tables]
    return _between(text, "\n".join([*conditions, "", _sum(sections), "", *sections]))


def renewed(text: str, conditions: Sequence[str], tables: Sequence[Table]) -> str:
    """These tables, each with a line that says when and on what it was measured; all others stay. Raises ValueError when
    the text has no markers.
    """
    head, *sections = _HEADING.split(inside(text))
    by_number = {_number(section): section for section in sections}
    for table in tables:
        title, _, rest = _section(table).partition("\n")
        told = " ".join(line for line in conditions if line)
        by_number[_number(title)] = f"{title}\n\nMeasured apart from the others: {told}\n{rest}"
    ordered = [section for _, section in sorted(by_number.items())]
    head = _SUM.sub(_sum(ordered).replace("\\", "\\\\"), head)
    return _between(text, head + "\n".join(section.rstrip("\n") + "\n" for section in ordered))


def rows_and_failures(section: str) -> tuple[int, int]:
    """How many rows a section has, and how many sentences of what is not as it must be."""
    body, _, failures = section.partition("\nNot as it must be:\n")
    rows = [line for line in body.splitlines() if line.startswith("| ")]
    return max(0, len(rows) - 1), sum(line.startswith("- ") for line in failures.splitlines())


def _section(table: Table) -> str:
    return "\n".join(table.lines())


def _number(section: str) -> int:
    found = _NUMBER.match(section)
    if found is None:
        raise ValueError(f"a section without a number: {section[:60]!r}")
    return int(found[1])


def _sum(sections: Iterable[str]) -> str:
    counted = [rows_and_failures(section) for section in sections]
    rows, failures = sum(rows for rows, _ in counted), sum(failures for _, failures in counted)
    return f"{f'**{failures} failures**' if failures else 'No failures'} in {rows} rows."


def inside(text: str) -> str:
    """What stands between the markers. Raises ValueError when there are none."""
    _, begin, rest = text.partition(BEGIN)
    if not begin or END not in rest:
        raise ValueError("it has no markers to write between")
    return rest.partition(END)[0]


def _between(text: str, written: str) -> str:
    inside(text)
    head, _, rest = text.partition(BEGIN)
    return head + BEGIN + written.rstrip("\n") + "\n\n" + END + rest.partition(END)[2]
