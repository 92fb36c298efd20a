"""What processors did for what guests sent, received, or sent to each other, in numbers."""

from __future__ import annotations

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.experiments.flow.comparing import WAYS
from labconsole.experiments.flow.shown import interval, words
from labconsole.experiments.flow.summary import summarize_flows
from labconsole.model.record.flow import FlowRecord
from labconsole.report.material import Material
from labconsole.report.tested_on import TESTED_ON, tested_on


def table(material: Material) -> Table | None:
    """A row for each point of which it is known."""
    summary = summarize_flows(each for each in material.of("flow") if isinstance(each, FlowRecord))
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for each in summary.points:
        key = each.key
        if each.machine_cpu_s_per_gb is None:
            continue
        way = WAYS.get(key.pattern, "in a ring")
        rows.append(
            (
                way, key.platform, key.guests, key.scenario, key.cpu, *interval(each.cpu_s_per_gb),
                *interval(each.machine_cpu_s_per_gb), len(each.flow_ids), *tested_on(key, summary.testbeds),
            )
        )  # fmt: skip
        shown.append(
            (
                way, summary.name_of(key), str(key.guests), key.scenario, words(each.cpu_s_per_gb, 1, 1),
                words(each.machine_cpu_s_per_gb, 1, 1), str(len(each.flow_ids)),
            )
        )  # fmt: skip
    if not rows:
        return None
    quantities = ("cpu_s_per_gb", "machine_cpu_s_per_gb")
    return Table(
        name="flow-processors",
        title="Processor time for what guests send",
        columns=(
            "way", "platform", "guests", "scenario", "cpu",
            *(column for name in quantities for column in (name, f"{name}_ci_low", f"{name}_ci_high")), "trials",
            *TESTED_ON,
        ),
        rows=tuple(rows),
        headings=("way", "platform", "guests", "scenario", "s/GB", "s/GB of the whole machine", "trials"),
        shown=tuple(shown),
        note="Seconds that processors were busy while a trial was watched, for each 10^9 bytes of payload that arrived "
        "(in a ring: that iperf says it sent, where its rates are those of the interfaces); mean ± half the 95 % "
        "interval over set-ups. Of the unit under test where its machine hosts no other node, else not known; of the "
        "machine with all that runs on it.",
    )  # fmt: skip


UNITS = (ReportUnit(name="flow-processors", place=123, make=table),)
