"""A table of the document: rows that were measured, and which of them are not as they must be."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

YES, NO = "yes", "**no**"


@dataclass
class Table:
    """One section. ``summary`` is a sentence above the rows; ``failures`` are sentences, one per row that fails."""

    title: str
    columns: tuple[str, ...]
    summary: str = ""
    rows: list[tuple[str, ...]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, *cells: object, failure: str | None = None) -> None:
        """One row; ``failure`` says what is wrong with it."""
        assert len(cells) == len(self.columns), cells
        self.rows.append(tuple(harmless(cell) for cell in cells))
        if failure is not None:
            self.failures.append(f"{', '.join(str(cell) for cell in cells[:4])}: {failure}")

    def not_done(self, what: str, why: object) -> None:
        """What could not be measured fails as well: a document with a gap must not look whole."""
        sentence = " ".join(f"{type(why).__name__}: {why}".split() if isinstance(why, BaseException) else [str(why)])
        self.rows.append((f"**{harmless(what)}: not measured**", *[""] * (len(self.columns) - 1)))
        self.failures.append(f"{what}: {sentence[:600]}")

    def lines(self) -> Iterable[str]:
        """As Markdown."""
        yield from (f"### {self.title}", "")
        if self.summary:
            yield from (self.summary, "")
        yield "| " + " | ".join(self.columns) + " |"
        yield "|" + "---|" * len(self.columns)
        yield from ("| " + " | ".join(row) + " |" for row in self.rows)
        yield ""
        if self.failures:
            yield from ("Not as it must be:", "")
            yield from (f"- {harmless(failure)}" for failure in self.failures)
            yield ""


def harmless(cell: object) -> str:
    """A cell that ends no row."""
    return " ".join(str(cell).split()).replace("|", "\\|")


@dataclass(frozen=True)
class Deadline:
    """When the whole run has to be over."""

    at_monotonic_s: float

    @classmethod
    def after(cls, minutes: float) -> Deadline:
        return cls(time.monotonic() + 60 * minutes)

    @property
    def passed(self) -> bool:
        return time.monotonic() > self.at_monotonic_s
