"""Statistics over the repetitions of one point as they arrive: means with confidence interval, per stream and in total.

Only the values needed for the computation are kept of a record, because a point may be repeated a thousand times. An
invalid run enters no mean, but it is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from labconsole.measure.statistics.repetitions import Summary, summarize
from labconsole.model.design_point import DesignPoint
from labconsole.model.record.run import RunRecord, StreamRecord, Total

TOTAL = ""
"""The key of the total over all streams. No stream can have this name."""


@dataclass(slots=True)
class Quantities:
    """One stream's values, one per run that counts. The summaries are None until there is one."""

    offered_pps: list[float] = field(default_factory=list)
    measured_pps: list[float] = field(default_factory=list)
    loss_ratio: list[float] = field(default_factory=list)
    one_way_ns: list[tuple[float, float]] = field(default_factory=list)
    pdv_ns: list[tuple[float, float]] = field(default_factory=list)
    offered: Summary | None = None
    measured: Summary | None = None
    loss: Summary | None = None

    def add(self, part: StreamRecord | Total) -> None:
        """Add one run. Unknown values are left out, and n shows it."""
        for values, value in (
            (self.offered_pps, part.offered_pps),
            (self.measured_pps, part.measured_pps),
            (self.loss_ratio, part.loss_ratio),
        ):
            if value is not None:
                values.append(value)
        self.offered, self.measured, self.loss = map(_summary, (self.offered_pps, self.measured_pps, self.loss_ratio))
        delay = part.delay if isinstance(part, StreamRecord) else None
        if delay is not None:
            self.pdv_ns.append((delay.pdv_ns.p50, delay.pdv_ns.p99))
            if delay.one_way_ns is not None:
                self.one_way_ns.append((delay.one_way_ns.p50, delay.one_way_ns.p99))

    def delay_ns(self, *, one_way: bool) -> tuple[float, float] | None:
        """Median and 99th percentile, each the mean over the runs: of the one-way delay, or of its variation (PDV)."""
        values = self.one_way_ns if one_way else self.pdv_ns
        return (fmean(p50 for p50, _ in values), fmean(p99 for _, p99 in values)) if values else None


def _summary(values: Sequence[float]) -> Summary | None:
    return summarize(values) if values else None


class RepetitionFigures:
    """Call ``begin`` with every trial and ``add`` with every record."""

    def __init__(self) -> None:
        self.request: DesignPoint | None = None
        self.planned = 0
        self.done = self.invalid = 0
        self.quantities: dict[str, Quantities] = {}

    @property
    def is_worth_showing(self) -> bool:
        """Whether there is, or will be, something to average."""
        return self.planned > 1

    @property
    def one_way(self) -> bool:
        """Whether every run has the one-way delay of every stream. Otherwise only its variation can be compared."""
        known = [each for each in self.quantities.values() if each.pdv_ns]
        return bool(known) and all(len(each.one_way_ns) == len(each.pdv_ns) for each in known)

    def begin(self, request: DesignPoint, repetition: int, repetitions: int) -> None:
        """Begin a trial. The first trial of its point, or another point, starts over."""
        if repetition == 1 or request != self.request:
            self.request, self.done, self.invalid = request, 0, 0
            self.quantities = {}
        self.planned = repetitions

    def add(self, record: RunRecord) -> None:
        """Add a trial that ended."""
        self.done += 1
        if record.verdict.status == "invalid":
            self.invalid += 1
            return
        for stream in record.streams:
            self.quantities.setdefault(stream.name, Quantities()).add(stream)
        self.quantities.setdefault(TOTAL, Quantities()).add(record.total)
