"""All interfaces of all nodes: live counters and sparklines on one scale.

Rates of a node that is quiet or lost are not shown: a stale number reads like a true one. Bits are the interface's
own bytes (no preamble, gap or frame check sequence); wire bandwidth is in the streams.
"""

from __future__ import annotations

import math
import re
from itertools import islice
from typing import ClassVar

from labconsole.engine.events import NodeState
from labconsole.engine.telemetry import InterfaceLive, Telemetry, stat
from labconsole.model.inventory import Inventory
from labconsole.tui import clock
from labconsole.tui.text import UNKNOWN, count, mbit, safe, scale_top, sparkline
from labconsole.tui.widgets.lines import Span
from labconsole.tui.widgets.table import Column, LineTable

Key = tuple[str, str, str]
SCALE_WINDOW = 60
"""Samples that decide the common scale."""


def _natural(text: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdigit() and len(part) < 10 else (-1, part) for part in re.split(r"(\d+)", text[:80])
    ]


class InterfacesTable(LineTable):
    """One row per interface. The cursor stays on its interface when others come and go."""

    EMPTY = "no interfaces yet: nodes are being connected"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("node", "node", 7, right=False, grow_to=12),
        Column("name", "interface", 9, right=False, grow_to=16),
        Column("state", "state", 8, right=False),
        Column("speed", "Mbit/s", 7, rank=5),
        Column("rx", "rx pps", 10),
        Column("rx_spark", "rx", 8, right=False, rank=3, grow_to=60),
        Column("tx", "tx pps", 10),
        Column("tx_spark", "tx", 8, right=False, rank=3, grow_to=60),
        Column("rx_bits", "rx Mbit/s", 10, rank=4),
        Column("tx_bits", "tx Mbit/s", 10, rank=4),
        Column("drops", "drops", 9),
        Column("errors", "errors", 7),
        Column("kind", "driver", 10, right=False, rank=6),
        Column("mtu", "MTU", 6, rank=7),
    )

    def __init__(self, inventory: Inventory, telemetry: Telemetry) -> None:
        super().__init__(id="interfaces")
        self._telemetry = telemetry
        self._order = {name: index for index, name in enumerate(inventory.nodes)}
        self._in_use = {(end.node, end.interface) for s in inventory.streams for end in (s.source, s.sink)}
        self._in_use |= {(inventory.uut, name) for s in inventory.streams for name in (s.uut_in, s.uut_out)}
        self._sorted: list[Key] = []
        self._known: set[Key] = set()
        self._top = 1.0
        self._largest, self._searched_s = 0.0, -math.inf
        self.border_title = "Interfaces"

    def keys(self) -> list[Key]:
        if self._known != self._telemetry.interfaces.keys():
            self._known = set(self._telemetry.interfaces)
            self._sorted = sorted(self._known, key=self._rank)
        return self._sorted

    def _rank(self, key: Key) -> tuple[object, ...]:
        """Nodes as in the inventory; on each, what streams pass first, then its other interfaces by name."""
        node, namespace, name = key
        aside = namespace != "" or (node, name) not in self._in_use
        return self._order.get(node, len(self._order)), aside, _natural(namespace), _natural(name)

    def prepare(self) -> None:
        """One scale for all sparklines: the largest recent rate of any interface.

        Whole windows are searched once a second only: 800 interfaces cost 5 ms each time.
        """
        now_s = clock.monotonic_s()
        window = SCALE_WINDOW if now_s - self._searched_s >= 1 else 1
        largest = 0.0 if window > 1 else self._largest
        for live in self._telemetry.interfaces.values():
            for series in (live.rx_pps, live.tx_pps):
                if series:
                    largest = max(largest, max(islice(reversed(series), window)) if window > 1 else series[-1])
        if window > 1:
            self._searched_s = now_s
        self._largest = largest
        self._top = scale_top([largest])
        self.border_subtitle = f"sparklines 0 to {count(self._top)} pps" if largest else ""

    def _live(self, key: Key) -> InterfaceLive | None:
        return self._telemetry.interfaces.get(key)

    def _node_word(self, key: Key) -> str:
        node = self._telemetry.nodes.get(key[0])
        if node is None:
            return ""
        if node.state is not NodeState.CONNECTED:
            return "lost" if node.state is NodeState.LOST else "offline"
        return "quiet" if node.quiet else ""

    def cell_node(self, key: Key, width: int) -> Span:
        return safe(key[0], width), "second"

    def cell_name(self, key: Key, width: int) -> Span:
        live = self._live(key)
        return safe(live.label if live else key[2], width), ""

    def cell_state(self, key: Key, width: int) -> Span:
        word, live = self._node_word(key), self._live(key)
        if word:
            return ("… quiet", "muted") if word == "quiet" else (f"✗ {word}"[:width], "bad")
        if live is None:
            return UNKNOWN, "muted"
        if live.void:
            return "! void", "warn"
        if not live.link.get("up"):
            return "○ down", "muted"
        return ("● up", "good") if live.link.get("carrier") else ("✗ no link", "warn")

    def cell_speed(self, key: Key, width: int) -> Span:
        live = self._live(key)
        speed = live.link.get("speed_bps") if live else None
        return (count(speed / 1e6), "muted") if isinstance(speed, int | float) else (UNKNOWN, "muted")

    def _rate(self, key: Key, name: str) -> float | None:
        live = self._live(key)
        return None if live is None or self._node_word(key) else live.rate(name)

    def _rate_cell(self, text: str, value: float | None) -> Span:
        return text, "" if value else "muted"

    def cell_rx(self, key: Key, width: int) -> Span:
        value = self._rate(key, "rx_packets")
        return self._rate_cell(count(value), value)

    def cell_tx(self, key: Key, width: int) -> Span:
        value = self._rate(key, "tx_packets")
        return self._rate_cell(count(value), value)

    def cell_rx_bits(self, key: Key, width: int) -> Span:
        value = self._rate(key, "rx_bytes")
        return self._rate_cell(mbit(None if value is None else value * 8), value)

    def cell_tx_bits(self, key: Key, width: int) -> Span:
        value = self._rate(key, "tx_bytes")
        return self._rate_cell(mbit(None if value is None else value * 8), value)

    def _total(self, key: Key, names: tuple[str, ...]) -> Span:
        live = self._live(key)
        if live is None or live.last is None:
            return UNKNOWN, "muted"
        total = sum(stat(live.last.values, name) or 0 for name in names)
        rising = any((self._rate(key, name) or 0) > 0 for name in names)
        return (f"▲ {count(total)}", "bad") if rising else (count(total), "warn" if total else "muted")

    def cell_drops(self, key: Key, width: int) -> Span:
        return self._total(key, ("rx_dropped", "tx_dropped"))

    def cell_errors(self, key: Key, width: int) -> Span:
        return self._total(key, ("rx_errors", "tx_errors"))

    def _spark(self, key: Key, width: int, name: str) -> str:
        live = self._live(key)
        if live is None:
            return ""
        series = live.rx_pps if name == "rx" else live.tx_pps
        first = max(0, len(series) - width)
        return sparkline([series[i] for i in range(first, len(series))], self._top).rjust(width)

    def cell_rx_spark(self, key: Key, width: int) -> Span:
        return self._spark(key, width, "rx"), "muted" if self._node_word(key) else "accent"

    def cell_tx_spark(self, key: Key, width: int) -> Span:
        return self._spark(key, width, "tx"), "muted" if self._node_word(key) else "second"

    def cell_kind(self, key: Key, width: int) -> Span:
        live = self._live(key)
        link = live.link if live else {}
        return safe(str(link.get("driver") or link.get("kind") or UNKNOWN), width), "muted"

    def cell_mtu(self, key: Key, width: int) -> Span:
        live = self._live(key)
        mtu = live.link.get("mtu") if live else None
        return count(mtu if isinstance(mtu, int) else None), "muted"
