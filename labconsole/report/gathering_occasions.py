"""The occasions on which a plan was measured, each as a side that the next is compared with: out of a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from labconsole.contracts.measured import MeasuredKind
from labconsole.errors import ConfigError, StoreError
from labconsole.measure.admission import admit
from labconsole.measure.groups import is_search_trial
from labconsole.model.query import Query
from labconsole.model.record.kinds import record_kinds
from labconsole.model.record.summary import RunFilter, RunSummary
from labconsole.report.changes import Side
from labconsole.report.gathering import digest_of_entered, side_of
from labconsole.report.gathering_trials import meant_trials, stored_trials
from labconsole.report.measured_points import newest
from labconsole.report.occasions import base_name, incomplete_words, sides_of_trials
from labconsole.report.sample import sample
from labconsole.report.selection import require_free
from labconsole.store.writing import RunStore


def gather_occasions(
    plan: str,
    query: Query,
    store: RunStore,
    kinds: Sequence[MeasuredKind] = (),
    *,
    on_unreadable: Callable[[StoreError], None],
    tell: Callable[[str], None],
) -> list[Side]:
    """Every occasion on which a plan of this name was measured, on each testbed: one side of its runs, and one of its
    other trials. Raises ConfigError without any.

    One that is not complete is told and left out: whether it is will not depend on its outcome.
    """
    stored = store.list()
    of_plan = [run for run in stored if base_name(run.plan_name) == plan and run.role != "telemetry"]
    require_free(query, of_plan, allowed=False, offer=False)
    chosen = query.select(of_plan)
    every = stored_trials(store, kinds, stored)
    trials = newest(trial for trial in every if base_name(trial.plan_name) == plan)
    meant = [run for run in chosen if not is_search_trial(run)]
    meant_of_trials = meant_trials(trials, query, {run.run_id for run in chosen})
    if not meant and not meant_of_trials:
        told = [*(run.plan_name for run in stored), *(trial.plan_name for trial in every)]
        names = sorted({base_name(name) for name in told if name})
        raise ConfigError("no run of such a plan matches", value=plan, allowed=", ".join(names) or "none is saved")
    return [
        *_of_runs(meant, stored, store, on_unreadable, tell),
        *sides_of_trials(meant_of_trials, trials, store.name, tell),
    ]


def occasions_by_plan(store: RunStore) -> dict[str, int]:
    """On how many occasions each plan was measured that was on several, that measured last first."""
    last: dict[str, str] = {}
    told: list[tuple[str | None, str]] = [
        (run.plan_name, run.started_at) for run in store.list() if run.role != "telemetry"
    ]
    for kind in record_kinds().values():
        told += [(each.plan_name, each.started_at) for each in map(kind.columns, store.experiments(kind))]
    for name, started_at in told:
        if name:
            last[name] = max(started_at, last.get(name, ""))
    many = Counter(map(base_name, last))
    newest_first = sorted(last, key=lambda name: last[name], reverse=True)
    return {plan: many[plan] for plan in map(base_name, newest_first) if many[plan] > 1}


def _of_runs(
    meant: Sequence[RunSummary],
    stored: Sequence[RunSummary],
    store: RunStore,
    on_unreadable: Callable[[StoreError], None],
    tell: Callable[[str], None],
) -> Iterator[Side]:
    admission = admit(stored, {run.run_id for run in meant})
    groups: dict[tuple[str, str], list[RunSummary]] = {}
    for run in meant:
        groups.setdefault((run.plan_hash or "", run.testbed_fingerprint), []).append(run)
    own: dict[tuple[str, str], list[RunSummary]] = {}
    for run in stored:
        own.setdefault((run.plan_hash or "", run.testbed_fingerprint), []).append(run)
    for (plan_hash, fingerprint), runs in groups.items():
        kept = sample(runs, admission)
        where = RunFilter(plan_hash=plan_hash, testbed_fingerprint=fingerprint)
        words = runs[0].plan_name or ""
        digest = digest_of_entered(store, where, kept, on_unreadable)
        side = side_of(words, store.name, kept, admission, digest, own[(plan_hash, fingerprint)])
        if side.missing_set_ups:
            tell(incomplete_words(words, side.planned_set_ups, side.missing_set_ups, "set-ups"))
        elif not side.kept.entered:
            tell(f"{words} is left out: none of its runs enters a mean")
        else:
            yield side
