"""Groups runs into repetitions: same design point under same conditions. Pure; curves and reports use it.

The design point is the request. Conditions must be equal, too, before runs may be pooled: duration, testbed with
injected effects, kernel, hypervisor, generator, and the version of the method of computation. Unknown is a value of its
own. Only an explicit ``pool`` combines different conditions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

from labconsole.measure.run_row import RunRow
from labconsole.measure.statistics.set_ups import SetUpMean, mean_over_set_ups
from labconsole.model.design_point import FrameSize
from labconsole.model.plan.search import HASH_PREFIX

STANDING = ("valid", "suspect")
"""Verdicts of runs that enter a mean."""

SEARCH_TRIALS = "trials of searches"

QUANTITIES = ("offered_pps", "offered_bps", "measured_pps", "measured_bps", "loss_ratio")
"""The summarized quantities. Measured is the forwarding rate if a run has it: see ``rate_of``."""

ONE_SET_UP = "one set-up"
"""The set-up of runs that name none, and of plans without blocks: together they are one, and no more."""

Point = TypeVar("Point")
Setting = TypeVar("Setting", bound=Hashable)


class GroupConditions(NamedTuple):
    """Conditions that must be equal in addition to the design point; None if unknown or pooled."""

    duration: float | None
    testbed: str | None
    fingerprint: str | None
    kernel: str | None
    hypervisor: str | None
    generator: str | None
    method: int | None


CONDITIONS = GroupConditions._fields
"""The names under which conditions are pooled (``report --pool``)."""

OF_THE_PLATFORM = ("kernel", "hypervisor")
"""Conditions that belong to a platform: two platforms may differ in them and still be compared."""


class Alike(NamedTuple):
    """The common facts of repetitions: conditions, and the factors of their design point.

    Duration and generator are among the conditions here, because a report may pool them.
    """

    platform: str
    frame: FrameSize
    sources: int
    target_bps: int | Literal["max"]
    background: str
    conditions: GroupConditions


def conditions_of(run: RunRow, pool: Collection[str] = ()) -> GroupConditions:
    """The conditions of a run; those of ``pool`` count as equal."""
    conditions = GroupConditions(
        run.duration_s, run.testbed, run.testbed_fingerprint, run.uut_kernel, run.hypervisor, run.generator, run.method
    )
    return conditions._replace(**dict.fromkeys(pool)) if pool else conditions


def design_of(run: RunRow, pool: Collection[str] = ()) -> Alike | None:
    """The common facts of a run and its repetitions, or None if its frames had no single size."""
    if run.frame is None:
        return None
    return Alike(
        run.platform,
        run.frame,
        run.sources,
        "max" if run.target_bps is None else run.target_bps,
        run.background,
        conditions_of(run, pool),
    )


def rate_of(run: RunRow) -> tuple[float, float] | None:
    """A run's forwarding rate in packets and bits per second, or None if unknown.

    It is over the window of arrivals (RFC 2285), but over the sending time in runs of method 1, and if fewer than two
    packets arrived, which have no window.
    """
    if run.forwarding_pps is not None and run.forwarding_bps is not None:
        return run.forwarding_pps, run.forwarding_bps
    if run.measured_pps is None or run.measured_bps is None:
        return None
    if (run.method or 1) > 1:
        arrived = arrived_packets(run)
        if arrived is None or arrived > run.sources:
            return None
    return run.measured_pps, run.measured_bps


def arrived_packets(run: RunRow) -> int | None:
    """The number of a run's packets that arrived at the sinks, or None if unknown."""
    if run.offered_packets is None or run.loss_packets is None:
        return None
    return run.offered_packets - run.loss_packets


def block_of(run: RunRow) -> Hashable:
    """The block of a run's set-up in a plan on a testbed, or the one set-up of all runs without a block."""
    if run.set_up is None or not run.block or run.plan_hash is None:
        return ONE_SET_UP
    return (run.block, run.plan_hash, run.testbed_fingerprint)


def occasion_of_block(block: Hashable) -> Hashable:
    """The common key of all blocks of one plan on one occasion: its hash, or the block itself outside plans."""
    return block[1] if isinstance(block, tuple) else block


def _set_up_of(run: RunRow) -> Hashable:
    """A run's set-up itself: an incomplete set-up and its repetition are different."""
    block = block_of(run)
    return block if block == ONE_SET_UP else (run.set_up, block)


def _retake_key(run: RunRow) -> Hashable:
    """The common key of a repeated set-up and the one that it replaces, or None outside blocks."""
    block = block_of(run)
    return None if block == ONE_SET_UP else (block, run.platform, run.background)


