"""The streams' path through the testbed, live: source, unit under test with its guests, sink.

Each place has its rate, the packets lost before it, and the moving drop counter. Once the run is saved, its ledger is
shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labconsole.engine.live.telemetry import StreamLive, Telemetry, hops_now
from labconsole.measure.ledger import format_hop
from labconsole.model.inventory import Inventory, Stream
from labconsole.model.record.run import StreamRecord
from labconsole.text.cells import UNKNOWN, format_percent, format_rounded, safe
from labconsole.tui.console.state import ConsoleState
from labconsole.tui.parts.lines import Lines, Span, set_border_titles
from labconsole.tui.parts.node_text import processors_line
from labconsole.units import format_count

LABEL = 9
NOISE_RATIO, NOISE_PACKETS = 0.002, 20
"""Difference too small to count as loss during a trial: counters are read some milliseconds apart."""

LEAST_CELL = 8
SHORT_CELL = 14
"""Below this width a place shows only its interface, and rates are in thousands or millions."""

ENDS = ("generator", "capture")
"""Hops of a record's ledger that are no place in the testbed."""


@dataclass(frozen=True, slots=True)
class HopCell:
    """One place of one stream. ``note``: shown instead of a rate."""

    hop: str
    node: str
    interface: str
    pps: float | None
    packets: float | None
    lost_packets: float | None
    drops: Mapping[str, int]
    note: str = ""


@dataclass(frozen=True, slots=True)
class StreamPathView:
    """One stream: its places, and its loss so far. ``final``: from the saved record."""

    name: str
    cells: tuple[HopCell, ...]
    loss_packets: int | None
    loss_ratio: float | None
    final: bool = False


def build_stream_paths(inventory: Inventory, telemetry: Telemetry, state: ConsoleState) -> list[StreamPathView]:
    """Build the paths of the streams measured now or last, or of all streams of the testbed."""
    if not telemetry.streams:
        return [
            StreamPathView(stream.name, _planned(stream, inventory.uut), None, None) for stream in inventory.streams
        ]
    last = state.last if state.trial is None or state.trial.run_id == getattr(state.last, "run_id", None) else None
    of_second = last.background.streams if last is not None and last.background is not None else ()
    records = {part.name: part for part in (*last.streams, *of_second)} if last is not None else {}
    planned = {stream.name: _planned(stream, inventory.uut) for stream in inventory.streams}
    found = []
    for live in telemetry.streams.values():
        record = records.get(live.name)
        if live.final and record is not None:
            found.append(_recorded(record))
        else:
            found.append(_live(live, telemetry, planned.get(live.name, ())))
    return found


def _planned(stream: Stream, uut: str) -> tuple[HopCell, ...]:
    places = (
        ("source_nic", stream.source.node, stream.source.interface),
        ("uut_in", uut, stream.uut_in),
        ("uut_out", uut, stream.uut_out),
        ("sink_nic", stream.sink.node, stream.sink.interface),
    )
    return tuple(HopCell(hop, node, interface, None, None, None, {}) for hop, node, interface in places)


def _live(live: StreamLive, telemetry: Telemetry, planned: tuple[HopCell, ...]) -> StreamPathView:
    cells = (
        planned
        if not live.hops
        else tuple(
            HopCell(
                now.place.hop,
                now.place.node,
                now.place.label,
                now.pps,
                now.packets,
                now.lost_packets,
                now.drops,
                "quiet" if now.quiet else "",
            )
            for now in hops_now(live.hops, telemetry)
        )
    )
    return StreamPathView(live.name, cells, live.loss_packets, live.loss_ratio)


def _recorded(record: StreamRecord) -> StreamPathView:
    cells = tuple(
        HopCell(hop.hop, hop.node, hop.interface, None, hop.packets, hop.lost_packets, hop.drops)
        for hop in record.ledger
        if hop.hop not in ENDS
    )
    return StreamPathView(record.name, cells, record.loss_packets, record.loss_ratio, final=True)


