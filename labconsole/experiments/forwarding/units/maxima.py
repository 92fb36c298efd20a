"""Maxima of the forwarding rate: by the number of sources, next to a second guest, collapse above, not reached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from labconsole.contracts.report import Figure, Finding, Findings, Mark, Panel, PlottedCurve, ReportUnit, Table
from labconsole.report.captions import MEGA, build_caption, build_mark, collect_platforms, collect_sizes
from labconsole.report.claim_columns import claim_columns, family_note, format_claim_effect
from labconsole.report.comparisons import NOT_REACHED, Collapse, Comparison, find_paired_blocks
from labconsole.report.evaluation import Evaluation
from labconsole.report.formatting import (
    format_frame_size,
    format_full_setting,
    format_noun_count,
    format_number,
    format_with_interval,
    target_cell,
)
from labconsole.report.material import Material
from labconsole.report.point_columns import setting_columns, target_column
from labconsole.report.points import DEDICATED, FORWARDING, IDLE, MaximumReading
from labconsole.report.table_builder import TableColumn, build_table, column, csv_column, number_column

# -- maximum by sources ------------------------------------------------------------------------------------------------
# The maximum accumulated throughput with 1, 2, … sources, no second guest.


def build_sources_figure(material: Material) -> Figure | None:
    """Build the figure: bars by number of sources, a panel per frame size."""
    made = material.evaluation
    chosen = [p for p in made.points if p.background == DEDICATED]
    readings = [reading for reading in made.maxima if reading.setting.background == DEDICATED]
    numbers = sorted({p.sources for p in chosen})
    panels = []
    for size in collect_sizes(chosen):
        curves = []
        for platform in collect_platforms(chosen):
            own = {r.setting.sources: r for r in readings if r.setting.platform == platform and r.setting.frame == size}
            marks = [
                build_mark(place, own[count].rate, list(own[count].means_bps.values()))
                for place, count in enumerate(numbers)
                if count in own
            ]
            if marks:
                curves.append(PlottedCurve(platform, tuple(marks)))
        panels.append(Panel(format_frame_size(size), tuple(curves)))
    if not panels:
        return None
    return Figure(
        name="figure-4",
        title="Maximum accumulated throughput by number of sources",
        kind="bars",
        x_label="sources",
        y_label="forwarded Mbit/s on the wire",
        panels=tuple(panels),
        caption=build_caption(f"{_describe_maximum(readings)}, summed over the streams", panels)
        + _lower_bounds(readings),
        x_names=tuple(str(count) for count in numbers),
    )


def _describe_maximum(readings: Sequence[MaximumReading]) -> str:
    said = {
        "pilot's load": "rate at the load that the pilot chose",
        "chosen on block 1, read from the others": "rate at the load that block 1 chose, read from the other blocks",
        "one load: a rate, no maximum": "rate at the one load that was measured",
        "the pilot's load was not measured": "highest mean over the loads, too high on average, as no run entered at "
        "the load that the pilot chose",
    }
    methods = dict.fromkeys(
        said.get(r.choice.method, "highest mean over the loads, which is too high on average") for r in readings
    )
    text = ", or ".join(methods)
    return text[:1].upper() + text[1:]


def _lower_bounds(readings: Sequence[MaximumReading]) -> str:
    count = sum(bool(r.at_least) for r in readings)
    if not count:
        return ""
    return f" {count} of {len(readings)} maxima were not reached: their bars are lower bounds."


# -- maximum with forwarding -------------------------------------------------------------------------------------------
# The maximum with a second guest that forwards, relative to the maximum without a second guest.
#
# Maxima that were not reached are excluded, because two lower bounds give no ratio.


def build_forwarding_figure(material: Material) -> Figure | None:
    """Build the figure: bars by platform, for the fewest sources that have a ratio."""
    made = material.evaluation
    known = [c for c in made.network_loads if c.change_ratio is not None]
    if all(c.claim.why == NOT_REACHED for c in known):
        return None
    platforms = collect_platforms(made.points)
    fewest = min(c.subject.setting.sources for c in known if c.claim.why != NOT_REACHED)
    comparisons = [c for c in known if c.subject.setting.sources == fewest]
    found = [c for c in comparisons if c.claim.why != NOT_REACHED]
    panels = []
    for size in collect_sizes(c.subject.point for c in found):
        curves = []
        for kind in FORWARDING:
            marks = [
                _mark(platforms.index(c.subject.setting.platform), c)
                for c in found
                if c.subject.setting.background == kind and c.subject.setting.frame == size
            ]
            if marks:
                curves.append(PlottedCurve(kind, tuple(marks)))
        panels.append(Panel(format_frame_size(size), tuple(curves)))
    sources = format_noun_count(fewest, "source")
    return Figure(
        name="figure-5",
        title="Maximum throughput with a forwarding second guest, relative to the dedicated maximum",
        kind="bars",
        x_label="platform",
        y_label="ratio to the dedicated maximum",
        panels=tuple(panels),
        caption=build_caption(
            f"Ratio of two maxima over the loads measured with both, {sources}, {_describe_baseline(found)}",
            panels,
            "ratio within a block",
        )
        + _describe_omitted(len(comparisons) - len(found), len(comparisons)),
        x_names=tuple(platforms),
        reference_line=1.0,
    )


def _describe_baseline(found: Sequence[Comparison]) -> str:
    descriptions = {
        DEDICATED: "the dedicated maximum (no second guest)",
        IDLE: "the maximum with an idle second guest",
    }
    names = {c.baseline.setting.background for c in found}
    return "compared with " + " or, where that is missing, ".join(
        text for name, text in descriptions.items() if name in names
    )


def _describe_omitted(missing: int, of: int) -> str:
    return f" {missing} of {of} ratios are not drawn: a maximum was not reached." if missing else ""


def _mark(x: int, change: Comparison) -> Mark:
    effect, s, b = change.claim.effect, change.subject, change.baseline
    trials, set_ups = min(s.rate.trials, b.rate.trials), min(s.rate.set_ups, b.rate.set_ups)
    if effect is None or effect.change is None:
        return Mark(x, 1 + (change.change_ratio or 0.0), None, None, trials, set_ups)
    low, high = (None if bound is None else 1 + bound for bound in (effect.ci_low, effect.ci_high))
    blocks = [block for block in find_paired_blocks(s, b) if b.means_bps[block] > 0] if effect.paired else []
    dots = tuple(s.means_bps[block] / b.means_bps[block] for block in blocks)
    return Mark(x, 1 + effect.change, low, high, trials, set_ups, dots)


# -- not reached -------------------------------------------------------------------------------------------------------
# Maxima that are limited by the load and not by the platform.


def find_not_reached(material: Material) -> Findings:
    """Return findings by platform: almost nothing is lost at the highest load."""
    found = tuple(_describe_not_reached(material.evaluation.maxima))
    return Findings(kind="maximum_not_reached", heading="Maxima that the load set, not the platform", found=found)


def _describe_not_reached(maxima: Iterable[MaximumReading]) -> Iterator[Finding]:
    by_platform: dict[str, list[str]] = {}
    ids: dict[str, list[str]] = {}
    for reading in maxima:
        if reading.at_least:
            place = format_full_setting(reading.setting).removeprefix(f"{reading.setting.platform}, ")
            text = f"{place} (at least {format_with_interval(reading.rate)} Mbit/s)"
            by_platform.setdefault(reading.setting.platform, []).append(text)
            ids.setdefault(reading.setting.platform, []).extend(reading.point.run_ids)
    for platform, texts in by_platform.items():
        yield Finding(
            sentence=(
                f"{platform}: less than 0.1 % is lost or late at the highest load, so the maximum lies there or "
                f"beyond, and nothing is concluded from it: {'; '.join(texts)}."
            ),
            run_ids=tuple(ids[platform]),
        )


# -- collapse ----------------------------------------------------------------------------------------------------------
# The rate at the highest load relative to the maximum, for each setting that has both.


def build_collapse_table(material: Material) -> Table:
    """Build the table of every setting whose maximum is below its highest load, with its claim."""
    family = material.evaluation.claims
    columns: list[TableColumn[Collapse]] = [
        setting_columns(lambda each: each.reading.setting),
        column("background", "background", lambda each: each.reading.setting.background),
        number_column("maximum_bps", "maximum, Mbit/s", lambda each: each.reading.rate.mean, unit=MEGA),
        target_column(lambda each: each.reading.point, "at, Mbit/s"),
        number_column(
            "highest_bps", "highest load, Mbit/s", lambda each: each.reading.highest.rate_bps.mean, unit=MEGA
        ),
        csv_column("highest_target_bps", lambda each: target_cell(each.reading.highest)),
        claim_columns(lambda each: each.claim, _derive_plain_ratio, family),
    ]
    return build_table(
        "collapse",
        "Rate at the highest load against that at the maximum",
        columns,
        material.evaluation.collapses,
        f"One-sided: whether more than 2 % is lost beyond the maximum. {family_note(family)}",
    )


def _derive_plain_ratio(each: Collapse) -> float | None:
    """The change of the means, or None if nothing was forwarded at the maximum."""
    reading = each.reading
    return reading.highest.rate_bps.mean / reading.rate.mean - 1 if reading.rate.mean else None


def find_collapses(material: Material) -> Findings:
    """Return findings on settings that lose more than a little of their maximum."""
    found = tuple(_describe_collapses(material.evaluation))
    return Findings(kind="collapse", heading="Collapse beyond the maximum", claims=True, found=found)


def _describe_collapses(made: Evaluation) -> Iterator[Finding]:
    for each in made.collapses:
        if each.claim.different:
            r = each.reading
            yield Finding(
                sentence=(
                    f"{format_full_setting(r.setting)}: collapses beyond its maximum; "
                    f"{format_with_interval(r.rate)} Mbit/s forwarded at "
                    f"{format_number(r.point.offered_bps.mean / 1e6)} offered, "
                    f"{format_with_interval(r.highest.rate_bps)} at "
                    f"{format_number(r.highest.offered_bps.mean / 1e6)}: {format_claim_effect(each.claim)}."
                ),
                run_ids=each.claim.run_ids,
            )


UNITS = (
    ReportUnit(name="figure-4", place=20, paper=("schlosser", "figure 4"), make=build_sources_figure),
    ReportUnit(name="figure-5", place=30, paper=("schlosser", "figure 5"), make=build_forwarding_figure),
    ReportUnit(name="maximum_not_reached", place=70, make=find_not_reached),
    ReportUnit(name="collapse", place=60, make=build_collapse_table),
    ReportUnit(name="collapse", place=40, make=find_collapses),
)