def is_search_trial(run: RunRow) -> bool:
    """Whether the run was measured by a load search, and is no point of a grid."""
    of = run.plan_hash
    return isinstance(of, str) and of.startswith(HASH_PREFIX)  # pandas represents a missing text by another type


_FORMATTERS: dict[str, Callable[[object], str]] = {
    "duration": lambda value: f"{value:g} s",
    "testbed": str,
    "fingerprint": lambda value: f"testbed {str(value)[:8]}",
    "kernel": lambda value: f"kernel {value}",
    "hypervisor": str,
    "generator": str,
    "method": lambda value: f"method {value}",
}


def format_condition(name: str, value: object) -> str:
    """One condition as part of a name: ``kernel 6.1.0``, ``60 s``."""
    return f"{name} unknown" if value is None else _FORMATTERS[name](value)


def disambiguate_platforms(designs: Iterable[Alike]) -> dict[tuple[str, GroupConditions], str]:
    """The name of each platform under each of its conditions: ``raw``, or ``raw (kernel 6.1.0, 60 s)``.

    Only differences are named. Conditions that belong to a platform (kernel, hypervisor) are named if that platform has
    several; other conditions are named if anything differs in them.
    """
    found = dict.fromkeys((design.platform, design.conditions) for design in designs)
    common = _differing([conditions for _, conditions in found], [c for c in CONDITIONS if c not in OF_THE_PLATFORM])
    if "testbed" in common and "fingerprint" in common and _one_to_one(found):
        common.remove("fingerprint")
    names = {}
    for platform, conditions in found:
        own = _differing([own_conditions for name, own_conditions in found if name == platform], OF_THE_PLATFORM)
        parts = [format_condition(name, getattr(conditions, name)) for name in CONDITIONS if name in (*common, *own)]
        names[platform, conditions] = f"{platform} ({', '.join(parts)})" if parts else platform
    return names


def _differing(every: Collection[GroupConditions], names: Iterable[str]) -> list[str]:
    return [name for name in names if len({getattr(conditions, name) for conditions in every}) > 1]


def _one_to_one(found: Iterable[tuple[str, GroupConditions]]) -> bool:
    """Whether each testbed name has one fingerprint: then the name is sufficient."""
    pairs = {(conditions.testbed, conditions.fingerprint) for _, conditions in found}
    return len(pairs) == len({testbed for testbed, _ in pairs})


@dataclass(slots=True)
class Repetitions:
    """The runs of one design point, by set-up. A summary is computed again only after more runs were added."""

    run_ids: list[str] = field(default_factory=list)
    set_ups: list[Hashable] = field(default_factory=list)
    values: dict[str, dict[Hashable, list[float]]] = field(default_factory=lambda: {name: {} for name in QUANTITIES})
    suspect: set[str] = field(default_factory=set)
    """The ids of suspect runs among them."""
    _summaries: dict[str, tuple[int, SetUpMean | None]] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.run_ids)

    def add(self, run: RunRow, set_up: Hashable, known: Iterable[float | None]) -> None:
        """Add one run. ``known``: its values in the order of QUANTITIES."""
        self.run_ids.append(run.run_id)
        self.set_ups.append(set_up)
        if run.verdict == "suspect":
            self.suspect.add(run.run_id)
        for name, value in zip(QUANTITIES, known, strict=True):
            if value is not None:
                self.values[name].setdefault(set_up, []).append(value)

    def drop(self, set_up: Hashable) -> int:
        """Forget the runs of a set-up. Returns their number."""
        kept = [place for place, other in enumerate(self.set_ups) if other != set_up]
        gone = self.runs - len(kept)
        if gone:
            self.run_ids = [self.run_ids[place] for place in kept]
            self.set_ups = [self.set_ups[place] for place in kept]
            self.suspect.intersection_update(self.run_ids)
            for other in self.values.values():
                other.pop(set_up, None)
            self._summaries.clear()
        return gone

    def summary(self, quantity: str) -> SetUpMean | None:
        """The mean over set-ups, or None if no repetition has this quantity."""
        kept = self._summaries.get(quantity)
        if kept is None or kept[0] != self.runs:
            known = self.values[quantity]
            kept = self._summaries[quantity] = (self.runs, mean_over_set_ups(known) if known else None)
        return kept[1]


