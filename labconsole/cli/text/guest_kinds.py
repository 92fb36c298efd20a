"""The experiments with several guests as the command line shows them: a table, so that all are alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labconsole.cli.text import boots, flows, jobs, routes
from labconsole.cli.text.runs import format_verdict
from labconsole.contracts.experiment import StepRecord
from labconsole.contracts.report import Figure
from labconsole.experiments.boot.plan import BootPoint
from labconsole.experiments.boot.record import RECORD as BOOT
from labconsole.experiments.boot.record import BootRecord
from labconsole.experiments.boot.steps import Boots
from labconsole.experiments.boot.summary import summarize_boots
from labconsole.experiments.boot.summary_json import summary_json as boot_json
from labconsole.experiments.flow.bare_host_comparison import summarize_compared
from labconsole.experiments.flow.plan import FlowPoint
from labconsole.experiments.flow.record import RECORD as FLOW
from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.steps import Flows
from labconsole.experiments.flow.summary_json import summary_json as flow_json
from labconsole.experiments.job.live_view import format_times
from labconsole.experiments.job.plan import JobPoint
from labconsole.experiments.job.record import RECORD as JOB
from labconsole.experiments.job.record import JobRecord
from labconsole.experiments.job.steps import Jobs
from labconsole.experiments.job.summary import summarize_jobs
from labconsole.experiments.job.summary_json import summary_json as job_json
from labconsole.experiments.route.plan import RoutePoint, Target
from labconsole.experiments.route.record import RECORD as ROUTE
from labconsole.experiments.route.record import RouteRecord
from labconsole.experiments.route.steps import Routes
from labconsole.experiments.route.summary import summarize_routes
from labconsole.experiments.route.summary_json import summary_json as route_json
from labconsole.experiments.units import report_units
from labconsole.model.plan.plan import Plan
from labconsole.model.record.kind import RecordKind
from labconsole.report.assembly import build_figures


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestKindView:
    """One kind. ``plural``: noun for its trials. ``purpose``: a description of them. ``guess``: assumed durations for a
    dry run. The functions give a record's id, its request and result as text, its request by the headings of a table's
    columns, its lines, and the summary lines of several records.
    """

    name: str
    plural: str
    purpose: str
    guess: str
    of: RecordKind[Any]
    experiment: Callable[[Any], Any]
    id_of: Callable[[Any], str]
    words: Callable[[Any], str]
    in_columns: Callable[[Any], dict[str, str]]
    lines: Callable[[Any], list[str]]
    found: Callable[[Any], str]
    summarize: Callable[[Sequence[Any]], Any]
    summary_lines: Callable[[Any], list[str]]
    summary_json: Callable[[Any], dict[str, Any]]

    def figures(self, records: Sequence[Any]) -> list[Figure]:
        """Figures of a report on these records alone."""
        return build_figures(self.name, records, report_units(self.name))

    def table(self, records: Sequence[Any]) -> list[str]:
        """Trials, one per line."""
        return [
            f"{self.id_of(each)}  {self.words(each)}: {self.found(each)}, {format_verdict(each.verdict)}"
            for each in records
        ]

    def has(self, record: StepRecord | None) -> bool:
        """Whether a record is of this kind."""
        return isinstance(record, self.of.record)


def _job_id(record: JobRecord) -> str:
    return record.job_id


def _boot_id(record: BootRecord) -> str:
    return record.boot_id


def _flow_id(record: FlowRecord) -> str:
    return record.flow_id


def _route_id(record: RouteRecord) -> str:
    return record.route_id


def _job_columns(record: JobRecord) -> dict[str, str]:
    request = record.requested
    return JobPoint(
        0, request.platform, request.job, request.size, request.guests, request.working, request.cpu
    ).in_columns()


def _boot_columns(record: BootRecord) -> dict[str, str]:
    request = record.requested
    return BootPoint(0, request.platform, request.guests, request.start).in_columns()


def _flow_columns(record: FlowRecord) -> dict[str, str]:
    request = record.requested
    return FlowPoint(
        0,
        request.platform,
        request.guests,
        request.cpu,
        request.offered_bps,
        request.limits_bps,
        request.greedy,
        request.second_after_s,
        request.payload_bytes,
        request.pattern,
        request.weights,
        request.disk,
    ).in_columns()


def _route_columns(record: RouteRecord) -> dict[str, str]:
    request = record.requested
    target: Target = "max" if request.target_pps is None else request.target_pps
    return RoutePoint(
        0,
        request.platform,
        request.guests,
        request.cpu,
        request.routes,
        request.destinations,
        request.filters,
        target,
        request.frame_bytes,
    ).in_columns()


JOBS_VIEW = GuestKindView(
    name="job",
    plural="jobs",
    purpose="jobs in guests",
    guess="if each takes ten seconds",
    of=JOB,
    experiment=Jobs,
    id_of=_job_id,
    words=jobs.format_job_request,
    in_columns=_job_columns,
    lines=jobs.job_lines,
    found=format_times,
    summarize=summarize_jobs,
    summary_lines=jobs.summary_lines,
    summary_json=job_json,
)
BOOTS_VIEW = GuestKindView(
    name="boot",
    plural="boots",
    purpose="starts of guests",
    guess="if each guest takes five seconds",
    of=BOOT,
    experiment=Boots,
    id_of=_boot_id,
    words=boots.format_boot_request,
    in_columns=_boot_columns,
    lines=boots.boot_lines,
    found=boots.format_boot_result,
    summarize=summarize_boots,
    summary_lines=boots.summary_lines,
    summary_json=boot_json,
)


FLOWS_VIEW = GuestKindView(
    name="flow",
    plural="flows",
    purpose="flows out of guests",
    guess="as long as they are told to send",
    of=FLOW,
    experiment=Flows,
    id_of=_flow_id,
    words=flows.format_flow_request,
    in_columns=_flow_columns,
    lines=flows.flow_lines,
    found=flows.format_flow_result,
    summarize=summarize_compared,
    summary_lines=flows.summary_lines,
    summary_json=flow_json,
)
ROUTES_VIEW = GuestKindView(
    name="route",
    plural="routes",
    purpose="guests that forward",
    guess="as long as they are sent to",
    of=ROUTE,
    experiment=Routes,
    id_of=_route_id,
    words=routes.format_route_request,
    in_columns=_route_columns,
    lines=routes.route_lines,
    found=routes.format_route_result,
    summarize=summarize_routes,
    summary_lines=routes.summary_lines,
    summary_json=route_json,
)
GUEST_KIND_VIEWS = (JOBS_VIEW, BOOTS_VIEW, FLOWS_VIEW, ROUTES_VIEW)
_VIEWS = {each.name: each for each in GUEST_KIND_VIEWS}


def find_kind_view(plan: Plan) -> GuestKindView | None:
    """The view of a plan's guest experiment, or None if the plan forwards frames."""
    return None if plan.of_guests is None else _VIEWS[plan.of_guests.noun]
