"""From a request and a store to the report: selects its runs and trials, reads their records, assembles everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from labconsole.errors import ConfigError, StoreError
from labconsole.measure.admission import admit
from labconsole.measure.groups import is_search_trial
from labconsole.model.generator import of_elsewhere
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import Plan
from labconsole.model.query import Query
from labconsole.model.record.annotations import PlanNote, plan_notes
from labconsole.model.record.kind import ExperimentRecord, record_kinds
from labconsole.model.record.run import FORMAT
from labconsole.model.record.search import SEARCH, SearchRecord
from labconsole.model.record.summary import RunFilter, RunSummary
from labconsole.model.yaml_file import read_text
from labconsole.report.assembly import Report, assemble_report, collect_claims
from labconsole.report.digest import Digest
from labconsole.report.evaluation import evaluate
from labconsole.report.material import Unit
from labconsole.report.planned_trials import (
    TRIAL_FIELDS,
    collect_plan_names,
    count_planned_trials,
    count_platforms,
    select_guest_trials,
    select_records,
)
from labconsole.report.reference import load_reference
from labconsole.report.request import ReportRequest, Selection, check_pool, parse_filter, parse_margin, require_free
from labconsole.report.sample import FilePoint, RunSample, derive_coverage, select_sample
from labconsole.store.records import json_object, parse_record
from labconsole.store.writing import RunStore

MAX_PLATFORMS, MAX_PLATFORM_VERSIONS = 200, 500
"""Platforms of one report, and combinations of a platform with a kernel and a hypervisor: all pairs are compared."""


@of_elsewhere()
def load_report(
    request: ReportRequest,
    store: RunStore,
    units: Sequence[Unit],
    *,
    place: str,
    on_unreadable: Callable[[StoreError], None],
    outside: Callable[[Plan, RunStore], Sequence[str]] = lambda plan, store: (),
) -> Report:
    """Load the selected runs and build the report with these units. ``place``: where the runs are. ``outside``: the
    hashes that identify records of other packages' kinds that a plan requests.

    Raises ConfigError if there are none. A record that cannot be read is passed to ``on_unreadable`` and reported at
    the head of the report.
    """
    reference = load_reference(request.reference) if request.reference else None
    names = _parse_reference_map(request.reference_map, has_reference=reference is not None)
    plans = {path: load_plan(path) for path in request.plan_files}
    query, where = parse_filter(request.filter), build_run_filter(request, plans.values())
    stored = store.list()
    of_options = stored if where == RunFilter() else store.list(where)
    selection = _selection(request, query, of_options)
    searches, meant = _searches(store, query.select(of_options))
    also = [key for plan in plans.values() for key in outside(plan, store)]
    experiments = _experiments(store, replace(where, plan_hash=[*(where.plan_hash or ()), *also] or None), query)
    if not meant and not any(experiments.values()):
        raise build_selection_error(stored, store, place, by_file=bool(plans))
    _refuse_many_platforms(meant, experiments)
    kept = select_sample(meant, admission := admit(stored, {run.run_id for run in meant}))
    digest = digest_records(store, where, kept, on_unreadable)
    units, p_values, failures = collect_claims(units, experiments, reference, names)
    made = evaluate(
        kept.entered,
        admission=admission,
        facts=digest.facts,
        margin_ratio=selection.margin_ratio,
        pool=selection.pool,
        other_p_values=p_values,
    )
    planned = count_planned_trials(experiments, plans.values(), request.platforms, query)
    found = derive_coverage(kept, digest.planned, load_file_points(plans.values()), query, request.platforms)
    return assemble_report(
        kept,
        digest,
        made,
        units,
        selection=selection,
        found=found,
        planned=planned,
        reference=reference,
        names=names,
        searches=searches,
        search_runs=_find_search_runs(searches, stored),
        plans=[(path.name, read_text(path).replace("\r\n", "\n").replace("\r", "\n")) for path in plans],
        plan_notes=_plan_notes(store, digest, experiments),
        experiments=experiments,
        failures=failures,
    )


def _refuse_many_platforms(meant: Sequence[RunSummary], experiments: Mapping[str, Sequence[ExperimentRecord]]) -> None:
    """Raise ConfigError for more platforms than a report compares with each other: a file may name any number."""
    platforms, with_conditions = count_platforms(meant, experiments)
    for many, most, what in (
        (platforms, MAX_PLATFORMS, "platforms"),
        (with_conditions, MAX_PLATFORM_VERSIONS, "platforms, kernels and hypervisors that go together"),
    ):
        if many > most:
            raise ConfigError(
                f"the trials are of {many} {what}, and a report compares each with every other",
                allowed=f"at most {most}: choose some with --platforms, --plan or a FILTER",
            )


def _parse_reference_map(pairs: Sequence[str], *, has_reference: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        own, equals, theirs = pair.partition("=")
        if not (own and equals and theirs):
            raise ConfigError(
                "must be OWN=THEIRS", key="--reference-map", value=pair, allowed="such as qemu-virtio=KVM"
            )
        found[own] = theirs
    if found and not has_reference:
        raise ConfigError("needs --reference", key="--reference-map", value=", ".join(pairs))
    return found


def build_run_filter(request: ReportRequest, plans: Iterable[Plan]) -> RunFilter:
    """The part of a request that the store can filter: plans by name or by a file's meaning, platforms, testbed."""
    hashes = [
        key for plan in plans for key in (plan.hash(), *plan.telemetry_hashes, *plan.search_hashes, *plan.step_hashes)
    ]
    return RunFilter(
        platform=request.platforms,
        plan_name=request.plan_names or None,
        plan_hash=hashes or None,
        testbed=request.testbed,
    )


