"""A table of the document: rows that were measured, and which of them fail."""

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

YES, NO = "yes", "no"


@dataclass
class Table:
    """One section. ``summary`` says what its rows are. ``reasons``: for each row why it fails, or empty."""

    title: str
    columns: tuple[str, ...]
    summary: str = ""
    rows: list[tuple[str, ...]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    retaken: int = 0
    disturbed: int = 0
    """Parts that were measured again, and that were kept, though the machine below had taken processors away."""

    def add(self, *cells: object, failure: str | None = None) -> None:
        """One row; ``failure`` says what is wrong with it."""
        assert len(cells) == len(self.columns), cells
        self.rows.append(tuple(join_lines(cell) for cell in cells))
        self.reasons.append("" if failure is None else join_lines(failure) or "fails")

    def judge(self, platform: str, guests: int, known: str, found: str, allowed: str, *, right: bool) -> None:
        """One row about guests: what is known beforehand, what was found, and whether that is within what is allowed."""
        answer = YES if right else NO
        self.add(platform, guests, known, found, allowed, answer, failure=None if right else f"found {found}")

    def not_done(self, what: str, why: object) -> None:
        """What could not be measured fails as well: a document with a gap must not look whole."""
        sentence = f"{type(why).__name__}: {why}" if isinstance(why, BaseException) else str(why)
        self.add_failure(f"{what}: not measured", sentence)

    def add_failure(self, what: str, why: str) -> None:
        """A row that has no values, only a reason."""
        self.rows.append((join_lines(what), *[""] * (len(self.columns) - 1)))
        self.reasons.append(join_lines(why)[:600])

    @property
    def failures(self) -> list[str]:
        """A sentence for each row that fails."""
        named = zip(self.rows, self.reasons, strict=True)
        return [f"{', '.join(filter(None, row[:4]))}: {reason}" for row, reason in named if reason]

    def rows_with_failures(self) -> Iterable[tuple[str, ...]]:
        """The rows, each with its reason as a last cell."""
        return ((*row, reason) for row, reason in zip(self.rows, self.reasons, strict=True))


def join_lines(cell: object) -> str:
    """A cell in one line."""
    return " ".join(str(cell).split())


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
    table.reasons += made.reasons
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
