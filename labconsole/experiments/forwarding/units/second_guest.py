"""A second guest: the load that it forwards, and what it costs the first one while it is idle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from labconsole.contracts.report import (
    Cell,
    Figure,
    Finding,
    Findings,
    MethodNote,
    Panel,
    PlottedCurve,
    ReportUnit,
    Table,
)
from labconsole.measure.statistics.set_ups import set_up_means
from labconsole.report.captions import MEGA, build_caption, build_mark
from labconsole.report.claim_columns import claim_columns, family_note, format_claim_effect
from labconsole.report.comparisons import SecondGuestSummary
from labconsole.report.evaluation import Evaluation
from labconsole.report.formatting import format_set_ups, format_setting, format_target_number, format_with_interval
from labconsole.report.material import Material
from labconsole.report.point_columns import rate_columns, setting_columns, target_column
from labconsole.report.points import DEDICATED, FORWARDING, IDLE, PointSummary, Setting, platform_order
from labconsole.report.table_builder import (
    TableColumn,
    build_table,
    column,
    csv_column,
    join_columns,
    percent_column,
    printed_column,
)

# -- second guest ------------------------------------------------------------------------------------------------------
# The offered and forwarded load of a second guest that forwards.


def build_forwarding_table(material: Material, background: str, name: str) -> Table:
    """Build the table of the second guest's offered (in) and measured (out) load, by the first guest's frame size."""
    made = material.evaluation
    share, family = background.rpartition("-")[2], made.claims
    columns: list[TableColumn[SecondGuestSummary]] = [
        setting_columns(lambda guest: guest.setting),
        csv_column("target_bps", _target_cell),
        csv_column("background", lambda guest: guest.setting.background),
        _load_columns(),
        claim_columns(
            lambda guest: guest.claim,
            lambda guest: None if guest.lost_ratio is None else -guest.lost_ratio,
            family,
            "out against in, %",
            with_smallest=False,
        ),
    ]
    return build_table(
        name,
        f"Second guest forwarding at {share} % of its maximum: offered (in) and measured (out)",
        columns,
        [guest for guest in made.second_guests if guest.setting.background == background],
        "Bandwidth on the wire of the second guest's own streams; the size is the first guest's. Mean over all "
        "trials of that size, whatever the first guest was offered, as in the paper (second-guest.csv has them one "
        "by one); ± half the 95 % interval. Out against in is paired, block by block; one-sided: whether more than "
        f"1 % is lost. {family_note(family)}",
    )


def _load_columns() -> TableColumn[SecondGuestSummary]:
    """What was offered to the second guest, and what it forwarded."""
    columns: list[TableColumn[SecondGuestSummary]] = [
        csv_column("set_ups", lambda guest: guest.measured_bps.set_ups),
        csv_column("trials", lambda guest: guest.measured_bps.trials),
        printed_column("set-ups × trials", lambda guest: format_set_ups(guest.measured_bps)),
        rate_columns("offered", "in, Mbit/s", lambda guest: guest.offered_bps),
        rate_columns("measured", "out, Mbit/s", lambda guest: guest.measured_bps),
        percent_column("lost_ratio", "lost, %", lambda guest: guest.lost_ratio),
    ]
    return join_columns(columns)


def _target_cell(guest: SecondGuestSummary) -> Cell:
    """The first guest's target per source in bits per second, or max, or all."""
    return "all" if guest.all_loads else "max" if guest.target_bps is None else guest.target_bps


def method(material: Material) -> MethodNote | None:
    """Describe how both tables are computed."""
    if not any(point.background in FORWARDING for point in material.evaluation.points):
        return None
    text = (
        "the second guest's own streams, measured as all others are; mean over all runs of one frame size of the first "
        "guest, whatever it was offered, as in the paper"
    )
    return MethodNote("Tables 2 and 3", text)


def build_load_table(material: Material) -> Table:
    """Build the table of the second guest's load at every design point of the first."""
    columns: list[TableColumn[SecondGuestSummary]] = [
        setting_columns(lambda guest: guest.setting),
        column(
            "target_bps",
            "target, Mbit/s",
            _target_cell,
            lambda guest: format_target_number(guest.target_bps, guest.setting.frame),
        ),
        column("background", "background", lambda guest: guest.setting.background),
        _load_columns(),
    ]
    return build_table(
        "second-guest",
        "Second guest beside every design point of the first",
        columns,
        material.evaluation.second_by_load,
        "Size, sources and target are the first guest's; in and out are the second guest's, on the wire.",
    )


def findings(material: Material) -> Findings:
    """Return findings on second guests that forward clearly less than they are offered."""
    found = tuple(_sentences(material.evaluation))
    return Findings(
        kind="second_guest_loses", heading="Second guests that lose what they are offered", claims=True, found=found
    )


