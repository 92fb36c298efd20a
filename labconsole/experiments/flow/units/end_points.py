"""Guests as end points: what one sends, and what several that send at once share (Mattos et al., section 3.3.4)."""

from __future__ import annotations

from labconsole.contracts.report import Figure, Mark, MethodNote, Panel, PlottedCurve, ReportUnit
from labconsole.experiments.flow.shown import MEGA, plain, records_of, summary_of
from labconsole.report.captions import caption, mark_of
from labconsole.report.material import Material
from labconsole.report.points import platform_order

PAPER = "mattos"
LAYER = "Payload that came to the sink"


def one_guest(material: Material) -> Figure | None:
    """A bar a platform, of one guest that sends as much as it can."""
    summary = summary_of(material)
    points = [each for each in plain(summary.points) if each.key.guests == 1 and each.sum_bps is not None]
    points.sort(key=lambda each: (platform_order(each.key.platform), each.key))
    if not points:
        return None
    lines = {record.line_bps for record in records_of(material)}
    marks = [(summary.name_of(each.key), mark_of(0, each.sum_bps)) for each in points if each.sum_bps is not None]
    names = tuple(dict.fromkeys(name for name, _ in marks))
    bars = tuple(Mark(names.index(name), mark.y, mark.low, mark.high, mark.n, mark.set_ups) for name, mark in marks)
    panels = (Panel("from the guest", (PlottedCurve("payload", bars),)),)
    return Figure(
        name="mattos-3",
        title="What one guest sends",
        kind="bars",
        x_label="",
        y_label="Mbit/s of payload",
        panels=panels,
        caption=caption(f"{LAYER} of one guest; the line: what the link carries of such payload", panels),
        x_names=names,
        reference_line=lines.pop() / MEGA if len(lines) == 1 else None,
    )


def several_guests(material: Material) -> Figure | None:
    """A panel a platform: the sum and each guest's share over how many send."""
    summary = summary_of(material)
    points = [each for each in plain(summary.points) if each.sum_bps is not None]
    panels = []
    for name in dict.fromkeys(summary.name_of(each.key) for each in points):
        own = [each for each in points if summary.name_of(each.key) == name]
        if len({each.key.guests for each in own}) < 2:
            continue
        total = [mark_of(each.key.guests, each.sum_bps) for each in own if each.sum_bps is not None]
        each_one = [
            mark_of(each.key.guests, guest.shared_bps)
            for each in own
            for guest in each.guests
            if guest.shared_bps is not None
        ]
        panels.append(Panel(name, (PlottedCurve("all together", tuple(total)), PlottedCurve("each", tuple(each_one)))))
    if not panels:
        return None
    return Figure(
        name="mattos-4a",
        title="What guests that send at once share",
        kind="curves",
        x_label="guests that send",
        y_label="Mbit/s of payload",
        panels=tuple(panels),
        caption=caption(f"{LAYER} while all of them sent", panels),
        ideal=False,
    )


def method(material: Material) -> MethodNote | None:
    """How flows are counted."""
    if not records_of(material):
        return None
    return MethodNote(
        "Flows out of guests",
        "All guests send UDP at once, to an address that nobody has. The sink captures every packet; a flow is told by "
        "its source MAC address and port, and counted in bins of time by the capture's time stamps from the first "
        "packet of any flow on. What a rate is of: payload, in the whole bins in which all guests send. The second "
        "witness of each guest is its interface on the unit under test.",
    )


UNITS = (
    ReportUnit(name="mattos-3", place=104, paper=(PAPER, "figure 3"), make=one_guest),
    ReportUnit(name="mattos-4a", place=105, paper=(PAPER, "figure 4a"), make=several_guests),
    ReportUnit(name="flow-words", place=104, make=method),
)
