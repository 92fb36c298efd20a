"""Forecast of a search: its next trial and about how many remain, found by running it again on what is known. Blocking.

The procedure makes the same requests whenever it gets the same answers, so its next request after a trial without loss
is exact. After a trial with loss, the next load depends on the rate that it forwarded, so the forecast is approximate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from labconsole.experiments.search.goals import LoadTrial
from labconsole.experiments.search.sequence import (
    BACK_TO_BACK,
    LOAD,
    REHEARSED_SHARE,
    SearchFindings,
    run_search,
)
from labconsole.model.plan.search import Search
from labconsole.model.record.search import StreamLatency
from labconsole.units import format_count

Taken = Sequence[tuple[str, LoadTrial]]


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast as text, and about how many trials are left, including the one under way."""

    words: tuple[str, ...]
    trials: int


class _NextTrial(Exception):
    """The trial after the one under way: test, and load or packets per source."""

    def __init__(self, test: str, at: float) -> None:
        super().__init__(test, at)
        self.question = test, at


class _Known:
    """A bench that answers with the measured trials, then with ``then(number from 0, test, load, duration)``."""

    def __init__(self, taken: Taken, then: Callable[[int, str, float, float], LoadTrial], line_pps: float) -> None:
        self._taken, self._then, self._line_pps = taken, then, line_pps
        self._number = 0

    def trial(self, test: str, duration_s: float, load_pps: float) -> LoadTrial:
        return self._next(test, load_pps, duration_s)

    def burst(self, packets: int) -> LoadTrial:
        return self._next(BACK_TO_BACK, self._line_pps, packets / self._line_pps)

    def delays(self, run_id: str) -> Sequence[StreamLatency]:
        return ()

    def _next(self, test: str, load_pps: float, duration_s: float) -> LoadTrial:
        number, self._number = self._number, self._number + 1
        if number < len(self._taken):
            return self._taken[number][1]
        return self._then(number - len(self._taken), test, load_pps, duration_s)


def forecast_search(requested: Search, taken: Taken, *, line_pps: float, sources: int) -> Forecast:
    """Forecast the search after these trials, with the next one under way."""
    share = _share(taken, line_pps)

    def question(*, passes: bool) -> tuple[str, float] | None:
        def then(number: int, test: str, load_pps: float, duration_s: float) -> LoadTrial:
            sent = max(1, round(load_pps * duration_s))
            if number == 0:
                kept = sent if passes else min(sent - 1, round(sent * min(0.9, share * line_pps / load_pps)))
                return _build_trial(load_pps, duration_s, sent, kept, sources)
            raise _NextTrial(test, sent if test == BACK_TO_BACK else load_pps)

        try:
            run_search(requested, _Known(taken, then, line_pps), SearchFindings(), line_pps=line_pps, sources=sources)
        except _NextTrial as exc:
            return exc.question
        return None

    def rehearsed(number: int, test: str, load_pps: float, duration_s: float) -> LoadTrial:
        sent = max(1, round(load_pps * duration_s))
        most = share * (requested.back_to_back.trial_s if test == BACK_TO_BACK else duration_s) * line_pps
        return _build_trial(load_pps, duration_s, sent, min(sent, round(most)), sources)

    findings = SearchFindings()
    run_search(requested, _Known(taken, rehearsed, line_pps), findings, line_pps=line_pps, sources=sources)
    passing, failing = question(passes=True), question(passes=False)
    if passing == failing:
        texts: tuple[str, ...] = (_format_question(passing),)
    else:
        about = "about " if failing is not None and failing[0] == LOAD else ""
        texts = (f"if ✓ {_format_question(passing)}", f"if ✗ {about}{_format_question(failing)}")
    return Forecast(texts, max(1, len(findings.trials) - len(taken)))


def _share(taken: Taken, line_pps: float) -> float:
    """Return the assumed capacity as a share of the line rate, between what passed and what did not."""
    loads = [(trial.load_pps, trial.missing_ratio == 0) for test, trial in taken if test == LOAD]
    failed = min((load for load, passed in loads if not passed), default=None)
    passed = max((load for load, passed in loads if passed and (failed is None or load < failed)), default=None)
    if failed is None:
        return REHEARSED_SHARE if passed is None else 1.0
    if passed is None:
        counts = [trial for test, trial in taken if test == LOAD and trial.load_pps == failed]
        rates = chain((each.measured_packets / each.intended_packets * failed for each in counts), (failed,))
        return min(rates) / line_pps
    return (passed + failed) / 2 / line_pps


def _build_trial(load_pps: float, duration_s: float, sent: int, measured: int, sources: int) -> LoadTrial:
    return LoadTrial(
        run_id="",
        load_pps=load_pps,
        duration_s=duration_s,
        intended_packets=sent * sources,
        offered_packets=sent * sources,
        measured_packets=measured * sources,
        offered_pps=load_pps * sources,
    )


def _format_question(question: tuple[str, float] | None) -> str:
    if question is None:
        return "the search is done"
    test, at = question
    return f"{'' if test == LOAD else test + ' '}{format_count(round(at))}"
