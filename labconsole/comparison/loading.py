"""Loads the sides of a comparison from their stores: runs, and trials that are selected as runs are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from typing import Final, NamedTuple

from labconsole.comparison.changes import Side
from labconsole.comparison.occasions import add_trials_to_digest, count_planned_and_missing
from labconsole.comparison.points import select_newest
from labconsole.contracts.measured import MeasuredKind, MeasuredTrial
from labconsole.errors import ConfigError, StoreError
from labconsole.measure.admission import Admission, admit
from labconsole.measure.groups import is_search_trial
from labconsole.model.generator import of_elsewhere
from labconsole.model.plan.loader import load_plan
from labconsole.model.query import Query, parse_query
from labconsole.model.record.annotations import Baseline
from labconsole.model.record.summary import RunFilter, RunSummary
from labconsole.report.digest import Digest
from labconsole.report.loading import build_run_filter, build_selection_error, digest_records
from labconsole.report.planned_trials import TRIAL_FIELDS
from labconsole.report.request import ReportRequest, parse_filter, require_free
from labconsole.report.sample import RunSample, select_sample
from labconsole.store.writing import RunStore

# -- trials ------------------------------------------------------------------------------------------------------------

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
        elif query.terms and (by_others or not all(test(trial) for test in tests)):
            continue
        chosen.append(trial)
    return chosen


def _matches(trial: MeasuredTrial, where: RunFilter) -> bool:
    wishes = [(getattr(where, name), getattr(trial, own)) for name, own in FILTER_FIELDS.items()]
    wishes.append((where.platform, trial.platform))
    for wanted, has in wishes:
        if wanted is not None and has not in ([wanted] if isinstance(wanted, str) else wanted):
            return False
    return where.until is None or trial.started_at < where.until


# -- sides -------------------------------------------------------------------------------------------------------------


class SideSelection(NamedTuple):
    """Runs of a store, to be compared with others. ``words``: the user's name for them. ``place``: the store's name.
    ``query``: tests of factors and conditions alone, applied to the runs that ``where`` selects. ``trials``: filter of
    trials that are not runs, if ``where`` does not cover them.
    """

    words: str
    place: str
    store: RunStore
    where: RunFilter
    query: Query
    trials: RunFilter | None = None


@of_elsewhere()
def select_side(request: ReportRequest, store: RunStore, *, place: str, words: str) -> SideSelection:
    """Select the runs of a request. Raises ConfigError if it chooses by outcome."""
    plans = [load_plan(path) for path in request.plan_files]
    query, where = parse_filter(request.filter), build_run_filter(request, plans)
    require_free(query, store.list(where), allowed=False, offer=False)
    return SideSelection(words, place, store, where, query)


def load_sides(
    before: SideSelection,
    after: SideSelection,
    kinds: Sequence[MeasuredKind] = (),
    *,
    on_unreadable: Callable[[StoreError], None],
) -> tuple[Side, Side]:
    """Load both sides from their stores, with the trials of other kinds. Raises ConfigError if one is empty or if both
    are the same.

    Trials of searches enter nothing by themselves.
    """
    sides = load_side(before, kinds, on_unreadable), load_side(after, kinds, on_unreadable)
    shared = sides[0].kept.run_ids & sides[1].kept.run_ids
    noun = "run"
    if not shared:
        ids = [frozenset(trial.id for trial in side.trials) for side in sides]
        shared, noun = ids[0] & ids[1], "trial"
    if shared:
        many = f"{len(shared)} {noun}{'' if len(shared) == 1 else 's'}"
        raise ConfigError(f"{many} would be on both sides, such as {min(shared)}: {before.words} and {after.words}")
    return sides


def digest_entered_runs(
    store: RunStore, where: RunFilter, kept: RunSample, on_unreadable: Callable[[StoreError], None]
) -> Digest:
    """Digest the runs that a comparison rests on, for the facts reported next to its result."""
    return digest_records(store, where, RunSample(kept.entered, (), {}), on_unreadable)


def select_baseline(occasions: Sequence[Baseline], store: RunStore) -> SideSelection:
    """Everything that a baseline covers. Searches and trials of guests identify their plan only by its name."""
    of, names = occasions[0], [each.plan_name for each in occasions]
    hashes = [each.plan_hash for each in occasions]
    return SideSelection(
        f"{', '.join(names)} (baseline {of.name})",
        store.name,
        store,
        RunFilter(plan_hash=hashes, testbed_fingerprint=of.testbed_fingerprint, until=of.set_at),
        parse_query(""),
        RunFilter(plan_name=names, testbed_fingerprint=of.testbed_fingerprint, until=of.set_at),
    )


def load_side(
    selection: SideSelection, kinds: Sequence[MeasuredKind], on_unreadable: Callable[[StoreError], None]
) -> Side:
    """Load one side from its store, with the trials of other kinds. Raises ConfigError if there is nothing."""
    store, where = selection.store, selection.where
    stored = store.list()
    chosen = selection.query.select(stored if where == RunFilter() else store.list(where))
    meant = [run for run in chosen if not is_search_trial(run)]
    trials = load_selected_trials(
        store,
        where if selection.trials is None else selection.trials,
        selection.query,
        kinds,
        stored,
        {run.run_id for run in chosen},
    )
    if not meant and not trials:
        raise build_selection_error(
            stored, store, f"{selection.place} ({selection.words})", by_file=where.plan_hash is not None
        )
    kept = select_sample(meant, admission := admit(stored, {run.run_id for run in meant}))
    digest = digest_entered_runs(store, where, kept, on_unreadable)
    add_trials_to_digest(digest, trials)
    return replace(build_side(selection.words, selection.place, kept, admission, digest, stored), trials=trials)


def build_side(
    words: str, place: str, kept: RunSample, admission: Admission, digest: Digest, stored: Sequence[RunSummary]
) -> Side:
    """Build a side of these runs alone. ``stored``: all runs, since a filter makes no plan incomplete."""
    planned = missing = 0
    for (plan_hash, fingerprint), facts in digest.planned.items():
        own = [run for run in stored if (run.plan_hash, run.testbed_fingerprint) == (plan_hash, fingerprint)]
        requested, lacking = count_planned_and_missing(own, facts.set_ups)
        planned, missing = planned + requested, missing + lacking
    return Side(
        words=words,
        place=place,
        kept=kept,
        admission=admission,
        digest=digest,
        planned_set_ups=planned,
        missing_set_ups=missing,
    )
