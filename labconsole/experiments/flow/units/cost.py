"""Processor time for what guests sent, received, or sent to each other, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.experiments.flow.bare_host_comparison import WAYS
from labconsole.experiments.flow.cost import NOT_RECORDED, unknown_because
from labconsole.experiments.flow.record import FlowRecord
from labconsole.experiments.flow.report_data import describe_missing_result, format_set_up_mean, interval
from labconsole.experiments.flow.summary import summarize_flows
from labconsole.report.environment_columns import ENVIRONMENT_COLUMNS, build_environment_cells
from labconsole.report.formatting import format_noun_count
from labconsole.report.material import Material


def table(material: Material) -> Table | None:
    """A row for each point, with the reasons where it is not known."""
    records = [each for each in material.of("flow") if isinstance(each, FlowRecord)]
    summary, of = summarize_flows(records), {each.flow_id: each for each in records}
    gaps, recorded = dict[str, list[str]](), False
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for each in summary.points:
        key, known = each.key, each.machine_cpu_s_per_gb
        way = WAYS.get(key.pattern, "in a ring")
        trials = 0 if known is None else known.trials
        reasons = Counter(filter(None, (unknown_because(of[name]) for name in each.flow_ids)))
        where = f"{summary.name_of(key)}, {format_noun_count(key.guests, 'guest')}, {key.scenario}"
        recorded = recorded or bool(reasons.keys() - {NOT_RECORDED})
        for why, times in reasons.items():
            gaps.setdefault(why, []).append(f"{where} ({times} of {len(each.flow_ids)})")
        if not each.flow_ids:
            gaps.setdefault(describe_missing_result(each), []).append(where)
        rows.append(
            (
                way,
                key.platform,
                key.guests,
                key.scenario,
                key.cpu,
                *interval(each.cpu_s_per_gb),
                *interval(known),
                trials,
                *build_environment_cells(key, summary.testbeds),
            )
        )
        shown.append(
            (
                way,
                summary.name_of(key),
                str(key.guests),
                key.scenario,
                format_set_up_mean(each.cpu_s_per_gb, 1, 1),
                format_set_up_mean(known, 1, 1),
                str(trials),
            )
        )
    if not any(each.machine_cpu_s_per_gb for each in summary.points) and not recorded:
        return None
    quantities = ("cpu_s_per_gb", "machine_cpu_s_per_gb")
    return Table(
        name="flow-processors",
        title="Processor time for what guests send",
        columns=(
            "way",
            "platform",
            "guests",
            "scenario",
            "cpu",
            *(column for name in quantities for column in (name, f"{name}_ci_low", f"{name}_ci_high")),
            "trials",
            *ENVIRONMENT_COLUMNS,
        ),
        rows=tuple(rows),
        headings=("way", "platform", "guests", "scenario", "s/GB", "s/GB of the whole machine", "trials"),
        shown=tuple(shown),
        note="Seconds that processors were busy while a trial was watched, for each 10^9 bytes of payload that arrived "
        "(in a ring: that iperf says it sent, where its rates are those of the interfaces); mean ± half the 95 % "
        "interval over set-ups. Of the unit under test where its machine hosts no other node, else not known; of the "
        f"machine with all that runs on it. Trials: those of which it is known.{_describe_gaps(gaps)}",
    )


def _describe_gaps(gaps: Mapping[str, Sequence[str]]) -> str:
    """The points of which it is not known, each with the number of its trials and the reason."""
    return "".join(f" Not known, because {why}: {'; '.join(where)}." for why, where in gaps.items())


UNITS = (ReportUnit(name="flow-processors", place=123, make=table),)
