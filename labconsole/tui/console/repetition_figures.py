"""The repetitions of one point as they come in: per stream and in total, means with their confidence interval.

Only what the arithmetic needs is kept of a record, because a point may be repeated a thousand times. An invalid run
enters no mean; it is counted, so that nobody wonders where it went.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from labconsole.measure.statistics.repetitions import Summary, summarize
from labconsole.model.design_point import DesignPoint
from labconsole.model.record.run import RunRecord, StreamRecord, Total

TOTAL = ""
"""The key of what all streams make together; no stream can have this name."""


@dataclass(slots=True)
class Quantities:
    """One stream's values, one per run that counts; the summaries are None until there is one."""

    offered_pps: list[float] = field(default_factory=list)
    measured_pps: list[float] = field(default_factory=list)
    loss_ratio: list[float] = field(default_factory=list)
    offered: Summary | None = None
    measured: Summary | None = None
    loss: Summary | None = None

    def add(self, part: StreamRecord | Total) -> None:
        """Take one run. What it does not know is left out, and n says so."""
        for values, value in (
            (self.offered_pps, part.offered_pps),
            (self.measured_pps, part.measured_pps),
            (self.loss_ratio, part.loss_ratio),
        ):
            if value is not None:
                values.append(value)
        self.offered, self.measured, self.loss = map(_summary, (self.offered_pps, self.measured_pps, self.loss_ratio))


def _summary(values: Sequence[float]) -> Summary | None:
    return summarize(values) if values else None


class RepetitionFigures:
    """``begin`` with every trial, ``add`` with every record."""

    def __init__(self) -> None:
        self.request: DesignPoint | None = None
        self.planned = 0
        self.done = self.invalid = 0
        self.quantities: dict[str, Quantities] = {}

    @property
    def worth_showing(self) -> bool:
        """True where there is, or will be, something to take a mean of."""
        return self.planned > 1

    def begin(self, request: DesignPoint, repetition: int, repetitions: int) -> None:
        """A trial begins; the first of its point, or another point, begins anew."""
        if repetition == 1 or request != self.request:
            self.request, self.done, self.invalid = request, 0, 0
            self.quantities = {}
        self.planned = repetitions

    def add(self, record: RunRecord) -> None:
        """A trial ended."""
        self.done += 1
        if record.verdict.status == "invalid":
            self.invalid += 1
            return
        for stream in record.streams:
            self.quantities.setdefault(stream.name, Quantities()).add(stream)
        self.quantities.setdefault(TOTAL, Quantities()).add(record.total)
