"""What guests cost: rates next to those of the bare host as end point, and processor time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from labconsole.contracts.report import ReportUnit, Table
from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.report_data import WAYS, compare_flows, describe_missing_result, format_set_up_mean
from labconsole.experiments.flow.summary import (
    NOT_RECORDED,
    BareHostComparison,
    FlowPointResult,
    FlowsSummary,
    summarize_flows,
    unknown_because,
)
from labconsole.model.record.kind import ExperimentRecord
from labconsole.report.captions import MEGA
from labconsole.report.formatting import format_noun_count, format_number
from labconsole.report.material import Material
from labconsole.report.table_builder import (
    TableColumn,
    build_table,
    column,
    csv_column,
    effect_columns,
    environment_columns,
    mean_columns,
    number_column,
)

# -- bare host overhead ------------------------------------------------------------------------------------------------
# What guests send and read compared with the bare host as end point (Mattos et al., figure 3, in numbers).


def claimed(experiments: Mapping[str, Sequence[ExperimentRecord]]) -> list[float]:
    """The p values of the comparisons."""
    return [p for each in compare_flows(_flows(experiments.get("flow", ()))) if (p := each.effect.p) is not None]


def _flows(records: Sequence[ExperimentRecord]) -> list[FlowRecord]:
    return [each for each in records if isinstance(each, FlowRecord)]


def build_overhead_table(material: Material) -> Table | None:
    """A row for each point that was also measured on the bare host."""
    records = _flows(material.of("flow"))
    found = compare_flows(records, material.evaluation.claims.p_values)
    if not found:
        return None
    summary = summarize_flows(each for each in records if each.requested.pattern in WAYS)
    margin = found[0].margin_ratio
    columns: list[TableColumn[BareHostComparison]] = [
        column("way", "way", lambda each: WAYS[each.key.pattern]),
        column("platform", "platform", lambda each: each.key.platform, lambda each: summary.name_of(each.key)),
        column("guests", "guests", lambda each: each.key.guests),
        column("scenario", "scenario", lambda each: each.key.scenario),
        csv_column("cpu", lambda each: each.key.cpu),
        csv_column("payload_bytes", lambda each: each.key.payload_bytes),
        csv_column("bare_processes", lambda each: each.bare.guests),
        mean_columns("sum_bps", "Mbit/s", lambda each: each.ours_bps, MEGA, 2),
        mean_columns("bare_bps", "Mbit/s of the bare host", lambda each: each.bare_bps, show=_format_bare_host),
        effect_columns("change", "change", lambda each: each.effect),
        column("blocks", "blocks", lambda each: each.effect.blocks),
        csv_column("p", lambda each: each.effect.p),
        number_column("adjusted_p", "p (Holm)", lambda each: each.adjusted_p, 3),
        csv_column("equivalent_p", lambda each: each.equivalent_p),
        csv_column("margin_ratio", lambda each: each.margin_ratio),
        column("word", "finding", lambda each: each.word, lambda each: each.said),
        csv_column("both_full", lambda each: int(each.both_full)),
        environment_columns(lambda each: each.key, summary.testbeds),
    ]
    return build_table(
        "flow-overheads",
        "What guests send and read compared with the bare host",
        columns,
        found,
        "Payload of all guests together that arrived at the sink while all of them sent, or that they read of what "
        "they were sent; mean ± half the 95 % interval over set-ups. Change: paired by block, on the logarithm. The "
        "findings are one family with all that the report claims (Holm)"
        + (
            ", no margin declared: nothing is called equivalent"
            if margin is None
            else f"; equivalent within {format_number(margin * 100)} %"
        )
        + ". Where both fill the link, an overhead beyond it cannot be seen.",
    )


def _format_bare_host(each: BareHostComparison) -> str:
    """The bare host's rate with its number of processes."""
    processes = f"{each.bare.guests} process{'es' if each.bare.guests > 1 else ''}"
    return f"{format_set_up_mean(each.bare_bps)} ({processes})"


# -- processor time ----------------------------------------------------------------------------------------------------
# Processor time for what guests sent, received, or sent to each other, in numbers.


def build_processor_table(material: Material) -> Table | None:
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


UNITS = (
    ReportUnit(name="flow-overheads", place=119, make=build_overhead_table, claims=claimed),
    ReportUnit(name="flow-processors", place=123, make=build_processor_table),
)
