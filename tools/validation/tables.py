"""A table of the document: rows that were measured, and which of them are not as they must be."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec

YES, NO = "yes", "**no**"


@dataclass
class Table:
    """One section. ``summary`` is a sentence above the rows; ``failures`` are sentences, one per row that fails."""

    title: str
    columns: tuple[str, ...]
    summary: str = ""
    rows: list[tuple[str, ...]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    retaken: int = 0
    disturbed: int = 0
    """Parts that were measured again, and that stand, though the machine below had taken processors away."""

    def add(self, *cells: object, failure: str | None = None) -> None:
        """One row; ``failure`` says what is wrong with it."""
        assert len(cells) == len(self.columns), cells
        self.rows.append(tuple(harmless(cell) for cell in cells))
        if failure is not None:
            self.failures.append(f"{', '.join(str(cell) for cell in cells[:4])}: {failure}")

    def judge(self, platform: str, guests: int, known: str, found: str, allowed: str, *, right: bool) -> None:
        """One row about guests: what is known beforehand, what was found, and whether that is within what is allowed."""
        told = YES if right else NO
        self.add(platform, guests, known, found, allowed, told, failure=None if right else f"found {found}")

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
        if self.retaken or self.disturbed:
            stands = f"; {self.disturbed} stand though it was so to the last" if self.disturbed else ""
            yield (
                f"While the hypervisor below this machine took more than {MOST_STOLEN_RATIO:.0%} of its processors' time, "
                f"what was being measured was measured again, whatever it showed: {self.retaken} times{stands}."
            )
            yield ""
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


MOST_STOLEN_RATIO = 0.01
"""Of all processors' time, taken away by a hypervisor below: known by the kernel's own count, not by any result."""

TRIES = 4


def take(table: Table, deadline: Deadline, what: str, rows: Callable[[Table], None]) -> None:
    """Add these rows; what goes wrong is in the table. Raises TimeoutError at the deadline."""
    if deadline.passed:
        raise TimeoutError("no time was left")
    print(f"  {what}", flush=True)
    for attempt in range(1, TRIES + 1):
        made, before = Table(table.title, table.columns), _ticks()
        try:
            rows(made)
        except Exception as exc:
            made.not_done(what, exc)
        stolen = _stolen_ratio(before)
        if stolen <= MOST_STOLEN_RATIO or attempt == TRIES or deadline.passed:
            break
        print(f"  {what}: {stolen:.1%} of the processors' time was stolen, measured again", flush=True)
        table.retaken += 1
    table.rows += made.rows
    table.failures += made.failures
    table.disturbed += stolen > MOST_STOLEN_RATIO


def _ticks() -> list[int]:
    """user, nice, system, idle, iowait, irq, softirq, steal of all processors."""
    return [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]


def _stolen_ratio(before: list[int]) -> float:
    grown = [now - then for then, now in zip(before, _ticks(), strict=True)]
    return grown[7] / max(1, sum(grown))


OF_GUESTS = ("platform", "guests", "known beforehand", "found", "allowed", "as it must be")
RowMaker = Callable[[Table, str, str, Path], None]
"""Measures a platform, on a lab of this name with this hosts.yaml, and adds its rows."""


def measure(table: Table, deadline: Deadline, wanted: Iterable[tuple[str, RowMaker]], name: str, hosts: Path) -> None:
    """Every row, one platform after the other; what goes wrong is in the table. Raises TimeoutError at the deadline."""
    for platform, row in wanted:
        take(table, deadline, platform, partial(_rows, row, platform, name, hosts))


def _rows(row: RowMaker, platform: str, name: str, hosts: Path, table: Table) -> None:
    row(table, platform, name, hosts)


@contextmanager
def testbed(spec: LabSpec) -> Iterator[tuple[str, Path]]:
    """A lab: its name, and its hosts.yaml beside which stores may lie."""
    try:
        status = lab.up(spec)
        with tempfile.TemporaryDirectory() as directory:
            hosts = Path(directory) / "hosts.yaml"
            hosts.write_text(status.hosts_file.read_text())
            yield spec.name, hosts
    finally:
        lab.down(spec.name)
