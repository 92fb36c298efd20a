"""One node in words: how it is reached, what it is, its interfaces, what else goes on there.

What is live comes from telemetry; the rest from the last look at the node, whose age is said. Everything in it was sent
by the node.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from labconsole.engine.inspection import Inspection
from labconsole.engine.live.events import NodeState
from labconsole.engine.live.telemetry import NodeLive
from labconsole.model.inventory import Inventory
from labconsole.text.cells import UNKNOWN, count, decimal, percent, safe, span
from labconsole.tui.console import clock
from labconsole.tui.parts.lines import Lines, Span, field
from labconsole.tui.parts.node_state import STATE_LOOKS
from labconsole.tui.screens.nodes.node_list import offset_words, retry_words

PROCESSES_SHOWN = 6
GUESTS_SHOWN = 6
LOGINS_SHOWN = 6

Rows = list[list[Span]]


class NodeDetails(Lines):
    """``show`` takes a node; what is known of it is read at every painting."""

    def __init__(self, inventory: Inventory, live: Callable[[str], NodeLive]) -> None:
        super().__init__(id="node-details")
        self._inventory, self._live = inventory, live
        self._node: str | None = None
        self._looks: dict[str, Inspection] = {}
        self._refused: dict[str, str] = {}

    def show(self, name: str | None) -> None:
        """Show this node."""
        self._node = name
        self.paint()

    def looked(self, name: str, inspection: Inspection) -> None:
        """A look at a node came back."""
        self._looks[name] = inspection
        self._refused.pop(name, None)
        self.paint()

    def refused(self, name: str, why: str) -> None:
        """A look could not be had; the one before stays."""
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
            if retry_words(live):
                rows += field("", retry_words(live), width, "warn")
        if live.round_trip_s is not None:
            rows += field(
                "clock", f"off by {offset_words(live)} ms, round trip {live.round_trip_s * 1e3:.2f} ms", width
            )
        if look is not None and look.holder is not None:
            rows += self._holder(look.holder, width)
        told = live.facts.to_wire() if live.facts is not None else None
        rows += self._machine((look.facts if look is not None else None) or told, width)
        if look is not None and look.surroundings is not None:
            rows += self._surroundings(look.surroundings, width)
        # Last: there may be many, and who else is on the node must not need scrolling.
        rows += self._interfaces(look, live, width)
        return rows + self._age(name, look, width)

    def _holder(self, holder: dict[str, Any], width: int) -> Rows:
        whose = "this console" if holder.get("own") else str(holder.get("owner", "somebody"))
        words = f"{whose}, for {holder.get('purpose') or 'an unknown purpose'}"
        since = holder.get("since_wall_ns")
        if isinstance(since, int) and 0 <= since < 4e18:
            words += f", since {datetime.fromtimestamp(since / 1e9, UTC):%H:%M:%S} UTC"
        return field("held by", words, width, "muted" if holder.get("own") else "warn")

    def _machine(self, facts: dict[str, Any] | None, width: int) -> Rows:
        if not facts:
            return []

        def has(key: str) -> str:
            value = facts.get(key)
            return str(value) if value is not None else UNKNOWN

        memory = facts.get("memory_bytes")
        rows = field("kernel", f"{has('kernel')}, {has('os')}", width)
        size = f", {memory / 1e9:.1f} GB" if isinstance(memory, int) else ""
        rows += field("machine", f"{has('cpus')} x {has('cpu_model')}{size}", width, "muted")
        governors = facts.get("governors")
        if isinstance(governors, dict) and governors:
            rows += field(
                "governor", ", ".join(f"{name} ({number})" for name, number in governors.items()), width, "muted"
            )
        rows += field(
            "tools", f"tcpdump {has('tcpdump')}, pktgen {has('pktgen')}, python {has('python')}", width, "muted"
        )
        uptime = facts.get("uptime_s")
        if isinstance(uptime, int | float):
            rows += field("up for", span(float(uptime)), width, "muted")
        return rows

    def _interfaces(self, look: Inspection | None, live: NodeLive, width: int) -> Rows:
        interfaces = (look.settings or {}).get("interfaces") if look is not None else None
        if not isinstance(interfaces, dict) or not interfaces:
            return []
        rows: Rows = [[]]
        for name, nic in interfaces.items():
            if not isinstance(nic, dict):
                continue
            up = nic.get("up")
            state: Span = ("● up", "good") if up else ("○ down", "muted") if up is False else (UNKNOWN, "muted")
            speed = nic.get("speed_mbps")
            told = f"{count(speed)} Mbit/s" if isinstance(speed, int) else "speed unknown"
            rows.append([(f" {safe(str(name), 16)}  ", "second"), state, (safe(f"  {told}", width - 30), "")])
            words = f"{nic.get('driver') or 'driver unknown'}, MTU {nic.get('mtu') or UNKNOWN}, "
            rows += field("", words + pause_words(nic.get("pause")) + queue_words(nic), width, "muted")
        return rows

    def _surroundings(self, seen: dict[str, Any], width: int) -> Rows:
        rows: Rows = [[]]
        load = seen.get("load")
        if isinstance(load, list) and load:
            rows += field(
                "load", " ".join(decimal(float(v), 2) for v in load) + f" on {seen.get('cpus') or '?'} CPUs", width
            )
        logins = [entry for entry in seen.get("logins") or [] if isinstance(entry, dict)]
        words = ", ".join(
            f"{e.get('user')} on {e.get('line')} from {e.get('host') or 'here'}" for e in logins[:LOGINS_SHOWN]
        )
        rows += field("logins", words or "nobody", width, "warn" if logins else "muted")
        guests = [entry for entry in seen.get("guests") or [] if isinstance(entry, dict)]
        if guests:
            words = ", ".join(f"{g.get('name')} (pid {g.get('pid')})" for g in guests[:GUESTS_SHOWN])
            more = f" and {len(guests) - GUESTS_SHOWN} more" if len(guests) > GUESTS_SHOWN else ""
            rows += field("guests", words + more, width)
        if seen.get("sessions"):
            rows += field("consoles", f"{len(seen['sessions'])} other labconsole sessions on this node", width, "warn")
        window = seen.get("window")
        if isinstance(window, dict):
            rows += self._window(window, width)
        return rows

    def _window(self, window: dict[str, Any], width: int) -> Rows:
        cpu = window.get("cpu")
        busy = cpu.get("busy_ratio") if isinstance(cpu, dict) else None
        elapsed = window.get("elapsed_s")
        if not isinstance(elapsed, int | float):
            return []
        rows = field("busy", f"{percent(busy, 1)} % of all CPUs over the last {span(float(elapsed))}", width)
        processes = [p for p in window.get("processes") or [] if isinstance(p, dict)]
        for index, process in enumerate(processes[:PROCESSES_SHOWN]):
            used = process.get("cpu_s")
            share = percent(used / elapsed, 1) if isinstance(used, int | float) and elapsed else UNKNOWN
            words = f"{share:>6} %  {process.get('name')} ({process.get('whose')}, pid {process.get('pid')})"
            rows += field("busiest" if index == 0 else "", words, width, "muted", rows=1)
        return rows

    def _age(self, name: str, look: Inspection | None, width: int) -> Rows:
        rows: Rows = [[]]
        if look is None:
            rows += field("look", "not inspected yet", width, "muted")
        else:
            age_s = max(0.0, clock.wall_s() - look.at_wall_s)
            rows += field("look", f"{span(age_s)} ago; press l to look again", width, "muted")
            for op, why in look.refused.items():
                rows += field("", f"{op}: {why}", width, "warn", rows=2)
        if name in self._refused:
            rows += field("", self._refused[name], width, "warn", rows=3)
        return rows


def pause_words(pause: object) -> str:
    """Ethernet flow control, which throttles a generator unseen when it is on."""
    if not isinstance(pause, dict):
        return "pause unknown"
    on = [direction for direction in ("rx", "tx") if pause.get(direction)]
    return f"pause {'+'.join(on) if on else 'off'}{' (negotiated)' if pause.get('autoneg') else ''}"


def queue_words(nic: dict[str, Any]) -> str:
    """Rings, queues and the offloads that join or split packets."""
    words = []
    rings = nic.get("rings")
    if isinstance(rings, dict) and rings.get("rx") is not None:
        words.append(f"rings {rings.get('rx')}/{rings.get('tx')}")
    queues = nic.get("queues")
    if isinstance(queues, dict):
        number = queues.get("combined") or queues.get("rx")
        if number is not None:
            words.append(f"{number} queues" if number != 1 else "1 queue")
    offloads = nic.get("offloads")
    if isinstance(offloads, dict):
        words.append(
            "offloads " + (" ".join(name for name in ("tso", "gso", "gro", "lro") if offloads.get(name)) or "off")
        )
    return ", " + ", ".join(words) if words else ""
