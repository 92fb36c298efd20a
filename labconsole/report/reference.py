"""Published tables of papers, for comparison. They are from other hardware, and every table says so.

A paper is a file ``reference/NAME.toml``, its tables ``reference/NAME_TABLE.csv``. They appear in tables only, never in
a figure of own runs.
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

    ``source``: the citation, with ``{table}`` for the number of the cited table.
    """

    name: str
    source: str
    spellings: Mapping[str, str]
    tables: Mapping[str, tuple[Mapping[str, str], ...]]

    @property
    def platforms(self) -> tuple[str, ...]:
        """Platforms in the order of the tables, the bare host first."""
        found = dict.fromkeys(row["platform"] for rows in self.tables.values() for row in rows)
        return tuple(sorted(found, key=lambda name: name != "raw"))

    def cited(self, where: int | str = "", how: str = "") -> str:
        """The note under values shown next to the paper's. ``where``: the number of its table, or ``figure 2``; empty
        for its text. ``how``: remarks on the paper's values.
        """
        source = self.source.format(table=where) if where else self.source.replace(", {table}", "")
        return f"Paper: {source}{f'; {how}' if how else ''}. {CAUTION}"

    def platform(self, name: str) -> str | None:
        """The platform of this name, ignoring case, also in the paper's own spelling."""
        low = name.casefold()
        low = self.spellings.get(low, low)
        return low if low in self.platforms else None


def _shipped() -> list[Traversable]:
    return sorted((files("labconsole.report") / "reference").iterdir(), key=lambda file: file.name)


def papers() -> dict[str, Traversable]:
    """The papers whose tables are shipped, by name, each with its file."""
    return {PurePath(file.name).stem: file for file in _shipped() if file.name.endswith(".toml")}


def load_reference(name: str) -> PaperTables:
    """The shipped tables of a paper. Raises ConfigError if there is none of that name."""
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
    """Own platform names to the paper's: as ``given``, else the same name, ignoring case.

    Raises ConfigError if ``given`` names an unknown platform.
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
    """Which of these platforms match the paper's, by ``names``, and which match none. ``others``: the predicate of
    those, such as ``they have no row``.
    """
    platforms = sorted(set(own), key=lambda name: (name != "raw", name))
    found = [f"{name} is its {names[name]}" for name in platforms if name in names]
    rest = [name for name in platforms if name not in names]
    sentence = "Platforms are matched to the paper's by name, or as --reference-map OWN=THEIRS says"
    sentence += f": {', '.join(found)}." if found else "; none here is matched."
    return f"{sentence} Not matched: {', '.join(rest)}; {others}." if rest else sentence


UNMATCHED_NOTE = "what the paper says stands beside them whatever platform it is of"
"""Predicate of unmatched platforms, in tables of sentences."""

NO_ROW = "they have no row"
"""Predicate of unmatched platforms, in tables of numbers."""


def format_printed_value(row: Mapping[str, str]) -> str:
    """A number that a paper's text prints, with its subject: ``loss of bandwidth: about 20 %, with 90 guests``."""
    unit = {"percent": " %", "ratio": " times", "per_s": " per second"}.get(row["unit"], f" {row['unit']}")
    relation = "" if row["relation"] == "equal" else f"{row['relation']} "
    guests = int(row["guests"])
    many = f", with {guests} guest{'s' if guests > 1 else ''}" if guests else ""
    return f"{row['quantity']}: {relation}{row['value']}{unit}{many}"
