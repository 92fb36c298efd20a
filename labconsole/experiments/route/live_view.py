"""View of a completed trial of routers. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.contracts.picture import CopyState, OverTime, PictureCurve, PictureGuest, StepPicture
from labconsole.experiments.route.ledger import build_hops
from labconsole.experiments.route.points import lost_ratio
from labconsole.experiments.route.record import RouteRecord, RouterRecord
from labconsole.text.cells import format_decimal, format_percent, format_rounded

MOST_NAMED, MOST_IN_BRIEF = 8, 4


def describe_result(record: RouteRecord) -> list[str]:
    """The result as lines of text: the sum, then a line per router, the most lossy first if there are many."""
    lines = []
    if record.sum_pps is not None:
        jain = "" if record.jain is None or len(record.routers) < 2 else f", Jain {record.jain:.4f}"
        lines.append(f"{format_decimal(record.sum_pps, 0)} packets/s in all{jain}")
    in_order = sorted(record.routers, key=lambda each: -(build_hops(each).lost_ratio or 0.0))
    for each in in_order[:MOST_NAMED]:
        rate = "not known" if each.forwarded_pps is None else f"{format_decimal(each.forwarded_pps, 0)} packets/s"
        lines.append(f"{each.guest}: {rate}{build_hops(each).words()}")
    more = len(in_order) - MOST_NAMED
    return lines + ([f"and {more} more"] if more > 0 else [])


def build_picture(record: RouteRecord, lines: Sequence[str]) -> StepPicture:
    """Build the picture of a completed trial: its text and its routers' rates, bin by bin."""
    bin_s = record.requested.bin_s
    curves = tuple(
        PictureCurve(
            name=each.guest,
            seconds=tuple((number + 0.5) * bin_s for number in range(len(each.bin_packets))),
            values=tuple(packets / bin_s / 1e3 for packets in each.bin_packets),
        )
        for each in record.routers
    )
    guests = tuple(
        PictureGuest(name=each.guest, state=CopyState.DONE, found=_format_cells(each)) for each in record.routers
    )
    over_time = OverTime(title="At the sink, by router", unit="kpackets/s", curves=curves)
    return StepPicture(
        found=tuple(lines),
        brief=format_brief(record),
        guests=guests,
        over_time=over_time if record.sink is not None else None,
    )


def _format_cells(each: RouterRecord) -> tuple[tuple[str, str], ...]:
    """Cells of a router's row: heading of a column, and text."""
    hops = build_hops(each)
    return (
        ("packets/s at sink", format_rounded(each.forwarded_pps)),
        ("lost %", format_percent(hops.lost_ratio)),
        ("lost before", format_rounded(hops.before)),
        ("lost in it", format_rounded(hops.inside)),
        ("lost behind", format_rounded(hops.behind)),
        ("packets/s sent", format_rounded(each.sent_pps)),
        ("sent", format_rounded(each.sent_packets)),
        ("into it", format_rounded(each.to_packets)),
        ("at sink", format_rounded(each.packets)),
        ("routes", format_rounded(each.routes)),
    )


def format_brief(record: RouteRecord) -> str:
    """Short result in packets/s, the main part first: ``130 000, 0.10% lost, g1 65 000, g2 65 000, Jain 0.9999``."""
    if record.sum_pps is None:
        return ""
    parts, lost, several = [format_rounded(record.sum_pps)], lost_ratio(record), len(record.routers) > 1
    parts += [f"{lost:.2%} lost"] if lost is not None else []
    if several and len(record.routers) <= MOST_IN_BRIEF:
        parts += [f"{each.guest} {format_rounded(each.forwarded_pps)}" for each in record.routers]
    parts += [f"Jain {record.jain:.4f}"] if record.jain is not None and several else []
    return ", ".join(parts)