def _selection(request: ReportRequest, query: Query, runs: list[RunSummary]) -> Selection:
    """Describe the selection. Raises ConfigError if it chooses by an outcome without permission."""
    options = [
        f"{name} {', '.join(value)}"
        for name, value in (
            ("plan", request.plans),
            ("platforms", request.platforms or ()),
            ("testbed", [request.testbed] if request.testbed else ()),
        )
        if value
    ]
    return Selection(
        text=query.text,
        options=tuple(options),
        by_outcome=require_free(query, runs, allowed=request.select_by_outcome),
        pool=check_pool(request.pool),
        margin_ratio=parse_margin(request.margin),
    )


def _searches(store: RunStore, selected: list[RunSummary]) -> tuple[list[SearchRecord], list[RunSummary]]:
    """Split off the searches with a trial among these runs; the second list is the runs without search trials.

    Search trials have many loads and are often short: they would clutter curves and enter means. If there is nothing
    else, they are the report's runs.
    """
    ids = {run.run_id for run in selected}
    searches = [each for each in store.experiments(SEARCH) if any(trial.run_id in ids for trial in each.trials)]
    return searches, [run for run in selected if not is_search_trial(run)] or selected


def _find_search_runs(searches: Sequence[SearchRecord], stored: Iterable[RunSummary]) -> dict[str, RunSummary]:
    """The runs that searches consist of, by id, whether a filter selects them or not."""
    ids = {trial.run_id for search in searches for trial in search.trials}
    return {run.run_id: run for run in stored if run.run_id in ids}


def _experiments(store: RunStore, where: RunFilter, query: Query) -> dict[str, Sequence[ExperimentRecord]]:
    """The records of all kinds but searches, which their runs represent.

    Empty if a filter tests fields that only runs have.
    """
    if any(term.field not in TRIAL_FIELDS for term in query.terms):
        return {}
    kinds = (kind for kind in record_kinds().values() if kind is not SEARCH)
    return {kind.name: select_records(store.experiments(kind, where), query) for kind in kinds}


