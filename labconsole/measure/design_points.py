"""Runs of one design point are its repetitions: which runs enter, what they say, where a maximum lies. Pure.

The console's curves and the report group runs here and nowhere else, so that both leave out the same runs and name the
same maximum: over all offered loads, because a platform can collapse beyond it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeVar

from labconsole.measure.statistics import Summary, summarize
from labconsole.model.plan_search import HASH_PREFIX

STANDING = ("valid", "suspect")
"""Verdicts of runs that enter a mean."""

RATES = ("offered_pps", "offered_bps", "measured_pps", "measured_bps")
"""What a run has to know to enter: where it lies, and what came of it."""

SEARCH_TRIALS = "trials of searches"

QUANTITIES = (*RATES, "loss_ratio")

Point = TypeVar("Point")
Setting = TypeVar("Setting", bound=Hashable)


class RunLike(Protocol):
    """What is needed of a run; a summary of the store has it. ``target_bps`` None or "max": no limit."""

    @property
    def run_id(self) -> str: ...
    @property
    def platform(self) -> str: ...
    @property
    def frame_size_bytes(self) -> int | None: ...
    @property
    def frame_size_includes_fcs(self) -> bool: ...
    @property
    def sources(self) -> int: ...
    @property
    def target_bps(self) -> int | Literal["max"] | None: ...
    @property
    def background(self) -> str: ...
    @property
    def generator(self) -> str: ...
    @property
    def testbed(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def offered_pps(self) -> float | None: ...
    @property
    def offered_bps(self) -> float | None: ...
    @property
    def measured_pps(self) -> float | None: ...
    @property
    def measured_bps(self) -> float | None: ...
    @property
    def loss_ratio(self) -> float | None: ...
    @property
    def plan_hash(self) -> str | None: ...


class DesignPoint(NamedTuple):
    """What was asked for, as far as runs that differ in it are no repetitions of each other."""

    platform: str
    frame_size_bytes: int
    includes_fcs: bool
    sources: int
    target_bps: int | Literal["max"]
    background: str
    generator: str
    testbed: str


@dataclass(slots=True)
class Repetitions:
    """The runs of one design point. A summary is made again only when there are more runs than before."""

    run_ids: list[str] = field(default_factory=list)
    values: dict[str, list[float | None]] = field(default_factory=lambda: {name: [] for name in QUANTITIES})
    _summaries: dict[str, tuple[int, Summary | None]] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """How many."""
        return len(self.run_ids)

    def known(self, quantity: str) -> list[float]:
        """The values of those runs that know this quantity, in the order in which they came."""
        return [value for value in self.values[quantity] if value is not None]

    def summary(self, quantity: str) -> Summary | None:
        """None when no repetition knows this quantity."""
        kept = self._summaries.get(quantity)
        if kept is None or kept[0] != self.runs:
            known = self.known(quantity)
            kept = self._summaries[quantity] = (self.runs, summarize(known) if known else None)
        return kept[1]


class DesignPoints:
    """Runs by design point; ``add`` takes more of them.

    ``left_out``: runs that do not stand, by verdict, and trials of searches; ``unknown``: runs that stand but lack a
    rate. A search takes many loads a few times each: its trials enter only where there is nothing else.
    """

    def __init__(self, runs: Iterable[RunLike] = ()) -> None:
        self._points: dict[DesignPoint, Repetitions] = {}
        self._searched: dict[DesignPoint, Repetitions] = {}
        self._left_out: Counter[str] = Counter()
        self.unknown = 0
        self.add(runs)

    @property
    def points(self) -> dict[DesignPoint, Repetitions]:
        """Every design point with its repetitions."""
        return self._points or self._searched

    @property
    def left_out(self) -> dict[str, int]:
        """Runs that do not enter, by why."""
        trials = sum(repetitions.runs for repetitions in self._searched.values()) if self._points else 0
        return {**self._left_out, **({SEARCH_TRIALS: trials} if trials else {})}

    def add(self, runs: Iterable[RunLike]) -> None:
        """Take more runs. Those that do not enter are only counted."""
        for run in runs:
            if run.verdict not in STANDING:
                self._left_out[run.verdict] += 1
                continue
            known = (run.offered_pps, run.offered_bps, run.measured_pps, run.measured_bps)
            if None in known or run.frame_size_bytes is None:
                self.unknown += 1
                continue
            key = DesignPoint(
                run.platform,
                run.frame_size_bytes,
                run.frame_size_includes_fcs,
                run.sources,
                "max" if run.target_bps is None else run.target_bps,
                run.background,
                run.generator,
                run.testbed,
            )
            points = self._searched if is_search_trial(run) else self._points
            there = points.get(key)
            if there is None:
                there = points[key] = Repetitions()
            there.run_ids.append(run.run_id)
            for name, value in zip(QUANTITIES, (*known, run.loss_ratio), strict=True):
                there.values[name].append(value)


def is_search_trial(run: RunLike) -> bool:
    """Whether the run was taken by a load search, and is no point of a grid."""
    of = run.plan_hash
    return isinstance(of, str) and of.startswith(HASH_PREFIX)  # pandas' missing text is no text


def maxima(
    points: Iterable[Point], setting: Callable[[Point], Setting], mean: Callable[[Point], float]
) -> dict[Setting, Point]:
    """For each setting (all factors but the load) the point with the highest mean; of equal ones the first."""
    best: dict[Setting, Point] = {}
    for point in points:
        key = setting(point)
        held = best.get(key)
        if held is None or mean(point) > mean(held):
            best[key] = point
    return best
