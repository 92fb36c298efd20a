"""The offered and forwarded load of a second guest that forwards."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from labconsole.contracts.report import Cell, Finding, Findings, MethodNote, ReportUnit, Table
from labconsole.report.claim_columns import claim_columns, family_note, format_claim_effect
from labconsole.report.comparisons import SecondGuestSummary
from labconsole.report.evaluation import Evaluation
from labconsole.report.formatting import format_set_ups, format_setting, format_target_number, format_with_interval
from labconsole.report.material import Material
from labconsole.report.point_columns import rate_columns, setting_columns
from labconsole.report.points import FORWARDING
from labconsole.report.table_builder import (
    TableColumn,
    build_table,
    column,
    csv_column,
    join_columns,
    percent_column,
    printed_column,
)


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
)
