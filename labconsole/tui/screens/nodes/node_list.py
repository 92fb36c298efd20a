"""The nodes with the values to watch: state, round trip, clock offset and its uncertainty."""

from __future__ import annotations

from typing import ClassVar

from labconsole.engine.live.events import NodeState
from labconsole.engine.live.telemetry import NodeLive, Telemetry
from labconsole.model.inventory import Inventory
from labconsole.text.cells import UNKNOWN, format_decimal, format_duration, safe
from labconsole.tui.console import clock
from labconsole.tui.parts.lines import Span
from labconsole.tui.parts.node_state import STATE_LOOKS
from labconsole.tui.parts.processors import processors_span
from labconsole.tui.parts.table import Column, LineTable


class NodeList(LineTable):
    """One row per node of the inventory, connected or not."""

    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", "node", 8, right=False, grow_to=14),
        Column("state", "state", 13, right=False),
        Column("round_trip", "rtt ms", 7),
        Column("offset", "clock ms", 16, rank=1),
        Column("cpu", "cpu %·busiest", 16, right=False, rank=3),
        Column("roles", "role", 6, right=False, grow_to=10, rank=3),
        Column("missed", "missed", 6, rank=4),
        Column("text", "kernel, or why it is not connected", 14, right=False, grow_to=200, rank=2),
    )

    def __init__(self, inventory: Inventory, telemetry: Telemetry) -> None:
        super().__init__(id="node-list")
        self._inventory, self._telemetry = inventory, telemetry
        self.border_title = "Nodes"

    def keys(self) -> list[str]:
        return list(self._inventory.nodes)

    def live(self, key: str) -> NodeLive:
        """The present state of a node."""
        return self._telemetry.nodes.get(key) or NodeLive(key, self._inventory.nodes[key].roles)

    def cell_name(self, key: str, width: int) -> Span:
        return safe(key, width), ""

    def cell_state(self, key: str, width: int) -> Span:
        live = self.live(key)
        glyph, tone = STATE_LOOKS[live.state]
        if live.quiet and live.state is NodeState.CONNECTED:
            return "… quiet", "muted"
        return f"{glyph} {live.state.value}"[:width], tone

    def cell_round_trip(self, key: str, width: int) -> Span:
        seconds = self.live(key).round_trip_s
        return format_decimal(None if seconds is None else seconds * 1e3, 2), "" if seconds is not None else "muted"

    def cell_offset(self, key: str, width: int) -> Span:
        return format_clock_offset(self.live(key)), "muted"

    def cell_cpu(self, key: str, width: int) -> Span:
        return processors_span(self.live(key), short=True)

    def cell_roles(self, key: str, width: int) -> Span:
        return safe("+".join(self._inventory.nodes[key].roles), width), "muted"

    def cell_missed(self, key: str, width: int) -> Span:
        missed = self.live(key).missed_samples
        return str(missed), "warn" if missed else "muted"

    def cell_text(self, key: str, width: int) -> Span:
        live = self.live(key)
        if live.message and live.state is not NodeState.CONNECTED:
            again = format_retry(live)
            return safe(live.message + (f" ({again})" if again else ""), width), "bad"
        return safe(live.kernel, width), "muted"


def format_clock_offset(live: NodeLive) -> str:
    """Format the clock's offset with its bound, in ms."""
    if live.clock_offset_ns is None:
        return UNKNOWN
    bound = f" ± {format_decimal(live.clock_error_ns / 1e6, 2)}" if live.clock_error_ns is not None else ""
    return format_decimal(live.clock_offset_ns / 1e6, 2) + bound


def format_retry(live: NodeLive) -> str:
    """Format the time until the next attempt to connect."""
    if live.retry_at_s is None:
        return ""
    return f"retry in {format_duration(max(0.0, live.retry_at_s - clock.monotonic_s()))}, c: now"
