"""Trials other than runs: planned, taken and entered numbers, and the plans they are of. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from labconsole.measure.paired_blocks import hypervisor, uut_kernel
from labconsole.model.plan.plan import Plan
from labconsole.model.query import Query
from labconsole.model.record.kind import ExperimentRecord, GuestTrialRecord
from labconsole.model.record.summary import RunSummary
from labconsole.report.sample import Coverage

# -- planned trials ----------------------------------------------------------------------------------------------------
# Plans with trials in common share them, so places are identified by the request and not by a plan's name.

TRIAL_FIELDS = ("platform", "testbed", "fingerprint", "emulated", "plan", "kernel", "hypervisor")
"""Fields of a filter that a trial of guests has, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrials(Coverage):
    """One point of a kind."""

    kind: str


def select_records(records: Sequence[ExperimentRecord], query: Query) -> list[ExperimentRecord]:
    """Select records by the fields that trials share with runs (``TRIAL_FIELDS``)."""
    if not query.terms:
        return list(records)
    tests = [term.test() for term in query.terms]
    return [
        record
        for record, trial in zip(records, select_guest_trials(records), strict=True)
        if all(test(_build_filterable(trial)) for test in tests)
    ]


class _Filterable(NamedTuple):
    """The fields of a trial of guests that filters test, under the names that runs have them."""

    platform: str
    testbed: str
    testbed_fingerprint: str
    emulated: bool
    plan_name: str
    uut_kernel: str
    hypervisor: str


def _build_filterable(trial: GuestTrialRecord) -> _Filterable:
    return _Filterable(
        trial.requested.platform,
        trial.testbed,
        trial.testbed_fingerprint,
        trial.emulated,
        trial.plan.name,
        uut_kernel(trial),
        hypervisor(trial),
    )


def count_platforms(
    runs: Iterable[RunSummary], experiments: Mapping[str, Sequence[ExperimentRecord]]
) -> tuple[int, int]:
    """How many platforms there are in runs and other trials, and how many with their kernels and hypervisors."""
    found = {(run.platform, run.uut_kernel, run.hypervisor) for run in runs}
    for records in experiments.values():
        trials = map(_build_filterable, select_guest_trials(records))
        found |= {(each.platform, each.uut_kernel, each.hypervisor) for each in trials}
    return len({platform for platform, _, _ in found}), len(found)


def is_included(record: GuestTrialRecord) -> bool:
    """Whether it enters a mean: suspect trials do not, as a doubt about a job or a start concerns its very time."""
    return record.verdict.status == "valid"


def count_planned_trials(
    experiments: Mapping[str, Sequence[ExperimentRecord]],
    plans: Iterable[Plan],
    platforms: Sequence[str] | None = None,
    query: Query | None = None,
) -> list[PlannedTrials]:
    """Planned trials of each point of the plans' files, taken or not; without such a file, as its records report them.

    Only platforms in a filter choose points; no plan says whether a condition was to be met at a point.
    """
    terms = () if query is None else query.terms
    if any(term.field not in ("platform", "plan") for term in terms):
        return []
    tests = [term.test() for term in terms if term.field == "platform"]
    files = [plan for plan in plans if plan.guests is not None]
    if files:
        every = [each for records in experiments.values() for each in select_guest_trials(records)]
        found = [each for plan in files for each in _count_file_trials(plan, every, platforms)]
        return [each for each in found if all(test(each) for test in tests)]
    return [
        each
        for kind, records in experiments.items()
        for each in _count_record_trials(kind, select_guest_trials(records))
    ]


def collect_plan_names(experiments: Mapping[str, Sequence[ExperimentRecord]]) -> dict[tuple[str, str], str]:
    """The plans of these records: hash and testbed to the plan's name."""
    return {
        (record.plan.plan_hash, record.testbed_fingerprint): record.plan.name
        for records in experiments.values()
        for record in select_guest_trials(records)
        if record.plan.plan_hash is not None
    }


def select_guest_trials(records: Iterable[ExperimentRecord]) -> list[GuestTrialRecord]:
    """The trials of guests; a search is no trial."""
    return [record for record in records if isinstance(record, GuestTrialRecord)]


def _count_file_trials(
    plan: Plan, every: Sequence[GuestTrialRecord], platforms: Sequence[str] | None
) -> list[PlannedTrials]:
    requested = plan.guests
    assert requested is not None
    of_hash: dict[str, list[GuestTrialRecord]] = {}
    for record in every:
        of_hash.setdefault(record.plan.hash, []).append(record)
    found = []
    for point in requested.points:
        if platforms is None or point.platform in platforms:
            places = [of_hash.get(key, []) for key in requested.hashes_by_point[point.index]]
            found.append(_build_planned_trials(plan.name, requested.kind, point.platform, len(places), places))
    return found


def _count_record_trials(kind: str, every: Sequence[GuestTrialRecord]) -> list[PlannedTrials]:
    points: dict[tuple[str, str], dict[tuple[int, int], list[GuestTrialRecord]]] = {}
    for record in every:
        requested = record.requested.model_dump_json(exclude={"limit_s"})
        places = points.setdefault((record.testbed_fingerprint, requested), {})
        places.setdefault((record.plan.block, record.plan.repetition), []).append(record)
    found = []
    for places in points.values():
        records = [record for group in places.values() for record in group]
        planned = max(record.plan.set_ups * record.plan.repetitions for record in records)
        found.append(
            _build_planned_trials(
                records[0].plan.name, kind, records[0].requested.platform, planned, list(places.values())
            )
        )
    return found


def _build_planned_trials(
    plan: str, kind: str, platform: str, planned: int, places: Sequence[Sequence[GuestTrialRecord]]
) -> PlannedTrials:
    taken = [group for group in places if group]
    return PlannedTrials(
        plan=plan,
        kind=kind,
        platform=platform,
        planned=planned,
        taken=sum(map(len, taken)),
        retaken=sum(len(group) - 1 for group in taken),
        entered=sum(any(map(is_included, group)) for group in taken),
    )