def build_selection_error(runs: list[RunSummary], store: RunStore, place: str, *, by_file: bool) -> ConfigError:
    """The error of a selection without runs and trials, with what there is to select. ``runs``: all of the store."""
    experiments = {kind: store.experiments(kind) for kind in record_kinds().values() if kind is not SEARCH}
    trials = select_guest_trials(each for records in experiments.values() for each in records)
    if not runs and not trials:
        return ConfigError("no run has been saved there yet", key="--store", value=place)
    many = [f"{len(runs)} run{'' if len(runs) == 1 else 's'}"] if runs else []
    many += [f"{len(of)} {kind.name if len(of) == 1 else kind.plural}" for kind, of in experiments.items() if of]
    platforms = {run.platform for run in runs} | {trial.requested.platform for trial in trials}
    testbeds = {run.testbed for run in runs} | {trial.testbed for trial in trials}
    of_plans = [(run.plan_name, run.plan_hash) for run in runs] + [(each.plan.name, None) for each in trials]
    plans = sorted({name + (f" ({meant})" if by_file and meant else "") for name, meant in of_plans if name})
    has = [
        ", ".join(many),
        f"platforms {', '.join(sorted(platforms))}",
        f"testbeds {', '.join(sorted(testbeds))}",
        f"plans {', '.join(plans)}" if plans else "no plan",
    ]
    hints = []
    if not runs:
        hints.append(f"filters are by {', '.join(sorted(TRIAL_FIELDS))}")
    if by_file and runs:
        hints.append("a plan file selects runs by its hash, a plan name selects all runs of plans with that name")
    what = "run" if runs else "trial"
    return ConfigError(f"no saved {what} in {place} matches; the store has {'; '.join(has + hints)}")


def digest_records(
    store: RunStore, where: RunFilter, kept: RunSample, on_unreadable: Callable[[StoreError], None]
) -> Digest:
    """Digest the records as JSON in one pass."""
    meant = kept.run_ids
    digest = Digest({run.run_id for run in kept.entered}, kept.why)
    for run_id, text in store.texts(where):
        if run_id not in meant:
            continue
        try:
            record = json_object(text, f"run {run_id}")
            if record["format"] > FORMAT:
                raise ValueError(record["format"])
            digest.add(record)
        except (StoreError, ValueError, KeyError, TypeError, AttributeError):
            try:
                parse_record(text, f"run {run_id}")  # raises an error with a description
            except StoreError as exc:
                on_unreadable(exc)
                digest.unreadable.append(run_id)
                continue
            raise
    return digest


def _plan_notes(
    store: RunStore, digest: Digest, experiments: Mapping[str, Sequence[ExperimentRecord]]
) -> list[tuple[str, PlanNote]]:
    """Notes on the plans of the runs and of other trials, each on the testbed that it was run on."""
    noted = {(each.plan_hash, each.testbed_fingerprint): each for each in plan_notes(store.notes())}
    plans = {key: facts.name for key, facts in digest.planned.items()} | collect_plan_names(experiments)
    found = [(name, noted[key]) for key, name in plans.items() if key in noted]
    return [(name, each) for name, each in found if each.note.text is not None]


def load_file_points(plans: Iterable[Plan]) -> list[FilePoint]:
    """The points that these plans request, whether there is a run of them or not."""
    found = []
    for plan in plans:
        if plan.guests is not None:
            continue  # its points are of another kind
        set_ups = plan.set_ups or 1
        for point in plan.points:
            request, planned = point.request, set_ups * plan.repetitions_of(point.index)
            if planned:
                found.append(
                    FilePoint(
                        plan_name=plan.name,
                        plan_hash=plan.hash(),
                        plan_point=point.index,
                        planned=planned,
                        platform=request.platform,
                        frame=request.frame,
                        sources=request.sources,
                        target_bps=None if request.target == "max" else request.target,
                        background=request.background,
                        duration_s=request.duration_s,
                    )
                )
    return found
