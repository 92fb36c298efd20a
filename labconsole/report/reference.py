"""Papers' published tables, to stand beside one's own. They were taken on other hardware, and every table says so.

A paper is a file ``reference/NAME.toml``, its tables ``reference/NAME_TABLE.csv``. They stand in tables only, never in
a figure of one's own runs.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePath

from labconsole.errors import ConfigError

CAUTION = "The hardware and the versions differ: the paper's column is no target and its difference no error."


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTables:
    """The rows of a paper's ``tables``, by the table's name. ``spellings``: its own names for platforms to the tables'.

    ``source``: in which ``{table}`` stands for the number of the table that is cited.
    """

    name: str
    source: str
    spellings: Mapping[str, str]
    tables: Mapping[str, tuple[Mapping[str, str], ...]]

    @property
    def platforms(self) -> tuple[str, ...]:
        """In the order of the tables, the bare host first."""
        found = dict.fromkeys(row["platform"] for rows in self.tables.values() for row in rows)
        return tuple(sorted(found, key=lambda name: name != "raw"))

    def cited(self, where: int | str = "", how: str = "") -> str:
        """The note under what stands beside the paper's. ``where``: the number of its table, or ``figure 2``; nothing:
        its text. ``how``: what there is to know of the paper's.
        """
        source = self.source.format(table=where) if where else self.source.replace(", {table}", "")
        return f"Paper: {source}{f'; {how}' if how else ''}. {CAUTION}"

    def platform(self, name: str) -> str | None:
        """The platform of this name, in any case and in the paper's own spelling."""
        low = name.casefold()
        low = self.spellings.get(low, low)
        return low if low in self.platforms else None


def _shipped() -> list[Traversable]:
    return sorted((files("labconsole.report") / "reference").iterdir(), key=lambda file: file.name)


def papers() -> dict[str, Traversable]:
    """Those whose tables are shipped, each with its file, by name."""
    return {PurePath(file.name).stem: file for file in _shipped() if file.name.endswith(".toml")}


def load_reference(name: str) -> PaperTables:
    """The shipped tables of a paper. Raises ConfigError when there is none of that name."""
    known = papers()
    if name not in known:
        allowed = ", ".join(known)
        raise ConfigError("is not a paper with stored tables", key="--reference", value=name, allowed=allowed)
    tables = {}
    for file in _shipped():
        paper, _, table = PurePath(file.name).stem.partition("_")
        if paper == name and table:
            lines = file.read_text(encoding="utf-8").splitlines()
            tables[table] = tuple(csv.DictReader(line for line in lines if not line.startswith("#")))
    return PaperTables(name=name, tables=tables, **tomllib.loads(known[name].read_text(encoding="utf-8")))


def match_platforms(own: Sequence[str], paper: PaperTables, given: Mapping[str, str]) -> dict[str, str]:
    """One's own platform names to the paper's: as ``given``, else the same name in any case.

    Raises ConfigError when ``given`` names a platform that is not there.
    """
    found = {name: theirs for name in own if (theirs := paper.platform(name)) is not None}
    for name, wanted in given.items():
        theirs = paper.platform(wanted)
        if theirs is None:
            allowed = ", ".join(paper.platforms)
            raise ConfigError("is not a platform of the paper", key="--reference-map", value=wanted, allowed=allowed)
        if name not in own:
            raise ConfigError(
                "is not a platform of these runs", key="--reference-map", value=name, allowed=", ".join(own)
            )
        found[name] = theirs
    return found


def describe_matching(own: Iterable[str], names: Mapping[str, str], others: str) -> str:
    """Which of these platforms is which of the paper's, by ``names``, and which are not matched; ``others``: what is
    so of those, such as ``they have no row``.
    """
    platforms = sorted(set(own), key=lambda name: (name != "raw", name))
    found = [f"{name} is its {names[name]}" for name in platforms if name in names]
    rest = [name for name in platforms if name not in names]
    words = "Platforms are matched to the paper's by name, or as --reference-map OWN=THEIRS says"
    words += f": {', '.join(found)}." if found else "; none here is matched."
    return f"{words} Not matched: {', '.join(rest)}; {others}." if rest else words


UNMATCHED_NOTE = "what the paper says stands beside them whatever platform it is of"
"""Of platforms that are not matched, in tables of sentences."""

NO_ROW = "they have no row"
"""The same in tables of numbers."""


def format_printed_value(row: Mapping[str, str]) -> str:
    """A number that a paper's text prints, with what it is of: ``loss of bandwidth: about 20 %, with 90 guests``."""
    unit = {"percent": " %", "ratio": " times", "per_s": " per second"}.get(row["unit"], f" {row['unit']}")
    relation = "" if row["relation"] == "equal" else f"{row['relation']} "
    guests = int(row["guests"])
    many = f", with {guests} guest{'s' if guests > 1 else ''}" if guests else ""
    return f"{row['quantity']}: {relation}{row['value']}{unit}{many}"
