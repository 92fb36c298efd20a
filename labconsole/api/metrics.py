"""Metrics in OpenMetrics' format, of a store's contents and the progress of plans. Never of the unit under
test itself.

They are computed on the operator's machine from data that it already has: no node is queried for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from labconsole.engine.execution.progress import Progress
from labconsole.measure.admission import admit
from labconsole.measure.groups import is_search_trial
from labconsole.model.record.summary import RunSummary
from labconsole.report.points import PointSummary, make_points
from labconsole.store.reading import StoredRuns
from labconsole.text.sanitize import sanitize_line

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

POINT_LABELS: Final = (
    "testbed",
    "plan",
    "platform",
    "frame_size_bytes",
    "includes_fcs",
    "sources",
    "target",
    "background",
)
POINT_METRICS: Final = {
    "labconsole_forwarding_bps": "Mean forwarding rate of a design point on the wire, over its set-ups",
    "labconsole_forwarding_ci_low_bps": "Lower bound of its 95 % interval",
    "labconsole_forwarding_ci_high_bps": "Upper bound of its 95 % interval",
    "labconsole_loss_ratio": "Share of the offered packets that the unit under test lost",
    "labconsole_set_ups": "Set-ups with a trial that enters the mean",
}
PLAN_METRICS: Final = {
    "labconsole_plan_trials": "Trials of a plan that is being measured, by state",
    "labconsole_plan_left_seconds": "Estimated time until the plan is finished",
    "labconsole_trial_offered_bps": "Load offered in the last trial, on the wire",
    "labconsole_trial_measured_bps": "Rate that arrived in the last trial, on the wire",
    "labconsole_trial_loss_ratio": "Share of the last trial's packets that was lost, wherever they were lost",
}


def family(name: str, description: str, labels: Sequence[str]) -> GaugeMetricFamily:
    """An empty gauge."""
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(name, description, labels=labels)


class StoreMetrics:
    """Metrics of the runs of a store. Recomputed only if runs were added since the last time."""

    def __init__(self, store: StoredRuns) -> None:
        self._store = store
        self._seen: tuple[int, str] | None = None
        self._kept: list[Any] = []

    def collect(self) -> list[Any]:
        """Its families; unknown values have no sample. Blocking."""
        newest = self._store.list(limit=1)
        seen = (self._store.count(), newest[0].run_id if newest else "")
        if seen != self._seen:
            self._kept, self._seen = self._families(), seen
        return self._kept

    def _families(self) -> list[Any]:
        runs = self._store.list()
        counted = family("labconsole_runs", "Saved runs", ("testbed", "plan", "platform", "verdict"))
        found = Counter(_clean(run.testbed, run.plan_name or "", run.platform, run.verdict) for run in runs)
        for labels, many in sorted(found.items()):
            counted.add_metric(labels, many)
        return [counted, *_build_point_metrics(runs)]


def _build_point_metrics(runs: Sequence[RunSummary]) -> list[Any]:
    families = {name: family(name, description, POINT_LABELS) for name, description in POINT_METRICS.items()}
    admission = admit(runs)
    by_plan: dict[str, list[RunSummary]] = {}
    for run in runs:
        if run.run_id not in admission.left_out and not is_search_trial(run):
            by_plan.setdefault(run.plan_name or "", []).append(run)
    for plan, runs_of_plan in sorted(by_plan.items()):
        for point in _newest(make_points(runs_of_plan, (), admission.stretches), runs_of_plan):
            values = (
                point.rate_bps.mean,
                point.rate_bps.ci_low,
                point.rate_bps.ci_high,
                None if point.loss is None or point.loss_of != "uut" else point.loss.ratio,
                point.set_ups,
            )
            for gauge, value in zip(families.values(), values, strict=True):
                if value is not None:
                    gauge.add_metric(_labels(plan, point), value)
    return list(families.values())


def _newest(points: Iterable[PointSummary], runs: Iterable[RunSummary]) -> Iterator[PointSummary]:
    """For each point under several conditions (kernels, generators, durations, …) the one that was measured last."""
    begun = {run.run_id: run.started_at for run in runs}
    found: dict[tuple[str, ...], PointSummary] = {}
    for point in sorted(points, key=lambda each: max(begun[run_id] for run_id in each.run_ids)):
        found[_labels("", point)] = point
    return iter(found.values())


def _labels(plan: str, point: PointSummary) -> tuple[str, ...]:
    design = point.design
    return _clean(
        design.conditions.testbed or "",
        plan,
        design.platform,
        str(design.frame.bytes),
        "true" if design.frame.includes_fcs else "false",
        str(design.sources),
        str(design.target_bps),
        design.background,
    )


def _clean(*labels: str) -> tuple[str, ...]:
    """Labels sanitized for a page of metrics: names are from anyone who wrote to the store."""
    return tuple(map(sanitize_line, labels))


class PlanMetrics:
    """Metrics of plans that are being measured. ``seen`` takes the progress of an execution."""

    def __init__(self) -> None:
        self._last: dict[str, Progress] = {}

    def seen(self, progress: Progress) -> None:
        """Record a plan's progress. Call it from the event loop; collectors read from another thread."""
        before = self._last.get(progress.plan.name)
        keeps = progress.last is None and before is not None and before.last is not None
        if keeps and before is not None:
            progress = replace(progress, last=before.last)
        self._last = {**self._last, progress.plan.name: progress}

    def collect(self) -> list[Any]:
        """Its families."""
        labels = {"labconsole_plan_trials": ("plan", "state")}
        families = {
            name: family(name, description, labels.get(name, ("plan",))) for name, description in PLAN_METRICS.items()
        }
        trials, left_s, *of_trial = families.values()
        for plan, progress in self._last.items():
            left = progress.total - progress.done - progress.skipped - progress.left_out
            states = {"done": progress.done, "stored": progress.skipped, "left_out": progress.left_out, "left": left}
            for state, many in states.items():
                trials.add_metric((plan, state), many)
            if progress.left_s is not None:
                left_s.add_metric((plan,), progress.left_s)
            total = None if progress.last is None else progress.last.total
            values = () if total is None else (total.offered_bps, total.measured_bps, total.loss_ratio)
            for gauge, value in zip(of_trial, values, strict=False):
                if value is not None:
                    gauge.add_metric((plan,), value)
        return list(families.values())
