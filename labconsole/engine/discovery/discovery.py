"""Discovery from the first login to a proposal, and its findings as lines and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from labconsole.contracts.ports import AgentLink
from labconsole.engine.discovery.hosts_file import HostsNode, hosts_text
from labconsole.engine.discovery.machines import MachineSpec, find_stated_roles
from labconsole.engine.discovery.probing import FRAMES, ExcludedPort, Port, Tell, probe, read_ports
from labconsole.engine.discovery.wiring import Proposal, Wire, Wiring, find_wiring, propose
from labconsole.errors import ConfigError
from labconsole.units import format_rate_bps

# -- discovery ---------------------------------------------------------------------------------------------------------
# Discovery from the first login to a proposal, shared by the command and the console.


@dataclass(frozen=True, slots=True)
class DiscoveryRequest:
    """The machines to discover, and how to log in. If ``ssh_config`` is None, SSH's own configuration is used."""

    asked: Sequence[MachineSpec]
    ssh_config: str | None = None
    become: bool = False
    take_over: bool = False


HoldNodes = Callable[[DiscoveryRequest, Tell], AbstractAsyncContextManager[Mapping[str, AgentLink]]]
"""Opens links to all machines, by name, with their leases; everything is undone on them afterwards."""

Agreed = Callable[[Sequence[Port], Sequence[ExcludedPort]], Awaitable[bool]]
"""Whether frames may be sent from these ports; called while the nodes are leased. Without ports nothing is sent."""


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """The result of a discovery. ``not_undone``: changes that the agents could not undo, in sentences."""

    request: DiscoveryRequest
    ports: Sequence[Port]
    alone: Sequence[ExcludedPort]
    wiring: Wiring
    proposal: Proposal
    not_undone: Sequence[str]

    def hosts_text(self, testbed: str) -> str:
        """The proposed hosts.yaml. Raises ConfigError if no path leads through the UUT."""
        if not self.proposal.streams:
            raise ConfigError(
                "no path through the unit under test was found: it needs a cable from a source's port to one of its "
                "ports, and one from another of its ports to a sink's port"
                + _describe_likelier_uut(self.wiring, self.proposal.uut)
            )
        nodes = [
            HostsNode(each.name, each.address, self.proposal.roles[each.name], each.user, each.port)
            for each in self.request.asked
            if each.name in self.proposal.roles
        ]
        config = self.request.ssh_config
        return hosts_text(
            testbed,
            nodes,
            self.proposal.streams,
            become=self.request.become,
            found=f"Its cables were found by `labconsole discover` on {datetime.now(UTC):%Y-%m-%d}.",
            defaults={} if config is None else {"ssh_config": str(Path(config).expanduser().absolute())},
        )


def _describe_likelier_uut(wiring: Wiring, uut: str) -> str:
    """A hint at the machine with most cables to others, if it has at least two and more than the UUT."""
    cables = Counter(
        node for wire in wiring.wires if wire.one.node != wire.other.node for node in (wire.one.node, wire.other.node)
    )
    likelier, most = max(cables.items(), key=lambda each: each[1], default=(uut, 0))
    if most < 2 or most <= cables[uut]:
        return ""
    own = cables[uut]
    return (
        f"; {likelier} has {most} cables to the others, and {uut} {own or 'none'}: if {likelier} is the unit under "
        f"test, write uut= before it instead of before {uut}"
    )


async def discover_testbed(
    request: DiscoveryRequest, hold: HoldNodes, agreed: Agreed, tell: Tell
) -> DiscoveryResult | None:
    """Log in, read ports, get consent, probe the ports, log out; None without consent. Raises NodeError.

    Undoes its changes before it ends, also when it is cancelled.
    """
    async with hold(request, tell) as links:
        ports, alone = await read_ports(links, tell)
        if not await agreed(ports, alone):
            return None
        found = await probe(links, ports, tell)
    wiring = find_wiring(found.ports, found.heard, found.refused)
    proposal = propose([each.name for each in request.asked], find_stated_roles(request.asked), wiring)
    return DiscoveryResult(request, found.ports, alone, wiring, proposal, found.not_undone)


# -- findings ----------------------------------------------------------------------------------------------------------
# A discovery's findings as lines and as JSON. Pure.


def describe_ports(ports: Sequence[Port], alone: Sequence[ExcludedPort]) -> list[str]:
    """The ports that would be tried, and those that are left alone."""
    lines = [f"left alone: {each} ({each.why})" for each in alone]
    for node, own in groupby(ports, key=lambda port: port.node):
        described = ", ".join(f"{port.interface} ({', '.join(_describe_port(port))})" for port in own)
        lines.append(f"{node}: {described}")
    if not ports:
        lines.append("no port is free for probing")
    return lines


