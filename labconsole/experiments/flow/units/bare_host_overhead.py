"""What guests send and read compared with the bare host as end point (Mattos et al., figure 3, in numbers)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.experiments.flow.bare_host_comparison import WAYS, compare_flows
from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.report_data import format_set_up_mean, interval
from labconsole.experiments.flow.summary import BareHostComparison, summarize_flows
from labconsole.model.record.kind import ExperimentRecord
from labconsole.report.effect_formatting import format_effect
from labconsole.report.environment_columns import ENVIRONMENT_COLUMNS, build_environment_cells
from labconsole.report.formatting import UNKNOWN, format_number
from labconsole.report.material import Material


def claimed(experiments: Mapping[str, Sequence[ExperimentRecord]]) -> list[float]:
    """The p values of the comparisons."""
    return [p for each in compare_flows(_flows(experiments.get("flow", ()))) if (p := each.effect.p) is not None]


def _flows(records: Sequence[ExperimentRecord]) -> list[FlowRecord]:
    return [each for each in records if isinstance(each, FlowRecord)]


def table(material: Material) -> Table | None:
    """A row for each point that was also measured on the bare host."""
    records = _flows(material.of("flow"))
    found = compare_flows(records, material.evaluation.claims.p_values)
    if not found:
        return None
    summary = summarize_flows(each for each in records if each.requested.pattern in WAYS)
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for each in found:
        key, effect = each.key, each.effect
        rows.append(
            (
                WAYS[key.pattern],
                key.platform,
                key.guests,
                key.scenario,
                key.cpu,
                key.payload_bytes,
                each.bare.guests,
                *interval(each.ours_bps),
                *interval(each.bare_bps),
                effect.change,
                effect.ci_low,
                effect.ci_high,
                effect.blocks,
                effect.p,
                each.adjusted_p,
                each.equivalent_p,
                each.margin_ratio,
                each.word,
                int(each.both_full),
                *build_environment_cells(key, summary.testbeds),
            )
        )
        shown.append(
            (
                WAYS[key.pattern],
                summary.name_of(key),
                str(key.guests),
                key.scenario,
                format_set_up_mean(each.ours_bps),
                f"{format_set_up_mean(each.bare_bps)} ({_processes(each)})",
                format_effect(effect),
                str(effect.blocks),
                UNKNOWN if each.adjusted_p is None else format_number(each.adjusted_p, 3),
                each.said,
            )
        )
    margin = found[0].margin_ratio
    return Table(
        name="flow-overheads",
        title="What guests send and read beside the bare host",
        columns=(
            "way",
            "platform",
            "guests",
            "scenario",
            "cpu",
            "payload_bytes",
            "bare_processes",
            "sum_bps",
            "sum_bps_ci_low",
            "sum_bps_ci_high",
            "bare_bps",
            "bare_bps_ci_low",
            "bare_bps_ci_high",
            "change",
            "change_ci_low",
            "change_ci_high",
            "blocks",
            "p",
            "adjusted_p",
            "equivalent_p",
            "margin_ratio",
            "word",
            "both_full",
            *ENVIRONMENT_COLUMNS,
        ),
        rows=tuple(rows),
        headings=(
            "way",
            "platform",
            "guests",
            "scenario",
            "Mbit/s",
            "Mbit/s of the bare host",
            "change",
            "blocks",
            "p (Holm)",
            "finding",
        ),
        shown=tuple(shown),
        note="Payload of all guests together, that came to the sink while all of them sent, or that they read of what "
        "they were sent; mean ± half the 95 % interval over set-ups. Change: paired by block, on the logarithm. The "
        "findings are one family with all that the report claims (Holm)"
        + (
            ", no margin declared: nothing is called equivalent"
            if margin is None
            else f"; equivalent within {format_number(margin * 100)} %"
        )
        + ". Where both fill the link, an overhead beyond it cannot be seen.",
    )


def _processes(each: BareHostComparison) -> str:
    return f"{each.bare.guests} process{'es' if each.bare.guests > 1 else ''}"


UNITS = (ReportUnit(name="flow-overheads", place=119, make=table, claims=claimed),)
