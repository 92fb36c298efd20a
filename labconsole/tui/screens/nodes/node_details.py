"""One node as text: its address, hardware and software, interfaces, and other activity on it.

Live values are from telemetry. The rest is from the last look at the node, whose age is shown. The node sent all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from labconsole.engine.inspection import Inspection
from labconsole.engine.leases import LeaseHolder
from labconsole.engine.live.events import NodeState
from labconsole.engine.live.telemetry import NodeLive
from labconsole.model.inventory import Inventory
from labconsole.text.cells import UNKNOWN, format_decimal, format_duration, format_percent, format_rounded, safe
from labconsole.tui.console import clock
from labconsole.tui.parts.lines import Lines, Span, field
from labconsole.tui.parts.node_state import STATE_LOOKS
from labconsole.tui.parts.processors import processors_span
from labconsole.tui.parts.screen import insert_keys
from labconsole.tui.screens.nodes.node_list import format_clock_offset, format_retry
from labconsole.wire.facts import NodeFacts
from labconsole.wire.host_activity import NodeSurroundings, UsageWindow
from labconsole.wire.lease import StatedNodeHolder
from labconsole.wire.links import VIRTUAL_LINKS, Pause
from labconsole.wire.settings import InterfaceSettings

PROCESSES_SHOWN = 6
GUESTS_SHOWN = 6
LOGINS_SHOWN = 6

Rows = list[list[Span]]


class NodeDetails(Lines):
    """``show`` takes a node. Each painting reads its present data."""

    def __init__(
        self,
        inventory: Inventory,
        live: Callable[[str], NodeLive],
        holders: Callable[[], Mapping[str, LeaseHolder]],
    ) -> None:
        super().__init__(id="node-details")
        self._inventory, self._live, self._holders = inventory, live, holders
        self._node: str | None = None
        self._looks: dict[str, Inspection] = {}
        self._refused: dict[str, str] = {}

    def show(self, name: str | None) -> None:
        """Show this node."""
        self._node = name
        self.paint()

    def looked(self, name: str, inspection: Inspection) -> None:
        """Take the result of a look at a node."""
        self._looks[name] = inspection
        self._refused.pop(name, None)
        self.paint()

    def refused(self, name: str, why: str) -> None:
        """Take a failed look. The previous result stays."""
        self._refused[name] = why
        self.paint()

    def lines(self, width: int) -> Rows:
        name = self._node
        if name is None:
            return [[(" no node chosen", "muted")]]
        live, node, look = self._live(name), self._inventory.nodes[name], self._looks.get(name)
        glyph, tone = STATE_LOOKS[live.state]
        rows = field("node", f"{name}, {', '.join(node.roles)}", width, "strong")
        address = node.address + (f":{node.port}" if node.port else "") + (f" through {node.jump}" if node.jump else "")
        rows += field("reached", address + (f", as root by {node.become}" if node.become else ""), width, "muted")
        rows += field("state", f"{glyph} {live.state.value}{', quiet' if live.quiet else ''}", width, tone)
        if live.message and live.state is not NodeState.CONNECTED:
            rows += field("", live.message, width, "bad", rows=6)
            if format_retry(live):
                rows += field("", format_retry(live), width, "warn")
        if live.round_trip_s is not None:
            rows += field(
                "clock", f"off by {format_clock_offset(live)} ms, round trip {live.round_trip_s * 1e3:.2f} ms", width
            )
        if live.processors is not None:
            text, tone = processors_span(live)
            rows += field("cpu", text, width, tone)
        rows += self._holder(name, look.holder if look is not None else None, width)
        facts = look.facts if look is not None and look.facts is not None else live.facts
        if facts is not None:
            rows += self._machine(facts, width)
        if look is not None and look.surroundings is not None:
            rows += self._surroundings(look.surroundings, width)
        # Interfaces are last, as there may be many: the other users of the node must be visible without scrolling.
        if look is not None and look.settings is not None and look.settings.interfaces:
            rows += interface_rows(look.settings.interfaces, width)
        return rows + self._age(name, look, width)

    def _holder(self, name: str, seen: StatedNodeHolder | None, width: int) -> Rows:
        """The holder of the node: another console, by its lease, or this one, by the last look."""
        other = self._holders().get(name)
        if other is not None:
            return field("leased by", other.describe(), width, "warn", rows=3)
        if seen is None or not seen.own:
            return []
        return field("leased by", f"this console, for {seen.purpose or 'an unknown purpose'}", width, "muted", rows=3)

    def _machine(self, facts: NodeFacts, width: int) -> Rows:
        rows = field("kernel", f"{_known(facts.kernel)}, {_known(facts.os)}", width)
        size = f", {facts.memory_bytes / 1e9:.1f} GB" if facts.memory_bytes is not None else ""
        rows += field("machine", f"{_known(facts.cpus)} x {_known(facts.cpu_model)}{size}", width, "muted")
        if facts.governors:
            text = ", ".join(f"{name} ({number})" for name, number in facts.governors.items())
            rows += field("governor", text, width, "muted")
        tools = {"tcpdump": facts.tcpdump, "pktgen": facts.pktgen, "python": facts.python}
        rows += field("tools", ", ".join(f"{name} {_known(said)}" for name, said in tools.items()), width, "muted")
        if facts.uptime_s is not None:
            rows += field("up for", format_duration(facts.uptime_s), width, "muted")
        return rows

    def _surroundings(self, seen: NodeSurroundings, width: int) -> Rows:
        rows: Rows = [[]]
        if seen.load:
            rows += field(
                "load", " ".join(format_decimal(v, 2) for v in seen.load) + f" on {seen.cpus or '?'} CPUs", width
            )
        logins = seen.logins or []
        text = ", ".join(f"{each.user} on {each.line} from {each.host or 'here'}" for each in logins[:LOGINS_SHOWN])
        rows += field("logins", text or "none", width, "warn" if logins else "muted")
        if seen.guests:
            text = ", ".join(f"{guest.name} (pid {guest.pid})" for guest in seen.guests[:GUESTS_SHOWN])
            more = f" and {len(seen.guests) - GUESTS_SHOWN} more" if len(seen.guests) > GUESTS_SHOWN else ""
            rows += field("guests", text + more, width)
        if seen.sessions:
            rows += field("consoles", f"{len(seen.sessions)} other labconsole sessions on this node", width, "warn")
        return rows if seen.window is None else rows + self._window(seen.window, width)

    def _window(self, window: UsageWindow, width: int) -> Rows:
        busy, elapsed_s = window.cpu.busy_ratio if window.cpu is not None else None, window.elapsed_s
        rows = field(
            "busy", f"{format_percent(busy, 1)} % of all CPUs over the last {format_duration(elapsed_s)}", width
        )
        for index, process in enumerate(window.processes[:PROCESSES_SHOWN]):
            share = format_percent(process.cpu_s / elapsed_s, 1) if elapsed_s else UNKNOWN
            text = f"{share:>6} %  {process.name} ({process.whose}, pid {process.pid})"
            rows += field("busiest" if index == 0 else "", text, width, "muted", rows=1)
        return rows

    def _age(self, name: str, look: Inspection | None, width: int) -> Rows:
        rows: Rows = [[]]
        if look is None:
            rows += field("look", "not inspected yet", width, "muted")
        else:
            age_s = max(0.0, clock.wall_s() - look.at_wall_s)
            rows += field(
                "look",
                insert_keys(self, f"{format_duration(age_s)} ago; press {{node-look}} to look again"),
                width,
                "muted",
            )
            for op, why in look.refused.items():
                rows += field("", f"{op}: {why}", width, "warn", rows=2)
        if name in self._refused:
            rows += field("", self._refused[name], width, "warn", rows=3)
        return rows


def interface_rows(interfaces: Mapping[str, InterfaceSettings], width: int) -> Rows:
    """Two rows for each interface: its state and speed, its driver and settings."""
    rows: Rows = [[]]
    for name, nic in interfaces.items():
        state: Span = ("● up", "good") if nic.up else ("○ down", "muted")
        speed = "speed unknown" if nic.speed_mbps is None else f"{format_rounded(nic.speed_mbps)} Mbit/s"
        if nic.driver in VIRTUAL_LINKS:
            speed = "virtual link"
        rows.append([(f" {safe(name, 16)}  ", "second"), state, (safe(f"  {speed}", width - 30), "")])
        text = f"{nic.driver or 'driver unknown'}, MTU {nic.mtu or UNKNOWN}, "
        rows += field("", text + format_pause(nic.pause) + format_queues(nic), width, "muted")
    return rows


def _known(said: str | int | None) -> str:
    return UNKNOWN if said is None else str(said)


def format_pause(pause: Pause | None) -> str:
    """Format Ethernet flow control, which silently throttles a generator when it is on."""
    if pause is None:
        return "pause unknown"
    on = [direction for direction in ("rx", "tx") if getattr(pause, direction)]
    return f"pause {'+'.join(on) if on else 'off'}{' (negotiated)' if pause.autoneg else ''}"


def format_queues(nic: InterfaceSettings) -> str:
    """Format rings, queues, and the offloads that join or split packets."""
    parts = []
    if nic.rings is not None:
        parts.append(f"rings {nic.rings.rx}/{nic.rings.tx}")
    if nic.queues is not None:
        number = nic.queues.combined or nic.queues.rx
        parts.append(f"{number} queues" if number != 1 else "1 queue")
    on = " ".join(name for name in ("tso", "gso", "gro", "lro") if nic.offloads.get(name))
    return ", " + ", ".join([*parts, f"offloads {on or 'off'}"])
