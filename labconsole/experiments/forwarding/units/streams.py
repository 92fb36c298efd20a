"""Streams in trials with several: the share and the rate of each at a setting's maximum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from labconsole.contracts.report import Figure, Finding, Findings, Panel, PlottedCurve, ReportUnit, Table
from labconsole.measure.statistics.set_ups import SetUpMean, set_up_means
from labconsole.report.captions import build_caption, build_mark
from labconsole.report.claim_columns import claim_columns, family_note, format_claim_effect, format_finding
from labconsole.report.comparisons import StreamShare
from labconsole.report.evaluation import Evaluation
from labconsole.report.formatting import (
    UNKNOWN,
    format_full_setting,
    format_number,
    format_percent,
    format_setting,
    target_cell,
)
from labconsole.report.material import Material
from labconsole.report.point_columns import rate_columns, setting_columns
from labconsole.report.points import DEDICATED, MaximumReading, Values, mean_of_point
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column, percent_column, printed_column

# -- shares ------------------------------------------------------------------------------------------------------------
# Each stream's share of the forwarded load at a setting's maximum.


def build_shares_table(material: Material) -> Table:
    """Build the table of every stream in trials with several, with its claim."""
    family = material.evaluation.claims
    columns: list[TableColumn[StreamShare]] = [
        setting_columns(lambda each: each.reading.setting),
        column("background", "background", lambda each: each.reading.setting.background),
        csv_column("target_bps", lambda each: target_cell(each.reading.point)),
        column("stream", "stream", lambda each: each.stream),
        percent_column("share_ratio", "share, %", lambda each: each.share, 2),
        claim_columns(lambda each: each.claim, lambda each: each.share * each.streams - 1, family),
    ]
    return build_table(
        "streams",
        "Streams of one trial: share of what was forwarded",
        columns,
        material.evaluation.streams,
        "At each setting's maximum, of trials whose streams were offered the same; change: against an equal share. "
        f"Of two streams the first says it for both. {family_note(family)}",
    )


def findings(material: Material) -> Findings:
    """Return findings on streams that have more or less than an equal share."""
    found = tuple(_sentences(material.evaluation))
    return Findings(
        kind="unequal_streams", heading="Streams of one trial that fare unequally", claims=True, found=found
    )


def _sentences(made: Evaluation) -> Iterator[Finding]:
    for each in made.streams:
        if each.claim.different:
            yield Finding(
                sentence=(
                    f"{format_full_setting(each.reading.setting)}: the streams of one trial fare unequally; "
                    f"{each.stream} has {format_percent(each.share)} of what is forwarded: "
                    f"{format_claim_effect(each.claim)} against an equal share."
                ),
                run_ids=each.claim.run_ids,
            )


# -- rates -------------------------------------------------------------------------------------------------------------
# The rate of each stream in trials with several, at the setting's maximum, with its interval over set-ups.


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRate:
    """One stream at its setting's maximum. ``finding``: the result of testing its share against an equal one."""

    reading: MaximumReading
    stream: str
    rate: SetUpMean
    means_bps: tuple[float, ...]
    finding: str


def rates(material: Material) -> Iterator[StreamRate]:
    """Return the rates in trials whose streams were offered the same load, as for the shares."""
    made, facts = material.evaluation, material.digest.facts
    said = {(each.reading.setting, each.stream): format_finding(each.claim, made.claims) for each in made.streams}
    for setting, points in made.settings.items():
        if setting.sources < 2:
            continue
        reading = points.read()
        values: dict[str, Values] = {}
        for run_id, block, total_bps in zip(
            reading.point.run_ids, reading.point.blocks_of_runs, reading.point.trial_values_bps, strict=True
        ):
            known = facts.get(run_id)
            if known is None or known.shares is None or block not in reading.means_bps:
                continue
            for name, share in known.shares.items():
                values.setdefault(name, {}).setdefault(block, []).append(share * total_bps)
        for name in sorted(values):
            # With two streams, the finding on the first covers both.
            finding = said.get((setting, name)) or said.get((setting, min(values)), UNKNOWN)
            yield StreamRate(
                reading=reading,
                stream=name,
                rate=mean_of_point(values[name]),
                means_bps=tuple(set_up_means(values[name]).values()),
                finding=finding,
            )


def build_rates_table(material: Material) -> Table | None:
    """Build the table: a row per stream, with its rate and the result of the test of equal shares."""
    found = list(rates(material))
    if not found:
        return None
    columns: list[TableColumn[StreamRate]] = [
        setting_columns(lambda each: each.reading.setting),
        column("background", "background", lambda each: each.reading.setting.background),
        csv_column("target_bps", lambda each: target_cell(each.reading.point)),
        column("stream", "stream", lambda each: each.stream),
        rate_columns("forwarding", "forwarded, Mbit/s", lambda each: each.rate),
        csv_column("set_ups", lambda each: each.rate.set_ups),
        csv_column("trials", lambda each: each.rate.trials),
        printed_column(
            "set-ups × trials",
            lambda each: f"{each.rate.set_ups} × {format_number(each.rate.trials / each.rate.set_ups, 0)}",
        ),
        column("equal_share", "against an equal share", lambda each: each.finding),
    ]
    return build_table(
        "stream-rates",
        "Streams of one trial: what each brings at the setting's maximum",
        columns,
        found,
        "Bandwidth on the wire of each stream, of trials whose streams were offered the same; ± half the 95 % "
        "interval. The test of equal shares is that of the table of shares, in its family of claims.",
    )


def figure(material: Material) -> Figure | None:
    """Build the figure: a panel per setting without a second guest, bars by platform, one per stream."""
    found = [each for each in rates(material) if each.reading.setting.background == DEDICATED]
    platforms = tuple(dict.fromkeys(each.reading.setting.platform for each in found))
    panels = []
    for title in dict.fromkeys(format_setting(each.reading.setting) for each in found):
        here = [each for each in found if format_setting(each.reading.setting) == title]
        curves = tuple(
            PlottedCurve(
                stream,
                tuple(
                    build_mark(platforms.index(each.reading.setting.platform), each.rate, each.means_bps)
                    for each in here
                    if each.stream == stream
                ),
            )
            for stream in sorted({each.stream for each in here})
        )
        panels.append(Panel(title, curves))
    if not panels:
        return None
    return Figure(
        name="stream-rates",
        title="What each stream of a trial brings",
        kind="bars",
        x_label="",
        y_label="forwarded Mbit/s on the wire",
        panels=tuple(panels),
        caption=build_caption("Mean forwarding rate of each stream at the setting's maximum", panels),
        x_names=platforms,
    )


UNITS = (
    ReportUnit(name="streams", place=70, make=build_shares_table),
    ReportUnit(name="unequal_streams", place=60, make=findings),
    ReportUnit(name="stream-rates", place=71, make=build_rates_table),
    ReportUnit(name="stream-bars", place=71, make=figure),
)
