"""Processor time for what guests sent, received, or sent to each other, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from labconsole.contracts.report import ReportUnit, Table
from labconsole.experiments.flow.bare_host_comparison import WAYS
from labconsole.experiments.flow.cost import NOT_RECORDED, unknown_because
from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.report_data import describe_missing_result
from labconsole.experiments.flow.summary import FlowPointResult, FlowsSummary, summarize_flows
from labconsole.report.formatting import format_noun_count
from labconsole.report.guest_columns import environment_columns
from labconsole.report.material import Material
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column, mean_columns


def table(material: Material) -> Table | None:
    """A row for each point, with the reasons where it is not known."""
    records = [each for each in material.of("flow") if isinstance(each, FlowRecord)]
    summary = summarize_flows(records)
    unknown = {each.flow_id: unknown_because(each) for each in records}
    reasons = {unknown[name] for each in summary.points for name in each.flow_ids}
    if not any(each.machine_cpu_s_per_gb for each in summary.points) and not reasons - {None, NOT_RECORDED}:
        return None
    columns: list[TableColumn[FlowPointResult]] = [
        column("way", "way", lambda each: WAYS.get(each.key.pattern, "in a ring")),
        column("platform", "platform", lambda each: each.key.platform, lambda each: summary.name_of(each.key)),
        column("guests", "guests", lambda each: each.key.guests),
        column("scenario", "scenario", lambda each: each.key.scenario),
        csv_column("cpu", lambda each: each.key.cpu),
        mean_columns("cpu_s_per_gb", "s/GB", lambda each: each.cpu_s_per_gb, places=1),
        mean_columns(
            "machine_cpu_s_per_gb", "s/GB of the whole machine", lambda each: each.machine_cpu_s_per_gb, places=1
        ),
        column("trials", "trials", lambda each: each.machine_cpu_s_per_gb.trials if each.machine_cpu_s_per_gb else 0),
        environment_columns(lambda each: each.key, summary.testbeds),
    ]
    return build_table(
        "flow-processors",
        "Processor time for what guests send",
        columns,
        summary.points,
        "Seconds that processors were busy while a trial was watched, for each 10^9 bytes of payload that arrived "
        "(in a ring: that iperf says it sent, where its rates are those of the interfaces); mean ± half the 95 % "
        "interval over set-ups. Of the unit under test where its machine hosts no other node, else not known; of the "
        f"machine with all that runs on it. Trials: those of which it is known.{_describe_gaps(summary, unknown)}",
    )


def _describe_gaps(summary: FlowsSummary, unknown: Mapping[str, str | None]) -> str:
    """The points of which it is not known, each with the number of its trials and the reason. ``unknown``: the reason
    for each trial, or None if its time is known.
    """
    gaps: dict[str, list[str]] = {}
    for each in summary.points:
        where = f"{summary.name_of(each.key)}, {format_noun_count(each.key.guests, 'guest')}, {each.key.scenario}"
        for why, times in Counter(filter(None, (unknown[name] for name in each.flow_ids))).items():
            gaps.setdefault(why, []).append(f"{where} ({times} of {len(each.flow_ids)})")
        if not each.flow_ids:
            gaps.setdefault(describe_missing_result(each), []).append(where)
    return "".join(f" Not known, because {why}: {'; '.join(where)}." for why, where in gaps.items())


UNITS = (ReportUnit(name="flow-processors", place=123, make=table),)
