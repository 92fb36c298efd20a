"""The cost of virtualization for a program (Mattos et al., section 3.3): bars of one guest, and overheads in
numbers.
"""

from __future__ import annotations

from functools import partial

from labconsole.contracts.report import Cell, Figure, Panel, PlottedCurve, ReportUnit, Table
from labconsole.experiments.job.report_data import (
    CLOCK,
    build_summary,
    claimed,
    describe_settings,
    format_cpu_limits,
    format_job,
    format_panel_title,
    format_seconds,
    resource_of,
    seconds_mark,
    select_timed,
    sort_platforms,
)
from labconsole.report.captions import build_caption
from labconsole.report.effect_formatting import format_effect
from labconsole.report.environment_columns import ENVIRONMENT_COLUMNS, build_environment_cells
from labconsole.report.formatting import UNKNOWN, format_number
from labconsole.report.material import Material

FIGURES = {"mattos-1": ("cpu", "memory"), "mattos-2": ("disk",)}
WHAT = {"mattos-1": "programs of the processor and of memory", "mattos-2": "programs that use the disk"}


def bars(material: Material, name: str) -> Figure | None:
    """Build the figure: a panel per job, a bar per platform, with one guest and no other."""
    summary = build_summary(material)
    alone = [
        each
        for each in select_timed(summary.points)
        if each.key.guests == 1 and resource_of(each.key) in FIGURES[name] and not format_cpu_limits(each.key)
    ]
    panels = []
    for title in dict.fromkeys(format_panel_title(summary, each.key) for each in alone):
        own = [each for each in alone if format_panel_title(summary, each.key) == title]
        curves = []
        for platform in sort_platforms(each.key for each in own):
            times = next(each for each in own if each.key.platform == platform)
            assert times.seconds is not None
            curves.append(PlottedCurve(platform, (seconds_mark(0, times.seconds),)))
        panels.append(Panel(title, tuple(curves)))
    if not panels:
        return None
    return Figure(
        name=name,
        title=f"Execution time of {WHAT[name]} in one guest",
        kind="bars",
        x_label="",
        y_label="seconds",
        panels=tuple(panels),
        caption=build_caption(CLOCK, panels),
        x_names=("1 guest",),
    )


def overheads(material: Material) -> Table | None:
    """Build the table of every point in which one guest works: the increase over the time alone on the bare host."""
    summary = build_summary(material)
    if not summary.overheads:
        return None
    times = {each.key: each.seconds for each in summary.points}
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for each in summary.overheads:
        key, effect, added = each.key, each.effect, each.added_s
        ours, bare = times[key], times[each.bare]
        rows.append(
            (
                key.platform,
                key.job,
                key.size,
                key.guests,
                key.cpu,
                None if ours is None else ours.mean,
                None if bare is None else bare.mean,
                None if added is None else added.mean,
                None if added is None else added.ci_low,
                None if added is None else added.ci_high,
                effect.change,
                effect.ci_low,
                effect.ci_high,
                effect.blocks,
                effect.p,
                each.adjusted_p,
                each.word,
                *build_environment_cells(key, summary.testbeds),
            )
        )
        shown.append(
            (
                key.platform,
                format_job(key),
                describe_settings(summary, key, guests=True),
                format_seconds(ours),
                format_seconds(bare),
                format_seconds(added),
                format_effect(effect),
                str(effect.blocks),
                UNKNOWN if each.adjusted_p is None else format_number(each.adjusted_p, 3),
                each.word,
            )
        )
    margin = summary.margin_ratio
    return Table(
        name="job-overheads",
        title="What a guest adds to a program's time on the bare host",
        columns=(
            "platform",
            "job",
            "size",
            "guests",
            "cpu",
            "seconds",
            "bare_seconds",
            "added_s",
            "added_ci_low_s",
            "added_ci_high_s",
            "added_ratio",
            "added_ratio_ci_low",
            "added_ratio_ci_high",
            "blocks",
            "p",
            "adjusted_p",
            "word",
            *ENVIRONMENT_COLUMNS,
        ),
        rows=tuple(rows),
        headings=(
            "platform",
            "job",
            "guests",
            "s",
            "s on the bare host",
            "added s",
            "added",
            "blocks",
            "p (Holm)",
            "finding",
        ),
        shown=tuple(shown),
        note=f"{CLOCK}; mean ± half the 95 % interval over set-ups. One guest works, whatever others run next to it. "
        "Added: paired by block, relative on the logarithm. The findings are one family (Holm)"
        + (
            ", no margin declared: nothing is called equivalent."
            if margin is None
            else f"; equivalent within {format_number(margin * 100)} %."
        ),
    )


UNITS = (
    *(
        ReportUnit(name=name, place=100 + place, paper=("mattos", f"figure {place}"), make=partial(bars, name=name))
        for place, name in enumerate(FIGURES, 1)
    ),
    ReportUnit(name="job-overheads", place=110, make=overheads, claims=claimed),
)
