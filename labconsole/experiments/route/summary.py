"""Summary of trials of routers: rates, loss and comparisons of each point; as plain data, and as reports show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from labconsole.contracts.report import PlottedCurve
from labconsole.experiments.route.points import (
    OUTCOME_CODES,
    RouteComparison,
    RoutePointKey,
    compare_points,
    describe_difference,
    describe_outcome,
    lost_packets,
    route_key,
    sum_pps,
)
from labconsole.experiments.route.rates import build_hops
from labconsole.experiments.route.record import RouteRecord
from labconsole.measure.paired_blocks import (
    Blocks,
    assign_points,
    find_exclusion_code,
    find_varying_fields,
    name_platforms,
    newest_trials,
    sort_key,
)
from labconsole.measure.statistics.bounded_means import lower_bounded, share_over_set_ups
from labconsole.measure.statistics.set_ups import SetUpMean, mean_over_set_ups
from labconsole.model.record.kind import ExperimentRecord
from labconsole.report.captions import build_mark
from labconsole.report.formatting import format_effect
from labconsole.report.material import Material
from labconsole.report.points import platform_order

# -- summary -----------------------------------------------------------------------------------------------------------
# Summary of trials of routers: rates and loss of each point, with intervals over set-ups, and the comparisons.
#
# Uses the newest usable record of each trial, if its verdict is valid. Trials of one crew are one set-up
# (docs/statistics.md). Pure.

V = TypeVar("V")

DISTINGUISHING_FIELDS = (("cpu", "CPU {}"), ("frame_bytes", "{} B"), ("duration_s", "for {:g} s"))
"""Fields of a point that are part of its name if points differ in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterResult:
    """One router at a point. ``forwarded_pps``: while all forward. ``lost_ratio``: of what was sent to it.
    ``inside_ratio``: what was lost in it, of what went into it.
    """

    guest: str
    forwarded_pps: SetUpMean | None
    lost_ratio: SetUpMean | None
    inside_ratio: SetUpMean | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutePointResult:
    """Result of a point.

    ``sent_pps``: offered to all routers. ``lost_ratio``: of what was sent, with the interval that losses have. ``jain``
    has a lower bound alone. ``left_out``: number of excluded trials by code. ``route_ids``: the included trials.
    ``by_outcome``: a code that excludes some because of their outcome, or None.
    """

    key: RoutePointKey
    sum_pps: SetUpMean | None
    sent_pps: SetUpMean | None
    lost_ratio: SetUpMean | None
    jain: SetUpMean | None
    busy_ratio: SetUpMean | None
    switches_per_s: SetUpMean | None
    load_s: SetUpMean | None
    routers: tuple[RouterResult, ...]
    left_out: Mapping[str, int]
    route_ids: tuple[str, ...]
    by_outcome: str | None


@dataclass(frozen=True, kw_only=True)
class RoutesSummary:
    """Everything derived from these trials. ``testbeds``: fingerprint to name. ``superseded``: number of trials with a
    newer record.
    """

    points: tuple[RoutePointResult, ...]
    compared: tuple[RouteComparison, ...]
    testbeds: Mapping[str, str]
    superseded: int

    def name_of(self, key: RoutePointKey) -> str:
        """The platform, with what distinguishes it from others of this name."""
        return ", ".join(self.name_parts(key))

    def name_parts(self, key: RoutePointKey) -> tuple[str, ...]:
        """The parts of that name."""
        return self._names[key]

    @cached_property
    def _names(self) -> dict[RoutePointKey, tuple[str, ...]]:
        keys = [each.key for each in self.points]
        varying = find_varying_fields(keys, DISTINGUISHING_FIELDS)

        def details(key: RoutePointKey) -> list[str]:
            parts = [f"{key.memory_mib} MiB"] if key.memory_mib is not None else []
            return parts + [template.format(getattr(key, name)) for name, template in varying]

        return name_platforms(keys, self.testbeds, details)

    def describe_claim(self, claim: RouteComparison) -> str:
        """One comparison as a line of text."""
        one, other = claim.key, claim.than
        if claim.what == "guests":
            pair = f"{one.guests} routers against {other.guests}, {one.load}, {one.rate}"
        else:
            routers = f"{one.guests} router{'s' if one.guests > 1 else ''}"
            pair = f"{routers}, {' against '.join(claim.loads)}, {one.rate}"
            pair += f", mean over {claim.crossed}" if claim.crossed else ""
        effect = f"{format_effect(claim.effect)}, {claim.effect.blocks} blocks{describe_difference(claim)}"
        return f"{self.name_of(one)}: {pair}: {effect}: {describe_outcome(claim)}"