def _sentences(made: Evaluation) -> Iterator[Finding]:
    for guest in made.second_guests:
        claim, setting = guest.claim, guest.setting
        if claim is not None and claim.different:
            yield Finding(
                sentence=(
                    f"{setting.platform}, background {setting.background}: with {format_setting(setting)} through the "
                    f"first guest, the second forwards {format_with_interval(guest.measured_bps)} of "
                    f"{format_with_interval(guest.offered_bps)} Mbit/s: {format_claim_effect(claim)}."
                ),
                run_ids=guest.run_ids,
            )


# -- idle guest --------------------------------------------------------------------------------------------------------
# The cost of an idle second guest for the first, load by load.

LABELS = {DEDICATED: "no second guest", IDLE: "an idle second guest"}


def both(material: Material) -> Iterator[tuple[Setting, list[PointSummary], list[PointSummary]]]:
    """Return settings measured with an idle second guest or none, with their points of both, by load."""
    settings = material.evaluation.settings
    for setting in sorted(settings, key=lambda each: (each.frame, each.sources, platform_order(each.platform))):
        other = settings.get(setting._replace(background=IDLE))
        if setting.background == DEDICATED and other is not None and settings[setting].loads & other.loads:
            alone = settings[setting].by_load
            yield (
                setting,
                [alone[load] for load in sorted(alone)],
                [other.by_load[load] for load in sorted(other.loads)],
            )


def figure(material: Material) -> Figure | None:
    """Build the figure: a panel per setting with both curves."""
    panels = []
    for setting, alone, idle in both(material):
        curves = tuple(
            PlottedCurve(
                LABELS[points[0].background],
                tuple(
                    build_mark(p.offered_bps.mean / MEGA, p.rate_bps, list(set_up_means(p.values_bps).values()))
                    for p in points
                ),
            )
            for points in (alone, idle)
        )
        panels.append(Panel(f"{setting.platform}, {format_setting(setting)}", curves))
    if not panels:
        return None
    return Figure(
        name="idle-guest",
        title="Forwarding rate with an idle second guest, and without any",
        kind="curves",
        x_label="offered bandwidth in Mbit/s on the wire",
        y_label="forwarded Mbit/s on the wire",
        panels=tuple(panels),
        caption=build_caption("Mean forwarding rate over mean offered bandwidth", panels),
    )


class IdleRow(NamedTuple):
    """The points of a setting at one load, without a second guest and with an idle one."""

    setting: Setting
    alone: PointSummary
    idle: PointSummary

    @property
    def change_ratio(self) -> float | None:
        """The change of the means, or None if nothing was forwarded without a second guest."""
        alone_bps, idle_bps = self.alone.rate_bps.mean, self.idle.rate_bps.mean
        return idle_bps / alone_bps - 1 if alone_bps > 0 else None


def table(material: Material) -> Table | None:
    """Build the table: a row for each load at which both were measured."""
    rows = []
    for setting, alone, idle in both(material):
        idle_by_load = {point.load: point for point in idle}
        rows += [IdleRow(setting, one, idle_by_load[one.load]) for one in alone if one.load in idle_by_load]
    if not rows:
        return None
    columns: list[TableColumn[IdleRow]] = [
        setting_columns(lambda row: row.setting),
        target_column(lambda row: row.alone),
        _point_columns("alone", "no second guest, Mbit/s", lambda row: row.alone),
        _point_columns("idle", "idle one, Mbit/s", lambda row: row.idle),
        percent_column("change_ratio", "change of means, %", lambda row: row.change_ratio, 2),
    ]
    return build_table(
        "idle-guest",
        "An idle second guest compared with none, load by load",
        columns,
        rows,
        "Forwarded bandwidth on the wire, ± half the 95 % interval. The change is of the means as measured and "
        "claims nothing; the claim on each setting's maximum is in table 1, against: none.",
    )


def _point_columns(name: str, heading: str, point: Callable[[IdleRow], PointSummary]) -> TableColumn[IdleRow]:
    """The rate of a point, and its numbers of set-ups and trials."""
    columns: list[TableColumn[IdleRow]] = [
        rate_columns(name, heading, lambda row: point(row).rate_bps),
        csv_column(f"{name}_set_ups", lambda row: point(row).set_ups),
        csv_column(f"{name}_trials", lambda row: point(row).n),
    ]
    return join_columns(columns)


UNITS = (
    *(
        ReportUnit(
            name=f"table-{number}",
            place=place,
            paper=("schlosser", f"table {number}"),
            make=partial(build_forwarding_table, background=background, name=f"table-{number}"),
        )
        for number, place, background in zip((2, 3), (40, 50), FORWARDING, strict=True)
    ),
    ReportUnit(name="tables-2-and-3-method", place=50, make=method),
    ReportUnit(name="second-guest", place=90, make=build_load_table),
    ReportUnit(name="second_guest_loses", place=50, make=findings),
    ReportUnit(name="idle-guest-curves", place=60, make=figure),
    ReportUnit(name="idle-guest", place=61, make=table),
)
