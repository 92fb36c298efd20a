"""A discovery's findings as lines and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from labconsole.engine.discovery.discovery import DiscoveryResult
from labconsole.engine.discovery.ports import ExcludedPort, Port
from labconsole.engine.discovery.probing import FRAMES
from labconsole.engine.discovery.proposal import Proposal
from labconsole.engine.discovery.wiring import Wire, Wiring
from labconsole.units import format_rate_bps


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