class Topology(Lines):
    """A block of lines for each stream. If room is short, streams that lose most keep theirs, and others fold."""

    def __init__(self, inventory: Inventory, telemetry: Telemetry, state: ConsoleState) -> None:
        super().__init__(id="topology")
        self._inventory, self._telemetry, self._state = inventory, telemetry, state
        self.border_title = "Topology"

    def lines(self, width: int) -> list[list[Span]]:
        found = build_stream_paths(self._inventory, self._telemetry, self._state)
        final = any(way.final for way in found)
        set_border_titles(self, "Topology · of the saved run" if final else "Topology · live, losses are estimates (≈)")
        rows = self._header(found, width)
        room = max(3, self.size.height) - len(rows)
        blocks = [self._block(way, width) for way in found]
        if sum(map(len, blocks)) <= room:
            rows += [row for block in blocks for row in block]
            nodes = [self._inventory.uut, *(cell.node for way in found for cell in way.cells)]
            return rows if sum(map(len, blocks)) == room else [*rows, processors_line(self._telemetry, nodes, width)]
        folded, whole = self._folded(found, blocks, room, width)
        if not whole:  # the hops' names would be above the wrong cells
            rows = [[(" " * LABEL, ""), (safe("source and sink; no room for the hops between", width - LABEL), "head")]]
        return rows + folded

    def _header(self, found: Sequence[StreamPathView], width: int) -> list[list[Span]]:
        if not found:
            return [[(" nothing is measured, and hosts.yaml has no streams", "muted")]]
        cells = found[0].cells
        room = _cell_width(len(cells), width)
        spans: list[Span] = [(" " * LABEL, "")]
        for cell in cells:
            spans.append((safe(format_hop(cell.hop), room - 1).ljust(room), "head"))
        return [spans]

    def _block(self, way: StreamPathView, width: int) -> list[list[Span]]:
        room = _cell_width(len(way.cells), width)
        names: list[Span] = [(safe(f" {way.name}", LABEL - 1).ljust(LABEL), "strong")]
        rates: list[Span] = [(_format_loss(way).ljust(LABEL), "bad" if way.loss_packets else "muted")]
        lost = _losses(way)
        for number, cell in enumerate(way.cells):
            last = number == len(way.cells) - 1
            name = safe(_place(cell, room - 4), room - 4)
            names.append((name, ""))
            names.append(
                ((" " + "─" * (room - len(name) - 3) + "▶ ") if not last else "", "accent" if _moves(cell) else "muted")
            )
            rate = _rate(cell, final=way.final) if room >= SHORT_CELL else _short_rate(cell, final=way.final)
            rates.append((safe(rate, room - 1).ljust(room), ""))
        block = [names, rates]
        return [*block, _spread(lost, room)] if any(text for text, _ in lost) else block

    def _folded(
        self, found: Sequence[StreamPathView], blocks: Sequence[list[list[Span]]], room: int, width: int
    ) -> tuple[list[list[Span]], bool]:
        """Blocks of the streams that lose most, a line for each other one, and the number left out.

        Returns also whether there is a block.
        """
        order = sorted(range(len(found)), key=lambda index: -(found[index].loss_packets or 0))
        chosen: dict[int, list[list[Span]]] = {}
        left = room - 1
        for index in order:
            rows = blocks[index] if found[index].loss_packets else [self._one_line(found[index], width)]
            if len(rows) > left:
                rows = [self._one_line(found[index], width)]
            if left:
                chosen[index] = rows
                left -= len(rows)
        shown = [row for index in sorted(chosen) for row in chosen[index]]
        hidden = len(found) - len(chosen)
        text = f" … {hidden} more streams, none of which loses more" if hidden else ""
        return [*shown, [(text, "muted")]], any(len(rows) > 1 for rows in chosen.values())

    def _one_line(self, way: StreamPathView, width: int) -> list[Span]:
        text = ""
        if way.cells:
            ends = [f"{_place(cell, 30)} {_rate(cell, final=way.final)}" for cell in (way.cells[0], way.cells[-1])]
            text = " ─▶ ".join(ends)
        loss = _format_loss(way).strip()
        tone = "bad" if way.loss_packets else "muted"
        return [
            (safe(f" {way.name}", LABEL - 1).ljust(LABEL), "strong"),
            (safe(text, width - LABEL - 12), ""),
            (f"  {loss}", tone),
        ]


def _spread(cells: Sequence[Span], room: int) -> list[Span]:
    """Arrange cells in a line, each as wide as itself and the empty ones after it."""
    spans: list[Span] = [(" " * LABEL, "")]
    number = 0
    while number < len(cells):
        text, tone = cells[number]
        over = 1
        while text and number + over < len(cells) and not cells[number + over][0]:
            over += 1
        spans.append((safe(text, room * over - 1).ljust(room * over), tone))
        number += over
    return spans


def _cell_width(cells: int, width: int) -> int:
    return max(LEAST_CELL, (width - LABEL) // max(1, cells))


def _place(cell: HopCell, room: int) -> str:
    whole = f"{cell.node}/{cell.interface}"
    return whole if len(whole) <= room else cell.interface


def _moves(cell: HopCell) -> bool:
    return bool(cell.pps)


def _rate(cell: HopCell, *, final: bool) -> str:
    if cell.note:
        return cell.note
    if final:
        return f"{format_rounded(cell.packets)} pk"
    return f"{format_rounded(cell.pps)} pps"


def _format_loss(way: StreamPathView) -> str:
    if way.loss_ratio is None:
        return f" {UNKNOWN}"
    return f" {'' if way.final else '≈'}{format_percent(way.loss_ratio, 2)} %"


def _short_rate(cell: HopCell, *, final: bool) -> str:
    """A rate short enough for the cells of guests on a small terminal."""
    value = cell.packets if final else cell.pps
    if cell.note or value is None:
        return cell.note or UNKNOWN
    return f"{value:.0f}" if value < 1000 else f"{value / 1e3:.3g}k" if value < 1e6 else f"{value / 1e6:.3g}M"


def _losses(way: StreamPathView) -> list[Span]:
    """The loss on the way to each place. Behind quiet places, its location among them is not known yet.

    Empty until the stream's own loss is known well enough: at first it is mostly an effect of the clocks.
    """
    if way.loss_packets is None:
        return [("", "")] * len(way.cells)
    found = [_lost(cell, final=way.final) for cell in way.cells]
    for number, cell in enumerate(way.cells):
        quiet = number
        while quiet and way.cells[quiet - 1].note:
            quiet -= 1
        if quiet < number and found[number][1] == "bad" and cell.lost_packets is not None:
            found[number] = ("", "")
            found[quiet] = (f"−≈{format_count(round(cell.lost_packets))} from here on; where, the run will say", "bad")
    return found


def _lost(cell: HopCell, *, final: bool) -> Span:
    """The loss on the way here, and the counter that moved most."""
    drops = max(cell.drops.items(), key=lambda item: item[1], default=None)
    text = f"{drops[0]} {format_count(drops[1])}" if drops is not None else ""
    lost = cell.lost_packets
    noise = 0 if final else NOISE_RATIO * (cell.packets or 0) + NOISE_PACKETS
    if lost is None or lost <= noise:
        return (f"▲ {text}", "warn") if text else ("", "")
    return f"−{'' if final else '≈'}{format_count(round(lost))} {text}".rstrip(), "bad"
