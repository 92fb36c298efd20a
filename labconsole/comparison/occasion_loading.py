"""Load the occasions of a plan from a store, each as a side that the next is compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from labconsole.comparison.changes import Side
from labconsole.comparison.loading import build_side, digest_entered_runs, load_trials, select_trials
from labconsole.comparison.occasions import base_name, build_trial_sides, describe_incomplete
from labconsole.comparison.points import select_newest
from labconsole.contracts.measured import MeasuredKind, MeasuredTrial
from labconsole.errors import ConfigError, StoreError
from labconsole.measure.admission import admit
from labconsole.measure.groups import is_search_trial
from labconsole.model.query import Query
from labconsole.model.record.summary import RunFilter, RunSummary
from labconsole.report.request import require_free
from labconsole.report.sample import RunSample, select_sample
from labconsole.store.writing import RunStore


class StoreContents(NamedTuple):
    """The contents of a store."""

    runs: list[RunSummary]
    trials: list[MeasuredTrial]


def load_contents(store: RunStore, kinds: Sequence[MeasuredKind]) -> StoreContents:
    """Load the runs, and the trials of these kinds."""
    runs = store.list()
    return StoreContents(runs, load_trials(store, kinds, runs))


class Occasions(NamedTuple):
    """The occasions of a plan."""

    sides: list[Side]
    told: Callable[[Side], Side]
    """Completes a side with its records' facts on nodes, platforms and versions. It reads them only on request, since
    a store has many runs and a plan few changes.
    """


def load_occasions(
    plan: str,
    query: Query,
    store: RunStore,
    everything: StoreContents,
    *,
    on_unreadable: Callable[[StoreError], None],
    tell: Callable[[str], None],
) -> Occasions:
    """Load every occasion on which a plan of this name was measured, on each testbed.

    An occasion has one side of its runs, and one of its other trials. Incomplete occasions are reported and left out;
    completeness does not depend on the outcome. Raises ConfigError if there is none.
    """
    stored, every = everything
    of_plan = [run for run in stored if base_name(run.plan_name) == plan and run.role != "telemetry"]
    require_free(query, of_plan, allowed=False, offer=False)
    chosen = query.select(of_plan)
    trials = select_newest(trial for trial in every if base_name(trial.plan_name) == plan)
    meant = [run for run in chosen if not is_search_trial(run)]
    meant_of_trials = select_trials(trials, query, {run.run_id for run in chosen})
    if not meant and not meant_of_trials:
        known = [*(run.plan_name for run in stored), *(trial.plan_name for trial in every)]
        names = sorted({base_name(name) for name in known if name})
        if plan in names:
            raise ConfigError("no run of this plan matches the filter", value=plan)
        raise ConfigError("no run of such a plan is saved", value=plan, allowed=", ".join(names) or "none is saved")
    of_runs = list(_load_run_sides(meant, stored, store, on_unreadable, tell))
    whole: dict[int, Side] = {}
    places = {id(side): where for side, where in of_runs}

    def add_facts(side: Side) -> Side:
        where = places.get(id(side))
        if where is not None and id(side) not in whole:
            whole[id(side)] = replace(side, digest=digest_entered_runs(store, where, side.kept, on_unreadable))
        return whole.get(id(side), side)

    of_trials = build_trial_sides(meant_of_trials, trials, store.name, tell)
    return Occasions([*(side for side, _ in of_runs), *of_trials], add_facts)


def count_occasions(everything: StoreContents) -> dict[str, int]:
    """The number of occasions of each plan that has several, the plan measured last first."""
    last: dict[str, str] = {}
    known = [(run.plan_name, run.started_at) for run in everything.runs if run.role != "telemetry"]
    for name, started_at in [*known, *((trial.plan_name, trial.started_at) for trial in everything.trials)]:
        if name:
            last[name] = max(started_at, last.get(name, ""))
    many = Counter(map(base_name, last))
    newest_first = sorted(last, key=lambda name: last[name], reverse=True)
    return {plan: many[plan] for plan in map(base_name, newest_first) if many[plan] > 1}


def _load_run_sides(
    meant: Sequence[RunSummary],
    stored: Sequence[RunSummary],
    store: RunStore,
    on_unreadable: Callable[[StoreError], None],
    tell: Callable[[str], None],
) -> Iterator[tuple[Side, RunFilter]]:
    """Reads only the newest record of each, which has the number of set-ups that its plan requests."""
    admission = admit(stored, {run.run_id for run in meant})
    groups: dict[tuple[str, str], list[RunSummary]] = {}
    for run in meant:
        groups.setdefault((run.plan_hash or "", run.testbed_fingerprint), []).append(run)
    own: dict[tuple[str, str], list[RunSummary]] = {}
    for run in stored:
        own.setdefault((run.plan_hash or "", run.testbed_fingerprint), []).append(run)
    for (plan_hash, fingerprint), runs in groups.items():
        kept = select_sample(runs, admission)
        where = RunFilter(plan_hash=plan_hash, testbed_fingerprint=fingerprint)
        name = runs[0].plan_name or ""
        newest_run = kept.entered[-1:]
        digest = digest_entered_runs(store, where, RunSample(newest_run, (), {}), on_unreadable)
        if not digest.planned:
            digest = digest_entered_runs(store, where, kept, on_unreadable)
        side = build_side(name, store.name, kept, admission, digest, own[(plan_hash, fingerprint)])
        if side.missing_set_ups:
            tell(describe_incomplete(name, side.planned_set_ups, side.missing_set_ups, "set-ups"))
        elif not side.kept.entered:
            reasons = ", ".join(f"{code} {many}" for code, many in side.kept.excluded_by_reason)
            tell(f"{name} is left out: none of its runs enters a mean ({reasons})")
        else:
            yield side, where
