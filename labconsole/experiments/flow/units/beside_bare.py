"""What guests send and read beside the bare host as end point (Mattos et al., figure 3, in numbers)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labconsole.contracts.report import Cell, ReportUnit, Table
from labconsole.experiments.flow.comparing import WAYS, compare_flows
from labconsole.experiments.flow.shown import interval, words
from labconsole.experiments.flow.summary import BesideBare, summarize_flows
from labconsole.model.record.flow import FlowRecord
from labconsole.model.record.kind import ExperimentRecord
from labconsole.report.effect_words import effect_words
from labconsole.report.material import Material
from labconsole.report.tested_on import TESTED_ON, tested_on
from labconsole.report.words import UNKNOWN, number


def claimed(experiments: Mapping[str, Sequence[ExperimentRecord]]) -> list[float]:
    """The p values of what is compared."""
    return [p for each in compare_flows(_flows(experiments.get("flow", ()))) if (p := each.effect.p) is not None]


def _flows(records: Sequence[ExperimentRecord]) -> list[FlowRecord]:
    return [each for each in records if isinstance(each, FlowRecord)]


def table(material: Material) -> Table | None:
    """A row for each point that the bare host was asked, too."""
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
                WAYS[key.pattern], key.platform, key.guests, key.scenario, key.cpu, key.payload_bytes, each.bare.guests,
                *interval(each.ours_bps), *interval(each.bare_bps), effect.change, effect.ci_low, effect.ci_high,
                effect.blocks, effect.p, each.adjusted_p, each.equivalent_p, each.margin_ratio, each.word,
                int(each.both_full), *tested_on(key, summary.testbeds),
            )
        )  # fmt: skip
        shown.append(
            (
                WAYS[key.pattern], summary.name_of(key), str(key.guests), key.scenario, words(each.ours_bps),
                f"{words(each.bare_bps)} ({_processes(each)})", effect_words(effect), str(effect.blocks),
                UNKNOWN if each.adjusted_p is None else number(each.adjusted_p, 3), each.said,
            )
        )  # fmt: skip
    margin = found[0].margin_ratio
    return Table(
        name="flow-overheads",
        title="What guests send and read beside the bare host",
        columns=(
            "way", "platform", "guests", "scenario", "cpu", "payload_bytes", "bare_processes", "sum_bps",
            "sum_bps_ci_low", "sum_bps_ci_high", "bare_bps", "bare_bps_ci_low", "bare_bps_ci_high", "change",
            "change_ci_low", "change_ci_high", "blocks", "p", "adjusted_p", "equivalent_p", "margin_ratio", "word",
            "both_full", *TESTED_ON,
        ),
        rows=tuple(rows),
        headings=(
            "way", "platform", "guests", "scenario", "Mbit/s", "Mbit/s of the bare host", "change", "blocks",
            "p (Holm)", "finding",
        ),
        shown=tuple(shown),
        note="Payload of all guests together, that came to the sink while all of them sent, or that they read of what "
        "they were sent; mean ± half the 95 % interval over set-ups. Change: paired by block, on the logarithm. The "
        "findings are one family with all that the report claims (Holm)"
        + (", no margin declared: nothing is called equivalent" if margin is None
           else f"; equivalent within {number(margin * 100)} %")
        + ". Where both fill the link, an overhead beyond it cannot be seen.",
    )  # fmt: skip


def _processes(each: BesideBare) -> str:
    return f"{each.bare.guests} process{'es' if each.bare.guests > 1 else ''}"


UNITS = (ReportUnit(name="flow-overheads", place=119, make=table, claims=claimed),)
