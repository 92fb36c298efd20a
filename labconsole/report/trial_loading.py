"""Loads the trials of a side of a comparison that are not runs, and selects them as its runs are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from types import SimpleNamespace
from typing import Final

from labconsole.contracts.measured import MeasuredKind, MeasuredTrial
from labconsole.model.query import Query
from labconsole.model.record.summary import RunFilter, RunSummary
from labconsole.report.measured_points import select_newest
from labconsole.report.planned_trials import TRIAL_FIELDS
from labconsole.store.writing import RunStore

FILTER_FIELDS: Final = {
    "testbed": "testbed",
    "testbed_fingerprint": "testbed_fingerprint",
    "plan_name": "plan_name",
    "plan_hash": "hash",
}
"""Fields of the store's filter that such trials have, in addition to platform and time."""


def load_selected_trials(
    store: RunStore,
    where: RunFilter,
    query: Query,
    kinds: Iterable[MeasuredKind],
    stored: Sequence[RunSummary],
    selected: Set[str],
) -> tuple[MeasuredTrial, ...]:
    """``stored``: every run of the store. ``selected``: the ids of those that a filter selects."""
    meant = select_trials(load_trials(store, kinds, stored), query, selected)
    return tuple(select_newest(trial for trial in meant if _matches(trial, where)))


def load_trials(store: RunStore, kinds: Iterable[MeasuredKind], stored: Sequence[RunSummary]) -> list[MeasuredTrial]:
    """All trials of these kinds. ``stored``: every run of the store."""
    runs = {run.run_id: run for run in stored}
    return [trial for kind in kinds for trial in kind.trials(store.experiments(kind.kind), runs)]


def select_trials(trials: Iterable[MeasuredTrial], query: Query, selected: Set[str]) -> list[MeasuredTrial]:
    """A filter selects a search if it selects one of its trials. Trials without runs are tested by the fields that they
    share with runs (``TRIAL_FIELDS``), or else not selected.
    """
    by_others = any(term.field not in TRIAL_FIELDS for term in query.terms)
    tests = [term.test() for term in query.terms]
    chosen = []
    for trial in trials:
        if trial.run_ids and query.terms:
            if selected.isdisjoint(trial.run_ids):
                continue
        elif query.terms and (by_others or not all(test(_build_filterable(trial)) for test in tests)):
            continue
        chosen.append(trial)
    return chosen


def _matches(trial: MeasuredTrial, where: RunFilter) -> bool:
    wishes = [(getattr(where, name), getattr(trial, own)) for name, own in FILTER_FIELDS.items()]
    wishes.append((where.platform, trial.factors["platform"]))
    for wanted, has in wishes:
        if wanted is not None and has not in ([wanted] if isinstance(wanted, str) else wanted):
            return False
    return where.until is None or trial.started_at < where.until


def _build_filterable(trial: MeasuredTrial) -> SimpleNamespace:
    return SimpleNamespace(
        platform=trial.factors["platform"],
        testbed=trial.testbed,
        testbed_fingerprint=trial.testbed_fingerprint,
        emulated=trial.emulated,
        plan_name=trial.plan_name,
        uut_kernel=trial.conditions.get("kernel") or "",
        hypervisor=trial.conditions.get("hypervisor") or "",
    )
