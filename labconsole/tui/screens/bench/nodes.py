"""Every node: its state as glyph and text, round trip, clock offset, and why it is not connected."""

from __future__ import annotations

from typing import ClassVar

from labconsole.engine.live.events import NodeState
from labconsole.engine.live.telemetry import NodeLive, Telemetry
from labconsole.model.inventory import Inventory
from labconsole.text.cells import format_decimal, safe
from labconsole.tui.parts.lines import Span
from labconsole.tui.parts.node_state import STATE_LOOKS
from labconsole.tui.parts.table import Column, LineTable


class NodesTable(LineTable):
    """One row per node of the inventory, connected or not."""

    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", "node", 6, right=False, grow_to=12),
        Column("roles", "role", 6, right=False, grow_to=12, rank=3),
        Column("state", "state", 12, right=False, grow_to=15),
        Column("round_trip", "rtt ms", 6, grow_to=7),
        Column("offset", "clock ms", 8, rank=2, grow_to=9),
        Column("missed", "missed", 6, rank=4),
        Column("text", "kernel", 20, right=False, grow_to=40, rank=5),
    )
    TROUBLE_COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", "node", 8, right=False, grow_to=12),
        Column("state", "state", 15, right=False),
        Column("text", "why", 10, right=False, grow_to=120),
    )
    """Columns while a node is away: the reason matters more than clocks."""

    def __init__(self, inventory: Inventory, telemetry: Telemetry) -> None:
        super().__init__(id="nodes")
        self._inventory, self._telemetry = inventory, telemetry
        self.border_title = "Nodes"

    def columns(self) -> tuple[Column, ...]:
        away = any(live.state in (NodeState.LOST, NodeState.FAILED) for live in self._telemetry.nodes.values())
        return self.TROUBLE_COLUMNS if away else self.COLUMNS

    def keys(self) -> list[str]:
        return list(self._inventory.nodes)

    def _live(self, key: str) -> NodeLive:
        return self._telemetry.nodes.get(key) or NodeLive(key, self._inventory.nodes[key].roles)

    def cell_name(self, key: str, width: int) -> Span:
        return safe(key, width), ""

    def cell_roles(self, key: str, width: int) -> Span:
        return safe("+".join(self._inventory.nodes[key].roles), width), "muted"

    def cell_state(self, key: str, width: int) -> Span:
        live = self._live(key)
        glyph, tone = STATE_LOOKS[live.state]
        if live.quiet and live.state is NodeState.CONNECTED:
            return "… quiet", "muted"
        return f"{glyph} {live.state.value}", tone

    def cell_round_trip(self, key: str, width: int) -> Span:
        seconds = self._live(key).round_trip_s
        return format_decimal(None if seconds is None else seconds * 1e3, 2), "" if seconds is not None else "muted"

    def cell_offset(self, key: str, width: int) -> Span:
        offset_ns = self._live(key).clock_offset_ns
        return format_decimal(None if offset_ns is None else offset_ns / 1e6, 3), "muted"

    def cell_missed(self, key: str, width: int) -> Span:
        missed = self._live(key).missed_samples
        return str(missed), "warn" if missed else "muted"

    def cell_text(self, key: str, width: int) -> Span:
        live = self._live(key)
        return (safe(live.message, width), "bad") if live.message else (safe(live.kernel, width), "muted")