class DesignPoints:
    """Runs by design point as they arrive; ``add`` adds more.

    ``left_out``: runs that enter nothing, by reason, and trials of searches. ``unknown``: standing runs that lack a
    rate. Set-ups need not be complete here: while a plan runs, its newest never is. Of several set-ups for the same
    place of a plan the last enters. A search measures many loads a few times each: its trials enter only if there is
    nothing else.
    """

    def __init__(self, runs: Iterable[RunRow] = ()) -> None:
        self._points: dict[Alike, Repetitions] = {}
        self._searched: dict[Alike, Repetitions] = {}
        self._left_out: Counter[str] = Counter()
        self._last: dict[Hashable, tuple[str, Hashable]] = {}
        """The time of the newest run in the last set-up, and that set-up, by what is set up."""
        self.unknown = 0
        self.add(runs)

    @property
    def points(self) -> dict[Alike, Repetitions]:
        """Every design point with its repetitions."""
        return self._points or self._searched

    @property
    def left_out(self) -> dict[str, int]:
        """The numbers of runs that do not enter, by reason."""
        trials = sum(repetitions.runs for repetitions in self._searched.values()) if self._points else 0
        return {**self._left_out, **({SEARCH_TRIALS: trials} if trials else {})}

    def add(self, runs: Iterable[RunRow]) -> None:
        """Add runs. Those that do not enter are only counted."""
        for run in runs:
            superseded = self._is_superseded(run)
            why = find_exclusion_reason(run)
            if why == NO_RATE:
                self.unknown += 1
                continue
            if why is not None:
                self._left_out[run.verdict if why == "invalid" else WHY[why]] += 1
                continue
            if superseded:
                self._left_out[WHY["set_up_broke_off"]] += 1
                continue
            key, rate = design_of(run), rate_of(run)
            assert key is not None and rate is not None
            points = self._searched if is_search_trial(run) else self._points
            there = points.get(key)
            if there is None:
                there = points[key] = Repetitions()
            there.add(run, _set_up_of(run), (run.offered_pps, run.offered_bps, *rate, run.loss_ratio))

    def _is_superseded(self, run: RunRow) -> bool:
        """Whether a later set-up replaced this run's. Removes an earlier set-up that this run replaces."""
        place, set_up = _retake_key(run), _set_up_of(run)
        if place is None:
            return False
        at, last = self._last.get(place, (run.started_at, set_up))
        if set_up != last and run.started_at < at:
            return True
        if set_up != last:
            gone = sum(repetitions.drop(last) for repetitions in self._points.values())
            self._left_out.update({WHY["set_up_broke_off"]: gone} if gone else {})
            self._points = {design: remaining for design, remaining in self._points.items() if remaining.runs}
        self._last[place] = (max(at, run.started_at), set_up)
        return False


NO_RATE = "no_rate"
MIXED_SIZES = "mixed_sizes"

SIDES = ("lost_at_source", "lost_at_sink", "instrument_limited")
"""Reasons by which a run has no meaning for the platform: loss outside it, or loads beyond the calibration."""

WHY: dict[str, str] = {
    "invalid": "the run is invalid",
    "pilot": "a pilot's trial, which fixes loads and enters no mean",
    "telemetry": "a trial for telemetry",
    NO_RATE: "a rate is not known",
    MIXED_SIZES: "frames of several sizes, which are not a point of a grid",
    "lost_at_source": "packets were lost at the source, beyond tolerance",
    "lost_at_sink": "packets were lost at the sink, beyond tolerance",
    "instrument_limited": "beyond the calibrated instrument",
    "set_up_broke_off": "set-up interrupted",
    "set_up_contradicts": "set-up contradicts itself: one id for several platforms, backgrounds, testbeds or blocks",
    "doubled_place": "several runs claim the same place in a plan",
    "attempts_missing": "a later attempt without the earlier ones",
    "superseded": "a later attempt replaces it",
    "outside_blocks": "not from a block, while other runs are",
}
"""Why a run enters no mean: the code for tables and files, and its description."""


def find_exclusion_reason(run: RunRow) -> str | None:
    """Why this run by itself enters no mean, a key of WHY, or None if it may enter."""
    if run.verdict not in STANDING:
        return "invalid"
    if run.role in ("pilot", "telemetry"):
        return run.role
    if run.offered_pps is None or run.offered_bps is None or rate_of(run) is None:
        return NO_RATE
    if run.frame is None:
        return MIXED_SIZES
    if run.reason_codes:
        return next((code for code in SIDES if code in run.reason_codes), None)
    return None


def maxima(
    points: Iterable[Point], setting: Callable[[Point], Setting], mean: Callable[[Point], float]
) -> dict[Setting, Point]:
    """For each setting (all factors except the load) the point with the highest mean; of equal ones the first."""
    best: dict[Setting, Point] = {}
    for point in points:
        key = setting(point)
        best_point = best.get(key)
        if best_point is None or mean(point) > mean(best_point):
            best[key] = point
    return best
