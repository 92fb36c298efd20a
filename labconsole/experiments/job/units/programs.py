"""The cost of virtualization for a program (Mattos et al., section 3.3): bars of one guest, and overheads in
numbers.
"""

from __future__ import annotations

from functools import partial

from labconsole.contracts.report import Figure, Panel, PlottedCurve, ReportUnit, Table
from labconsole.experiments.job.report_data import (
    CLOCK,
    build_summary,
    claimed,
    format_cpu_limits,
    format_panel_title,
    guests_column,
    job_columns,
    resource_of,
    seconds_mark,
    select_timed,
    sort_platforms,
)
from labconsole.experiments.job.summary import Overhead
from labconsole.report.captions import build_caption
from labconsole.report.formatting import format_number
from labconsole.report.material import Material
from labconsole.report.table_builder import (
    TableColumn,
    build_table,
    column,
    csv_column,
    effect_columns,
    environment_columns,
    mean_column,
    mean_columns,
    number_column,
)

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
    margin = summary.margin_ratio
    columns: list[TableColumn[Overhead]] = [
        job_columns(lambda each: each.key),
        guests_column(summary, lambda each: each.key),
        csv_column("cpu", lambda each: each.key.cpu),
        mean_column("seconds", "s", lambda each: times[each.key], places=3),
        mean_column("bare_seconds", "s on the bare host", lambda each: times[each.bare], places=3),
        mean_columns(
            "added_s", "added s", lambda each: each.added_s, places=3, bounds=("added_ci_low_s", "added_ci_high_s")
        ),
        effect_columns("added_ratio", "added", lambda each: each.effect),
        column("blocks", "blocks", lambda each: each.effect.blocks),
        csv_column("p", lambda each: each.effect.p),
        number_column("adjusted_p", "p (Holm)", lambda each: each.adjusted_p, 3),
        column("word", "finding", lambda each: each.word),
        environment_columns(lambda each: each.key, summary.testbeds),
    ]
    return build_table(
        "job-overheads",
        "What a guest adds to a program's time on the bare host",
        columns,
        summary.overheads,
        f"{CLOCK}; mean ± half the 95 % interval over set-ups. One guest works, whatever others run next to it. "
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
