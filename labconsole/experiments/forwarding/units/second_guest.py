"""The offered and forwarded load of a second guest that forwards."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from labconsole.contracts.report import Cell, Finding, Findings, MethodNote, ReportUnit, Table
from labconsole.report.claim_cells import (
    CLAIM_COLUMNS,
    CLAIM_HEADINGS,
    SETTING_COLUMNS,
    claim_cells,
    family_note,
    format_claim,
    format_claim_effect,
)
from labconsole.report.claims import Family
from labconsole.report.comparisons import SecondGuestSummary
from labconsole.report.evaluation import Evaluation
from labconsole.report.formatting import (
    UNKNOWN,
    format_number,
    format_set_ups,
    format_setting,
    format_size_number,
    format_target_number,
    format_with_interval,
    size_cells,
)
from labconsole.report.material import Material
from labconsole.report.points import FORWARDING

COLUMNS = (
    *SETTING_COLUMNS,
    "target_bps",
    "background",
    "set_ups",
    "trials",
    "offered_mean_bps",
    "offered_ci_low_bps",
    "offered_ci_high_bps",
    "measured_mean_bps",
    "measured_ci_low_bps",
    "measured_ci_high_bps",
    "lost_ratio",
)
HEADINGS = ("size, B", "platform", "sources", "set-ups × trials", "in, Mbit/s", "out, Mbit/s", "lost, %")


def build_forwarding_table(material: Material, background: str, name: str) -> Table:
    """Build the table of the second guest's offered (in) and measured (out) load, by the first guest's frame size."""
    made = material.evaluation
    share, family = background.rpartition("-")[2], made.claims
    rows = [guest for guest in made.second_guests if guest.setting.background == background]
    return Table(
        name=name,
        title=f"Second guest forwarding at {share} % of its maximum: offered (in) and measured (out)",
        columns=(*COLUMNS, *CLAIM_COLUMNS),
        rows=tuple((*_row(guest), *_cells(guest)) for guest in rows),
        headings=(*HEADINGS, "out against in, %", *CLAIM_HEADINGS[1:5], CLAIM_HEADINGS[6]),
        shown=tuple((*_format_row(guest), *_format_claim(guest, family)) for guest in rows),
        note=(
            "Bandwidth on the wire of the second guest's own streams; the size is the first guest's. Mean over all "
            "trials of that size, whatever the first guest was offered, as in the paper (second-guest.csv has them one "
            "by one); ± half the 95 % interval. Out against in is paired, block by block; one-sided: whether more than "
            f"1 % is lost. {family_note(family)}"
        ),
    )


def _cells(guest: SecondGuestSummary) -> tuple[Cell, ...]:
    plain = None if guest.lost_ratio is None else -guest.lost_ratio
    return (None,) * len(CLAIM_COLUMNS) if guest.claim is None else claim_cells(guest.claim, plain)


def _format_claim(guest: SecondGuestSummary, family: Family) -> tuple[str, ...]:
    if guest.claim is None:
        return (UNKNOWN,) * 6
    plain = None if guest.lost_ratio is None else -guest.lost_ratio
    cells = format_claim(guest.claim, plain, family)
    return (*cells[:5], cells[6])


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
    found = material.evaluation.second_by_load
    return Table(
        name="second-guest",
        title="Second guest beside every design point of the first",
        columns=COLUMNS,
        rows=tuple(_row(guest) for guest in found),
        headings=(*HEADINGS[:3], "target, Mbit/s", "background", *HEADINGS[3:]),
        shown=tuple(
            (
                *cells[:3],
                format_target_number(guest.target_bps, guest.setting.frame),
                guest.setting.background,
                *cells[3:],
            )
            for guest, cells in ((guest, _format_row(guest)) for guest in found)
        ),
        note="Size, sources and target are the first guest's; in and out are the second guest's, on the wire.",
    )


def _row(guest: SecondGuestSummary) -> tuple[Cell, ...]:
    target = "all" if guest.all_loads else "max" if guest.target_bps is None else guest.target_bps
    offered, measured, setting = guest.offered_bps, guest.measured_bps, guest.setting
    return (
        *size_cells(setting.frame),
        setting.platform,
        setting.sources,
        target,
        setting.background,
        measured.set_ups,
        measured.trials,
        offered.mean,
        offered.ci_low,
        offered.ci_high,
        measured.mean,
        measured.ci_low,
        measured.ci_high,
        guest.lost_ratio,
    )


def _format_row(guest: SecondGuestSummary) -> tuple[str, ...]:
    setting, lost = guest.setting, guest.lost_ratio
    return (
        format_size_number(setting.frame),
        setting.platform,
        str(setting.sources),
        format_set_ups(guest.measured_bps),
        format_with_interval(guest.offered_bps),
        format_with_interval(guest.measured_bps),
        UNKNOWN if lost is None else format_number(lost * 100),
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
