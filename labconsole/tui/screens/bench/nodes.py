"""Every node and its connection, and the activity on the unit under test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from labconsole.engine.live.events import NodeState
from labconsole.engine.live.telemetry import NodeLive, Telemetry
from labconsole.model.inventory import Inventory
from labconsole.text.cells import format_decimal, safe
from labconsole.tui.parts.lines import Span
from labconsole.tui.parts.node_text import STATE_LOOKS
from labconsole.tui.parts.table import Column, LineTable

if TYPE_CHECKING:
    from labconsole.engine.inspection import Inspection
    from labconsole.engine.leases import LeaseHolder
    from labconsole.wire.host_activity import NodeSurroundings


# -- nodes -------------------------------------------------------------------------------------------------------------
# Every node: its state as glyph and text, round trip, clock offset, and why it is not connected.


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


# -- the unit under test -----------------------------------------------------------------------------------------------
# Activity on the unit under test as text: the lease's holder, guests, load. Pure.
#
# Unknown facts are left out rather than shown as nothing. If all are unknown, the text is "nothing known yet".

SHOWN_GUESTS = 4


@dataclass(slots=True)
class UutView:
    """The last look at the unit under test. ``why_not``: why there was none, in a sentence."""

    inspection: Inspection | None = None
    why_not: str = ""

    def describe(self, holders: Mapping[str, LeaseHolder], uut: str) -> tuple[tuple[str, ...], str]:
        """Wordings from longest to shortest, and their tone."""
        foreign = {node: holder for node, holder in holders.items() if not holder.own}
        if foreign:
            node = uut if uut in foreign else next(iter(foreign))
            holder = foreign[node]
            owner = safe(holder.owner or "another session", 40)
            holder_text = f"! {'' if node == uut else f'{safe(node, 20)} '}leased by"
            since = "" if holder.since is None else f" since {holder.since:%H:%M}"
            purpose = f" for {safe(holder.purpose, 40)}" if holder.purpose else ""
            shorter = (f"{owner}{since}{purpose}", f"{owner}{since}", owner)
            return (
                f"{holder_text} {safe(holder.describe(), 160)}",
                *(f"{holder_text} {wording}" for wording in shorter),
            ), "warn"
        if self.inspection is None:
            return (self.why_not or "not inspected yet",), "muted"
        seen = self.inspection.surroundings
        guests, busy, others = (_guests(seen), _load(seen), _others(seen)) if seen is not None else ("", "", "")
        alone = not others and not (seen is not None and seen.guests)
        full = [part for part in (guests, busy, others, "free") if part]
        brief = [part for part in (guests, busy) if part] or ["free"]
        return (" · ".join(full), " · ".join(brief), brief[0]), "muted" if alone else "warn"


def _guests(seen: NodeSurroundings) -> str:
    names = [safe(guest.name, 24) for guest in seen.guests]
    if not names:
        return "no guests"
    more = f" and {len(names) - SHOWN_GUESTS} more" if len(names) > SHOWN_GUESTS else ""
    return f"! {'guest' if len(names) == 1 else 'guests'} {', '.join(names[:SHOWN_GUESTS])}{more}"


def _load(seen: NodeSurroundings) -> str:
    if not seen.load:
        return ""
    return f"load {format_decimal(seen.load[0], 2)}" + (f" on {seen.cpus} CPUs" if seen.cpus is not None else "")


def _others(seen: NodeSurroundings) -> str:
    others = (("other console", len(seen.sessions)), ("login", len(seen.logins or ())))
    return ", ".join(f"{found} {word if found == 1 else word + 's'}" for word, found in others if found)
