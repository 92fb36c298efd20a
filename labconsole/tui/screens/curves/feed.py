"""Curves from runs, incrementally: a run is added only once while the filter stays."""

from __future__ import annotations

from dataclasses import replace

from labconsole.measure.curves import CurveData, Curves, CurveSpec
from labconsole.model.plan.occasions import AT
from labconsole.model.query import Query
from labconsole.model.record.summary import RunSummary


class CurveFeed:
    """The runs added so far, for one filter. Works in a thread, one call at a time."""

    def __init__(self) -> None:
        self._data = CurveData()
        self._taken: set[str] = set()
        self._occasions: set[str] = set()
        self._of: tuple[str, int] | None = None

    def curves(self, runs: list[RunSummary], query: Query, epoch: int, spec: CurveSpec) -> Curves:
        """Return the curves of these runs. With the same filter as before, only new runs are added."""
        if self._of != (query.text, epoch) or len(self._taken) > len(runs):
            self._data, self._taken, self._occasions, self._of = CurveData(), set(), set(), (query.text, epoch)
        fresh = [run for run in runs if run.run_id not in self._taken]
        chosen = query.select(fresh)
        self._data.add(chosen)
        self._taken.update(run.run_id for run in fresh)
        self._occasions.update(run.plan_name for run in chosen if run.plan_name and AT in run.plan_name)
        made = self._data.curves(spec)
        if len(self._occasions) < 2:
            return made
        return replace(made, pooled={**made.pooled, "occasions": tuple(sorted(self._occasions))})
