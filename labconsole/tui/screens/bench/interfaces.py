"""All interfaces of all nodes: live counters and sparklines on one scale.

Rates of a quiet or lost node are hidden: a stale number looks like a current one. Bits are the interface's own bytes
(no preamble, gap or frame check sequence). The streams show wire bandwidth.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import islice
from typing import ClassVar

from labconsole.engine.live.events import NodeState
from labconsole.engine.live.telemetry import InterfaceLive, Telemetry, stat
from labconsole.model.inventory import Inventory
from labconsole.text.cells import UNKNOWN, format_mbit, format_rounded, safe, scale_top, sparkline
from labconsole.tui.console import clock
from labconsole.tui.parts.lines import Span, set_border_titles
from labconsole.tui.parts.table import Column, LineTable
from labconsole.wire.links import VIRTUAL_LINKS

Key = tuple[str, str, str]
SCALE_WINDOW = 60
"""Number of samples that determine the common scale."""

REORDER_S = 1.0
"""Minimum time between reorderings of rows sorted by a changing number: faster ones are unreadable."""

SORTS: dict[str, str] = {
    "place": "as in hosts.yaml",
    "rx": "rx pps",
    "tx": "tx pps",
    "drops": "drops",
    "errors": "errors",
    "name": "interface",
}
"""Quantities to sort rows by, and their names in a question."""

_SORT_STATS = {"rx": ("rx_packets",), "tx": ("tx_packets",)}
_TOTALS = {"drops": ("rx_dropped", "tx_dropped"), "errors": ("rx_errors", "tx_errors")}


def _natural(text: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdigit() and len(part) < 10 else (-1, part) for part in re.split(r"(\d+)", text[:80])
    ]


def _largest(interfaces: Iterable[InterfaceLive], samples: int) -> float:
    """The largest rate among the newest ``samples`` of each."""
    series = (rates for live in interfaces for rates in (live.rx_pps, live.tx_pps))
    return max((max(islice(reversed(rates), samples)) for rates in series if rates), default=0.0)


class InterfacesTable(LineTable):
    """One row per interface. The cursor stays on its interface when the rows change."""

    EMPTY = "No interfaces: no node is connected yet, or none matches the filter."
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("node", "node", 6, right=False, grow_to=12),
        Column("name", "interface", 9, right=False, grow_to=16),
        Column("state", "state", 9, right=False),
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
        self._shown: list[Key] = []
        self._ordered_s = -math.inf
        self._terms: tuple[str, ...] = ()
        self.sort, self.reverse = "place", False
        self.border_title = "Interfaces"

    def keys(self) -> list[Key]:
        now_s = clock.monotonic_s()
        if self._known != self._telemetry.interfaces.keys():
            self._known = set(self._telemetry.interfaces)
            self._sorted = sorted(self._known, key=self._rank)
            self._ordered_s = -math.inf
        moves = self.sort != "place" or bool(self._terms)
        if self._ordered_s == -math.inf or (moves and now_s - self._ordered_s >= REORDER_S):
            self._ordered_s = now_s
            self._shown = self._order_now()
            self._name_title()
        return self._shown

    def _order_now(self) -> list[Key]:
        rows = [key for key in self._sorted if self._wanted(key)] if self._terms else self._sorted
        if self.sort == "name":
            return sorted(rows, key=lambda key: (_natural(key[2]), self._rank(key)), reverse=self.reverse)
        if self.sort == "place":
            return list(reversed(rows)) if self.reverse else rows
        # Largest first unless reversed. Unknown values are last either way, and equal ones keep the inventory's order.
        values = {key: self._sort_value(key) for key in rows}
        known = [key for key in rows if values[key] is not None]
        known.sort(key=lambda key: values[key] or 0.0, reverse=not self.reverse)
        return [*known, *(key for key in rows if values[key] is None)]

    def _sort_value(self, key: Key) -> float | None:
        live = self._live(key)
        if live is None or live.last is None:
            return None
        if self.sort in _TOTALS:
            return float(sum(stat(live.last.values, name) or 0 for name in _TOTALS[self.sort]))
        return self._rate(key, _SORT_STATS[self.sort][0])

    def _wanted(self, key: Key) -> bool:
        live = self._live(key)
        driver = live.link.driver if live is not None else None
        text = f"{key[0]}/{live.label if live else key[2]} {driver} {self.cell_state(key, 20)[0]}".casefold()
        return all(word in text for word in self._terms)

    def set_filter(self, text: str) -> None:
        """Show only rows that have all of these terms in their node, name, driver or state."""
        self._terms = tuple(text.casefold().split())
        self._ordered_s = -math.inf
        self.paint()

    def set_sort(self, name: str, *, reverse: bool) -> None:
        """Sort by one of SORTS. Numbers begin with the largest, and ``reverse`` inverts any order."""
        self.sort, self.reverse = name, reverse
        self._ordered_s = -math.inf
        self._cells.clear()
        self.paint()
        self.refresh()

    def go_to_node(self, node: str) -> bool:
        """Put the cursor on a node's first interface shown. False if none is shown."""
        key = next((key for key in self.keys() if key[0] == node), None)
        if key is not None:
            self.paint()
            self.move_to(key)
        return key is not None

    @property
    def chosen(self) -> InterfaceLive | None:
        """The interface under the cursor, or None if none is shown."""
        return self._live(self.cursor_key) if self.cursor_key is not None else None

    def _name_title(self) -> None:
        title = "Interfaces"
        if self._terms:
            title += f" · {len(self._shown)} of {len(self._sorted)} with {safe(' '.join(self._terms), 24)}"
        if self.sort != "place" or self.reverse:
            title += f" · by {SORTS[self.sort]}{', reversed' if self.reverse else ''}"
        set_border_titles(self, title)

    def header_title(self, column: Column, width: int) -> str:
        mark = "▲" if (self.sort == "name") != self.reverse else "▼"
        return column.title + mark if column.name == self.sort else column.title

    def _rank(self, key: Key) -> tuple[object, ...]:
        """Nodes as in hosts.yaml. On each, first the interfaces of streams, then the others by name.

        Loopbacks follow after all nodes: no test traffic passes them, and in a lab they were every second row.
        """
        node, namespace, name = key
        aside = namespace != "" or (node, name) not in self._in_use
        return name == "lo", self._order.get(node, len(self._order)), aside, _natural(namespace), _natural(name)

    def prepare(self) -> None:
        """Set one scale for all sparklines: the largest recent rate of any interface.

        All interfaces are searched only once a second (800 cost 5 ms each time), the visible ones each time.
        """
        now_s = clock.monotonic_s()
        if now_s - self._searched_s >= 1:
            self._searched_s = now_s
            self._largest = _largest(self._telemetry.interfaces.values(), SCALE_WINDOW)
        shown = map(self._live, filter(None, map(self._key_at, range(1, self.size.height))))
        self._largest = largest = max(self._largest, _largest(filter(None, shown), 1))
        self._top = scale_top([largest])
        set_border_titles(self, None, f"sparklines 0 to {format_rounded(self._top)} pps" if largest else "")

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
            return ("… quiet", "muted") if word == "quiet" else (f"✗ {word}", "bad")
        if live is None:
            return UNKNOWN, "muted"
        if live.void:
            return "! void", "warn"
        if not live.link.up:
            return "○ down", "muted"
        return ("● up", "good") if live.link.carrier else ("✗ no link", "warn")

    def cell_speed(self, key: Key, width: int) -> Span:
        live = self._live(key)
        if live is not None and live.link.kind in VIRTUAL_LINKS:
            return "virtual", "muted"
        speed = live.link.speed_bps if live else None
        return (format_rounded(speed / 1e6), "muted") if speed is not None else (UNKNOWN, "muted")

    def _rate(self, key: Key, name: str) -> float | None:
        live = self._live(key)
        return None if live is None or self._node_word(key) else live.rate(name)

    def _rate_cell(self, text: str, value: float | None) -> Span:
        return text, "" if value else "muted"

    def cell_rx(self, key: Key, width: int) -> Span:
        value = self._rate(key, "rx_packets")
        return self._rate_cell(format_rounded(value), value)

    def cell_tx(self, key: Key, width: int) -> Span:
        value = self._rate(key, "tx_packets")
        return self._rate_cell(format_rounded(value), value)

    def cell_rx_bits(self, key: Key, width: int) -> Span:
        value = self._rate(key, "rx_bytes")
        return self._rate_cell(format_mbit(None if value is None else value * 8), value)

    def cell_tx_bits(self, key: Key, width: int) -> Span:
        value = self._rate(key, "tx_bytes")
        return self._rate_cell(format_mbit(None if value is None else value * 8), value)

    def _total(self, key: Key, names: tuple[str, ...]) -> Span:
        live = self._live(key)
        if live is None or live.last is None:
            return UNKNOWN, "muted"
        total = sum(stat(live.last.values, name) or 0 for name in names)
        rising = total > 0 and any((self._rate(key, name) or 0) > 0 for name in names)
        return (
            (f"▲ {format_rounded(total)}", "bad") if rising else (format_rounded(total), "warn" if total else "muted")
        )

    def cell_drops(self, key: Key, width: int) -> Span:
        return self._total(key, _TOTALS["drops"])

    def cell_errors(self, key: Key, width: int) -> Span:
        return self._total(key, _TOTALS["errors"])

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
        kind = (live.link.driver or live.link.kind) if live else None
        return safe(kind or UNKNOWN, width), "muted"

    def cell_mtu(self, key: Key, width: int) -> Span:
        live = self._live(key)
        return format_rounded(live.link.mtu if live else None), "muted"