def format_question(ports: Sequence[Port]) -> str:
    """The question to ask before anything is sent."""
    where = "this port" if len(ports) == 1 else f"each of these {len(ports)} ports"
    return f"Send {FRAMES} frames from {where}?"


def _describe_port(port: Port) -> Iterator[str]:
    yield port.driver
    if not port.up:
        yield "down"
    if port.bridge is not None:
        yield f"in bridge {port.bridge}"


def describe_findings(wiring: Wiring, proposal: Proposal) -> list[str]:
    """The cables, the ports without a cable, and the resulting proposal."""
    return [*_wiring(wiring), *_proposal(proposal)]


def _wiring(wiring: Wiring) -> Iterator[str]:
    yield "cables:" if wiring.wires else "no cable was found"
    for wire in wiring.wires:
        yield f"  {wire.one} ── {wire.other}{_describe_wire(wire)}"
    for group in wiring.shared:
        yield (
            f"ambiguous: {', '.join(map(str, group))} hear each other: a switch joins them; give each cable its own "
            "VLAN, or connect them directly"
        )
    for port, why in wiring.refused.items():
        yield f"could not send: {port} ({why})"
    for one, other in wiring.one_way:
        if other not in wiring.refused:
            yield f"one way only: {other} hears {one}, but not the reverse: look at both ports' error counters"
    for port in wiring.silent:
        if port in wiring.refused:
            continue
        why = "no cable, or its other end is not among these"
        if port in wiring.elsewhere:
            why = f"wired to {', '.join(wiring.elsewhere[port])}, which is left alone"
        yield f"no answer: {port} ({why})"


def _describe_wire(wire: Wire) -> str:
    speed_bps = wire.one.speed_bps
    notes = [] if speed_bps is None else [format_rate_bps(speed_bps)]
    if wire.lost_frames:
        notes.append(f"{wire.lost_frames} of 10 frames were lost: replace the cable")
    if wire.also_heard:
        notes.append(f"a bridge passes frames on to {', '.join(map(str, wire.also_heard))}")
    return f"   {'; '.join(notes)}" if notes else ""


def _proposal(proposal: Proposal) -> Iterator[str]:
    for node, roles in proposal.roles.items():
        yield f"{node}: {' and '.join(roles)}"
    for number, stream in enumerate(proposal.streams, 1):
        yield f"stream s{number}: {stream.source} → {stream.uut_in}, {stream.uut_out} → {stream.sink}"
    used = [port for each in proposal.streams for port in (each.source, each.uut_in, each.uut_out, each.sink)]
    if bridged := [f"{port} from {port.bridge}" for port in used if port.bridge is not None]:
        yield f"before you measure, take out of their bridges: {', '.join(bridged)}"
    if down := [str(port) for port in used if not port.up]:
        yield f"before you measure, set up: {', '.join(down)} (they were set up for probing, and are down again)"
    if proposal.spare:
        yield f"in no stream: {', '.join(map(str, proposal.spare))} (there must be as many sources as sinks)"


def build_excluded_ports_json(alone: Sequence[ExcludedPort]) -> dict[str, object]:
    """The JSON result if no port is free for probing."""
    return {"ports": [], "left_alone": [{"port": str(each), "why": each.why} for each in alone]}


def to_json(found: DiscoveryResult) -> dict[str, object]:
    """The whole result as one object; ports as node/interface."""
    wiring, proposal = found.wiring, found.proposal
    return {
        "ports": [
            {"port": str(each), "driver": each.driver, "speed_bps": each.speed_bps, "was_up": each.up}
            for each in found.ports
        ],
        "left_alone": [{"port": str(each), "why": each.why} for each in found.alone],
        "cables": [
            {
                "ends": [str(wire.one), str(wire.other)],
                "lost_frames": wire.lost_frames,
                "also_heard": [str(each) for each in wire.also_heard],
            }
            for wire in wiring.wires
        ],
        "not_told_apart": [[str(each) for each in group] for group in wiring.shared],
        "one_way": [[str(each) for each in pair] for pair in wiring.one_way],
        "no_answer": [str(each) for each in wiring.silent],
        "wired_to_left_alone": {str(port): list(places) for port, places in wiring.elsewhere.items()},
        "refused": {str(port): why for port, why in wiring.refused.items()},
        "roles": {node: list(roles) for node, roles in proposal.roles.items()},
        "streams": [
            {
                "source": str(each.source),
                "uut_in": each.uut_in.interface,
                "uut_out": each.uut_out.interface,
                "sink": str(each.sink),
                "link_speed_bps": each.link_speed_bps,
            }
            for each in proposal.streams
        ],
        "in_no_stream": [str(each) for each in proposal.spare],
        "not_undone": list(found.not_undone),
    }
