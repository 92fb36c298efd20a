"""The panels of the Nodes screen: all nodes, one in full, and the commands sent to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import ClassVar

from labconsole.engine.inspection import Inspection
from labconsole.engine.leases import LeaseHolder
from labconsole.engine.live.events import NodeState
from labconsole.engine.live.history import CommandHistory, LoggedRequest
from labconsole.engine.live.telemetry import NodeLive, Telemetry
from labconsole.model.inventory import Inventory
from labconsole.text.cells import UNKNOWN, format_decimal, format_duration, format_percent, format_rounded, safe
from labconsole.tui.console import clock
from labconsole.tui.parts.lines import Lines, Span, field
from labconsole.tui.parts.node_text import STATE_LOOKS, processors_span
from labconsole.tui.parts.screen import insert_keys
from labconsole.tui.parts.table import Column, LineTable
from labconsole.wire.facts import NodeFacts
from labconsole.wire.host_activity import NodeSurroundings, UsageWindow
from labconsole.wire.lease import StatedNodeHolder
from labconsole.wire.links import VIRTUAL_LINKS, Pause
from labconsole.wire.settings import InterfaceSettings

# -- node list ---------------------------------------------------------------------------------------------------------
# The nodes with the values to watch: state, round trip, clock offset and its uncertainty.


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


# -- node details ------------------------------------------------------------------------------------------------------
# One node as text: its address, hardware and software, interfaces, and other activity on it.
#
# Live values are from telemetry. The rest is from the last look at the node, whose age is shown. The node sent all of
# it.

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


# -- command table -----------------------------------------------------------------------------------------------------
# Commands sent to a node, newest at the top: time, command, duration, result.


class CommandTable(LineTable):
    """One row per command. The cursor stays on its command when others arrive."""

    EMPTY = "No commands sent to this node yet."
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("time", "time UTC", 10, right=False),
        Column("op", "request", 14, right=False, grow_to=17),
        Column("took", "ms", 7),
        Column("outcome", "outcome", 10, right=False, grow_to=20),
        Column("text", "with", 12, right=False, grow_to=400),
    )

    def __init__(self) -> None:
        super().__init__(id="commands")
        self._history: CommandHistory | None = None
        self._by_number: dict[int, LoggedRequest] = {}
        self._seen: tuple[object, int] = (None, -1)
        self.border_title = "Commands"

    def show(self, history: CommandHistory) -> None:
        """Take another node's history, or refresh the same one."""
        if self._history is not history:
            self._steered = False
            self._cells.clear()
        self._history = history
        if self._seen != (history, history.revision):
            self._seen = (history, history.revision)
            self._by_number = {command.number: command for command in reversed(history.commands)}
            for number in [number for number in self._cells if number not in self._by_number]:
                del self._cells[number]
            older = history.total - len(history.commands)
            self.border_subtitle = f"{history.total} so far" + (f", {older} oldest dropped" if older else "")
        self.paint()

    @property
    def chosen(self) -> LoggedRequest | None:
        """The command under the cursor."""
        return self._by_number.get(self.cursor_key)

    def keys(self) -> list[int]:
        return list(self._by_number)

    def cell_time(self, key: int, width: int) -> Span:
        return f"{datetime.fromtimestamp(self._by_number[key].at_wall_s, UTC):%H:%M:%S.%f}"[:-5], "muted"

    def cell_op(self, key: int, width: int) -> Span:
        return safe(self._by_number[key].op, width), "second"

    def cell_took(self, key: int, width: int) -> Span:
        took_s = self._by_number[key].took_s
        return ("…", "accent") if took_s is None else (format_decimal(took_s * 1e3, 1), "muted")

    def cell_outcome(self, key: int, width: int) -> Span:
        command = self._by_number[key]
        if not command.outcome:
            return "▶ running", "accent"
        return ("✓ ok", "good") if not command.failed else (safe(f"✗ {command.outcome}", width), "bad")

    def cell_text(self, key: int, width: int) -> Span:
        command = self._by_number[key]
        return safe(("$ " if command.argv else "") + command.words, width), "" if command.argv else "muted"
