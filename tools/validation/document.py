"""The page and its CSV files: one file and one line for each table, and tables.csv, which lists them.

The files are in a directory of the page's name next to it. All tables are written together, or a few of them in place
of what is there. What people wrote about a table, below its heading, is kept.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tables import Table

BEGIN, END = "<!-- validation: begin -->\n", "<!-- validation: end -->\n"
LIST = "tables.csv"
COLUMNS = ("file", "title", "note", "measured_again", "disturbed", "measured", "conditions")
FAILURE = "failure"
"""The last column of each table: why a row fails; empty in a row that is right."""

_HEADING = re.compile(r"(?m)^(?=### )")
_NUMBER = re.compile(r"(?:### )?(\d+)\. ")
_LINE = re.compile(r"(?m)^\[\d+ rows?\]\(.*\n?")
_SUM = re.compile(r"(?m)^(?:No failures|\*\*\d+ failures\*\*) in \d+ rows\.\n+")


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """When a table was measured, at which commit, and on what machine."""

    time: str
    commit: str
    machine: str

    @property
    def measured(self) -> str:
        return f"{self.time} at commit {self.commit}"


def write(page: Path, tables: Sequence[Table], conditions: Conditions, *, renew: bool) -> None:
    """Write the tables' files and lines. ``renew``: keep all other tables, otherwise these are the whole document.

    Raises ValueError where check() does.
    """
    text = page.read_text()
    check(page, text, renew=renew)
    directory = page.with_suffix("")
    directory.mkdir(exist_ok=True)
    listed = {number_of(row["title"]): row for row in _read_list(directory)} if renew else {}
    for table in tables:
        listed[number_of(table.title)] = _entry(table, conditions)
    rows = [row for _, row in sorted(listed.items())]
    replaced = {number_of(table.title) for table in tables}
    for old in directory.glob("[0-9]*-*.csv"):
        if not renew or int(old.name.partition("-")[0]) in replaced:
            old.unlink()
    for table in tables:
        _write_csv(directory / file_name(table.title), (*table.columns, FAILURE), table.rows_with_failures())
    _write_csv(directory / LIST, COLUMNS, ([row[column] for column in COLUMNS] for row in rows))
    page.write_text(_replaced(text, directory, rows))


def check(page: Path, text: str, *, renew: bool) -> None:
    """Raises ValueError when the page has no markers, or no list of the tables that are to stay."""
    inside(text)
    if renew and not (listed := page.with_suffix("") / LIST).exists():
        raise ValueError(f"{listed} does not exist: write the whole document first")


def inside(text: str) -> str:
    """The text between the markers. Raises ValueError when there are none."""
    _, begin, rest = text.partition(BEGIN)
    if not begin or END not in rest:
        raise ValueError("it has no markers to write between")
    return rest.partition(END)[0]


def count_rows(file: Path) -> tuple[int, int]:
    """How many rows a table's file has, and how many of them fail."""
    with file.open(newline="") as opened:
        failures = [row[FAILURE] for row in csv.DictReader(opened)]
    return len(failures), sum(map(bool, failures))


def number_of(title: str) -> int:
    """The number that a table's title or a section's heading begins with."""
    found = _NUMBER.match(title)
    if found is None:
        raise ValueError(f"a section without a number: {title[:60]!r}")
    return int(found[1])


def file_name(title: str) -> str:
    """The file of the table with this title, such as 05-limits-that-the-lab-sets.csv."""
    words = re.findall(r"\w+", title.replace("'", "").lower())
    return f"{number_of(title):02d}-{'-'.join(words[1:])}.csv"


def _entry(table: Table, conditions: Conditions) -> dict[str, str]:
    return {
        "file": file_name(table.title),
        "title": table.title,
        "note": table.summary,
        "measured_again": str(table.retaken),
        "disturbed": str(table.disturbed),
        "measured": conditions.measured,
        "conditions": conditions.machine,
    }


def _read_list(directory: Path) -> list[dict[str, str]]:
    with (directory / LIST).open(newline="") as opened:
        return list(csv.DictReader(opened))


def _write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def _replaced(text: str, directory: Path, rows: Sequence[Mapping[str, str]]) -> str:
    """The page with a line for each of these tables, in its section, and the sum of all of them above.

    A section without a table is kept if it has prose.
    """
    head, *sections = _HEADING.split(inside(text))
    parts = {}
    for section in sections:
        heading, _, rest = _LINE.sub("", section).partition("\n")
        if rest.strip():
            parts[number_of(heading)] = [heading, rest.strip("\n")]
    for row in rows:
        prose = parts.get(number_of(row["title"]), [])[1:]
        parts[number_of(row["title"])] = [f"### {row['title']}", *prose, _line(row, directory)]
    before, _, rest = text.partition(BEGIN)
    total = _sum(count_rows(directory / row["file"]) for row in rows)
    head = _SUM.sub("", head).strip("\n")
    paragraphs = [total, *([head] if head else []), *(part for _, section in sorted(parts.items()) for part in section)]
    return before + BEGIN + "\n" + "\n\n".join(paragraphs) + "\n\n" + END + rest.partition(END)[2]


def _line(row: Mapping[str, str], directory: Path) -> str:
    """What is said of a table on the page: how many rows it has, how many fail, and when it was measured."""
    rows, failures = count_rows(directory / row["file"])
    number = "1 row" if rows == 1 else f"{rows} rows"
    failing = f"**{failures} failing**" if failures else "none failing"
    return f"[{number}]({directory.name}/{row['file']}), {failing}; measured {row['measured']}."


def _sum(counts: Iterable[tuple[int, int]]) -> str:
    counted = list(counts)
    rows, failures = sum(rows for rows, _ in counted), sum(failures for _, failures in counted)
    return f"{f'**{failures} failures**' if failures else 'No failures'} in {rows} rows."
