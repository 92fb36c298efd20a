"""Progress at the nodes, and the result: the cables drawn, and the proposed hosts.yaml."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len

from labconsole.engine.discovery.machines import MachineSpec
from labconsole.engine.discovery.proposal import ProposedStream
from labconsole.text.cells import safe
from labconsole.tui.parts.lines import Lines, Span, field
from labconsole.units import format_rate_bps

NAME_CELLS = 24
SHORTEST, LONGEST = 4, 16
"""Limits of a cable's length, in cells."""


class NodesAtWork(Lines):
    """A line for each node with its present activity."""

    def __init__(self) -> None:
        super().__init__(id="at-work")
        self._machines: Sequence[MachineSpec] = ()
        self._doing: dict[str, str] = {}

    def begin(self, machines: Sequence[MachineSpec]) -> None:
        self._machines, self._doing = machines, {}
        self.repaint()

    def tell(self, node: str, activity: str) -> None:
        """Show the activity of ``node``, which is one of those requested."""
        self._doing[node] = activity
        self.repaint()

    def lines(self, width: int) -> list[list[Span]]:
        longest = min(NAME_CELLS, max((cell_len(each.name) for each in self._machines), default=0))
        rows: list[list[Span]] = []
        for each in self._machines:
            name = safe(each.name, longest)
            rows += field(name, self._doing.get(each.name, ""), width, rows=6, label_cells=longest + 2)
        return rows


class DiscoveryText(Lines):
    """Lines that wrap. ``head``: draws the lines above them, for a width."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._streams: Sequence[ProposedStream] = ()
        self._text: Sequence[str] = ()

    def show(self, text: Sequence[str], streams: Sequence[ProposedStream] = ()) -> None:
        self._text, self._streams = text, streams
        self.repaint()

    def lines(self, width: int) -> list[list[Span]]:
        rows = draw_streams(self._streams, width)
        for line in self._text:
            indent = " " * (len(line) - len(line.lstrip()) + 2)
            wrapped = textwrap.wrap(
                safe(line, 4000),
                max(20, width - 2),
                subsequent_indent=indent,
                replace_whitespace=False,
                drop_whitespace=True,
                break_on_hyphens=False,
            )
            tone = "muted" if line.lstrip().startswith("#") else ""
            rows += [[(f" {row}", tone)] for row in wrapped] or [[]]
        return rows


def draw_streams(streams: Sequence[ProposedStream], width: int) -> list[list[Span]]:
    """Draw every stream from its source through the UUT to its sink, with the speeds that the ports reported."""
    if not streams:
        return []
    sources = [safe(str(each.source), NAME_CELLS) for each in streams]
    sinks = [safe(str(each.sink), NAME_CELLS) for each in streams]
    inner = [(safe(each.uut_in.interface, 15), safe(each.uut_out.interface, 15)) for each in streams]
    uut = safe(streams[0].uut_in.node, NAME_CELLS)
    left, right = max(map(cell_len, sources)), max(map(cell_len, sinks))
    box = max(cell_len(uut) + 2, max(cell_len(a) + cell_len(b) for a, b in inner) + 5)
    cable = min(LONGEST, max(SHORTEST, (width - left - right - box - 12) // 2))
    margin = " " * (1 + left + 1 + cable)
    top = "─" * (box - 1 - cell_len(uut))
    rows: list[list[Span]] = [[], [(f"{margin}┌─", "muted"), (uut, "strong"), (f"{top}┐", "muted")]]
    for number, (stream, source, sink, (near, far)) in enumerate(zip(streams, sources, sinks, inner, strict=True), 1):
        gap = " " * (box - 2 - cell_len(near) - cell_len(far))
        rows.append(
            [
                (f" {' ' * (left - cell_len(source))}{source} ", ""),
                (_cable(stream.source.speed_bps, cable), "accent"),
                ("┤", "muted"),
                (f" {near}{gap}{far} ", ""),
                ("├", "muted"),
                (_cable(stream.sink.speed_bps, cable), "accent"),
                (f" {sink}{' ' * (right - cell_len(sink))}", ""),
                (f"  s{number}", "muted"),
            ]
        )
    return [*rows, [(f"{margin}└{'─' * box}┘", "muted")], []]


def _cable(speed_bps: int | None, cells: int) -> str:
    """Draw a line, with the speed on it if there is room."""
    speed = "" if speed_bps is None else f" {format_rate_bps(speed_bps)} "
    if not speed or cell_len(speed) + 2 > cells:
        return "─" * cells
    before = (cells - cell_len(speed)) // 2
    return "─" * before + speed + "─" * (cells - before - cell_len(speed))