def summarize_routes(records: Iterable[RouteRecord], family: Sequence[float] = ()) -> RoutesSummary:
    """Summarize trials by point. ``family``: p values of all claims shown together with these; if it is empty, these
    form a family of their own.
    """
    every = sorted(records, key=lambda each: (each.started_at, each.route_id))
    newest = newest_trials(every)
    by_point: dict[RoutePointKey, list[RouteRecord]] = {}
    for key, record in assign_points(newest, route_key):
        by_point.setdefault(key, []).append(record)
    entered = {key: [each for each in group if each.verdict.status == "valid"] for key, group in by_point.items()}
    order = sorted(by_point, key=sort_key)
    margins = {each.plan.margin_ratio for each in newest}
    margin_ratio = margins.pop() if len(margins) == 1 else None
    return RoutesSummary(
        points=tuple(_point(key, by_point[key], entered[key]) for key in order),
        compared=compare_points(order, by_point, entered, Blocks(every), margin_ratio, family),
        testbeds={each.testbed_fingerprint: each.testbed for each in newest},
        superseded=len(every) - len(newest),
    )


def _sent(record: RouteRecord) -> float | None:
    rates = [each.sent_pps for each in record.routers if each.sent_pps is not None]
    return sum(rates) if rates and len(rates) == len(record.routers) else None


def _loading(record: RouteRecord) -> float | None:
    times = [each.load_s for each in record.routers if each.load_s is not None]
    return max(times) if times else None


def _point(key: RoutePointKey, every: Sequence[RouteRecord], entered: Sequence[RouteRecord]) -> RoutePointResult:
    by_set_up: dict[str, list[RouteRecord]] = {}
    for each in entered:
        by_set_up.setdefault(each.set_up_id, []).append(each)

    def by_trial(take: Callable[[RouteRecord], V | None]) -> dict[str, list[V]]:
        values = {name: [take(each) for each in group] for name, group in by_set_up.items()}
        return {name: kept for name, group in values.items() if (kept := [each for each in group if each is not None])}

    def mean(take: Callable[[RouteRecord], float | None]) -> SetUpMean | None:
        values = by_trial(take)
        return mean_over_set_ups(values) if values else None

    def share(take: Callable[[RouteRecord], tuple[int, int] | None]) -> SetUpMean | None:
        return share_over_set_ups(by_trial(take))

    left_out = Counter(
        each.verdict.reasons[0].code for each in every if each.verdict.status != "valid" and each.verdict.reasons
    )
    names = [each.guest for each in entered[0].routers] if entered else []
    jain = mean(lambda record: record.jain)
    return RoutePointResult(
        key=key,
        sum_pps=mean(sum_pps),
        sent_pps=mean(_sent),
        lost_ratio=share(lost_packets),
        jain=None if jain is None else lower_bounded(jain),
        busy_ratio=mean(lambda record: record.busy_ratio),
        switches_per_s=mean(lambda record: record.switches_per_s),
        load_s=mean(_loading),
        routers=tuple(
            RouterResult(
                guest=name,
                forwarded_pps=mean(lambda record, place=place: record.routers[place].forwarded_pps),  # type: ignore[misc]
                lost_ratio=share(lambda record, place=place: build_hops(record.routers[place]).lost_packets),  # type: ignore[misc]
                inside_ratio=share(lambda record, place=place: build_hops(record.routers[place]).inside_packets),  # type: ignore[misc]
            )
            for place, name in enumerate(names)
        ),
        left_out=dict(left_out),
        route_ids=tuple(each.route_id for each in entered),
        by_outcome=find_exclusion_code(OUTCOME_CODES, (each for each in every if each.verdict.status != "valid")),
    )


# -- report data -------------------------------------------------------------------------------------------------------
# Shared parts of the figures and tables of routers. Pure.

KILO = 1e3


def select_records(material: Material) -> list[RouteRecord]:
    """All trials of routers in the report's material."""
    return [record for record in material.of("route") if isinstance(record, RouteRecord)]


def build_summary(material: Material) -> RoutesSummary:
    """Summarize the trials of routers."""
    return summarize_routes(select_records(material), material.evaluation.claims.p_values)


def claimed(experiments: Mapping[str, Sequence[ExperimentRecord]]) -> list[float]:
    """The p values of the comparisons."""
    records = (each for each in experiments.get("route", ()) if isinstance(each, RouteRecord))
    return [each.effect.p for each in summarize_routes(records).compared if each.effect.p is not None]


def sort_points(points: Sequence[RoutePointResult]) -> list[RoutePointResult]:
    """Sort points by platform, in the order of every figure."""
    return sorted(points, key=lambda each: platform_order(each.key.platform))


def curve(
    label: str,
    points: Sequence[RoutePointResult],
    x: Callable[[RoutePointResult], float],
    y: Callable[[RoutePointResult], SetUpMean | None] = lambda point: point.sum_pps,
) -> PlottedCurve:
    """A curve of sums in kpackets/s."""
    marks = [build_mark(x(each), found, scale=KILO) for each in points if (found := y(each)) is not None]
    return PlottedCurve(label, tuple(sorted(marks, key=lambda mark: mark.x)))
