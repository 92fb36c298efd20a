"""What a trial of routers says to whoever watches, once it is over. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.contracts.picture import CopyState, OverTime, PictureCurve, PictureGuest, StepPicture
from labconsole.experiments.route.ledger import hops_of
from labconsole.experiments.route.points import lost_ratio
from labconsole.model.record.route import RouteRecord, RouterSeen
from labconsole.text.cells import count, decimal, percent

MOST_NAMED, MOST_IN_BRIEF = 8, 4


def result_words(record: RouteRecord) -> list[str]:
    """What a trial came to: the sum, then a line a router, those that lost most first where there are many."""
    words = []
    if record.sum_pps is not None:
        jain = "" if record.jain is None or len(record.routers) < 2 else f", Jain {record.jain:.4f}"
        words.append(f"{decimal(record.sum_pps, 0)} packets/s in all{jain}")
    in_order = sorted(record.routers, key=lambda each: -(hops_of(each).lost_ratio or 0.0))
    for each in in_order[:MOST_NAMED]:
        rate = "not known" if each.forwarded_pps is None else f"{decimal(each.forwarded_pps, 0)} packets/s"
        words.append(f"{each.guest}: {rate}{hops_of(each).words()}")
    more = len(in_order) - MOST_NAMED
    return words + ([f"and {more} more"] if more > 0 else [])


def picture_of(record: RouteRecord, words: Sequence[str]) -> StepPicture:
    """What a trial that is over says of its routers, bin by bin."""
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
        PictureGuest(name=each.guest, state=CopyState.DONE, found=_found(each)) for each in record.routers
    )  # fmt: skip
    over_time = OverTime(title="At the sink, by router", unit="kpackets/s", curves=curves)
    return StepPicture(
        found=tuple(words), brief=brief_words(record), guests=guests,
        over_time=over_time if record.sink is not None else None,
    )  # fmt: skip


def _found(each: RouterSeen) -> tuple[tuple[str, str], ...]:
    """What a router passed on and lost, by the headings of a table's columns."""
    hops = hops_of(each)
    return (
        ("packets/s at sink", count(each.forwarded_pps)), ("lost %", percent(hops.lost_ratio)),
        ("lost before", count(hops.before)), ("lost in it", count(hops.inside)), ("lost behind", count(hops.behind)),
        ("packets/s sent", count(each.sent_pps)), ("sent", count(each.sent_packets)),
        ("into it", count(each.to_packets)), ("at sink", count(each.packets)), ("routes", count(each.routes)),
    )  # fmt: skip


def brief_words(record: RouteRecord) -> str:
    """``130 000, 0.10% lost, g1 65 000, g2 65 000, Jain 0.9999``, of packets/s: first what tells most, in parts."""
    if record.sum_pps is None:
        return ""
    words, lost, several = [count(record.sum_pps)], lost_ratio(record), len(record.routers) > 1
    words += [f"{lost:.2%} lost"] if lost is not None else []
    if several and len(record.routers) <= MOST_IN_BRIEF:
        words += [f"{each.guest} {count(each.forwarded_pps)}" for each in record.routers]
    words += [f"Jain {record.jain:.4f}"] if record.jain is not None and several else []
    return ", ".join(words)
