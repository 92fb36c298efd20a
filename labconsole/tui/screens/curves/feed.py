"""Runs into curves: those that were taken in once are not taken in again while the filter stays."""

from __future__ import annotations

from labconsole.measure.curves import CurveData, Curves, CurveSpec
from labconsole.model.query import Query
from labconsole.model.record.summary import RunSummary


class CurveFeed:
    """What was taken in so far, for one filter. Works in a thread, one call at a time."""

    def __init__(self) -> None:
        self._data = CurveData()
        self._taken: set[str] = set()
        self._of: tuple[str, int] | None = None

    def curves(self, runs: list[RunSummary], query: Query, epoch: int, spec: CurveSpec) -> Curves:
        """The curves of these runs; of the same filter as before only what is new is taken in."""
        if self._of != (query.text, epoch) or len(self._taken) > len(runs):
            self._data, self._taken, self._of = CurveData(), set(), (query.text, epoch)
        fresh = [run for run in runs if run.run_id not in self._taken]
        self._data.add(query.select(fresh))
        self._taken.update(run.run_id for run in fresh)
        return self._data.curves(spec)
