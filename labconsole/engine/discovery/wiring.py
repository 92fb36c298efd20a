"""Derives cables from the frames that were heard, and roles of nodes and streams from the cables. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from labconsole.engine.discovery.probing import FRAMES, Heard, Port, natural_sort_key

# -- wiring ------------------------------------------------------------------------------------------------------------
# Derives cables from the frames that were heard.
#
# A cable joins two ports that hear each other, one of which hears only the other's frames. Frames that the UUT's bridge
# passes on are heard in more places, but they arrive through the cable too. Ports that hear several and are heard by
# several are on a switch, or on a cable with more than two ends; which of them belong together is unknown.


@dataclass(frozen=True, slots=True)
class Wire:
    """A cable between two ports. ``also_heard``: ports behind a bridge at either end, which heard the frames, too."""

    one: Port
    other: Port
    lost_frames: int
    also_heard: tuple[Port, ...] = ()

    def far(self, port: Port) -> Port:
        """The other end."""
        return self.other if port == self.one else self.one


@dataclass(frozen=True, slots=True)
class Wiring:
    """The cables found and the ports that are not explained by them.

    ``wires``: cables. ``shared``: groups of more than two ports that hear each other. ``one_way``: pairs of which only
    the second hears the first. ``silent``: ports that hear nothing and are not heard. ``refused``: why a port could not
    send. ``elsewhere``: the ports left alone that heard a silent port.
    """

    wires: tuple[Wire, ...]
    shared: tuple[tuple[Port, ...], ...]
    one_way: tuple[tuple[Port, Port], ...]
    silent: tuple[Port, ...]
    refused: Mapping[Port, str]
    elsewhere: Mapping[Port, tuple[str, ...]]

    def find_wire(self, port: Port) -> Wire | None:
        """The cable in a port, or None."""
        return next((wire for wire in self.wires if port in (wire.one, wire.other)), None)


def find_wiring(ports: Sequence[Port], heard: Heard, refused: Mapping[Port, str]) -> Wiring:
    """Derive the wiring. ``ports``: all that sent or listened."""
    at = {(port.node, port.interface): port for port in ports}
    reach = {
        port: {at[place]: count for place, count in heard.get(_same(heard, port), {}).items() if place in at}
        for port in ports
    }
    wires = []
    taken: set[Port] = set()
    for port in ports:
        # Only one port hears it and is heard by it: any other port that hears that one is behind a bridge.
        if port in taken or len(reach[port]) != 1:
            continue
        ((far, count),) = reach[port].items()
        if far in taken or port not in reach[far]:
            continue
        lost = (FRAMES - min(count, FRAMES)) + (FRAMES - min(reach[far][port], FRAMES))
        wires.append(Wire(port, far, lost, tuple(each for each in reach[far] if each != port)))
        taken |= {port, far}
    left = [port for port in ports if port not in taken]
    shared = _components(left, reach)
    in_shared = {port for group in shared for port in group}
    one_way = [
        (port, far)
        for port in left
        for far in reach[port]
        if port not in reach[far] and port not in in_shared and far not in taken
    ]
    explained = {port for pair in one_way for port in pair} | in_shared
    silent = [port for port in left if port not in explained]
    elsewhere = {}
    for port in silent:
        places = ["/".join(place) for place in heard.get(_same(heard, port), {}) if place not in at]
        if places:
            elsewhere[port] = tuple(places)
    return Wiring(tuple(wires), tuple(shared), tuple(one_way), tuple(silent), dict(refused), elsewhere)


def _same(heard: Heard, port: Port) -> Port:
    """The port as it was when it sent; its speed may have been read since."""
    return next((each for each in heard if (each.node, each.interface) == (port.node, port.interface)), port)


def _components(ports: Sequence[Port], reach: Mapping[Port, Mapping[Port, int]]) -> list[tuple[Port, ...]]:
    """Groups of at least two ports that hear each other in both directions."""
    left = list(ports)
    found = []
    while left:
        group = [left.pop(0)]
        for port in group:
            for far in [each for each in left if each in reach[port] and port in reach[each]]:
                left.remove(far)
                group.append(far)
        if len(group) > 1:
            found.append(tuple(group))
    return found


# -- proposal ----------------------------------------------------------------------------------------------------------
# Derives roles of nodes and streams from the cables found.

SOURCES: Final = ("src", "source", "gen", "tg", "tx", "send")
SINKS: Final = ("snk", "sink", "cap", "rx", "recv", "dst")
"""Beginnings of a part of a node's name, such as ``lab-src1``, that imply its role if none was stated."""


@dataclass(frozen=True, slots=True)
class ProposedStream:
    """One path through the UUT. ``link_speed_bps``: of its slowest port, or None if unknown."""

    source: Port
    uut_in: Port
    uut_out: Port
    sink: Port

    @property
    def link_speed_bps(self) -> int | None:
        speeds = [port.speed_bps for port in (self.source, self.uut_in, self.uut_out, self.sink)]
        return None if None in speeds else min(speed for speed in speeds if speed is not None)


@dataclass(frozen=True, slots=True)
class Proposal:
    """``roles``: of every node with a cable to the UUT; ``spare``: ports wired to the UUT that no stream uses."""

    uut: str
    roles: Mapping[str, tuple[str, ...]]
    streams: tuple[ProposedStream, ...]
    spare: tuple[Port, ...]


def propose(nodes: Sequence[str], stated: Mapping[str, tuple[str, ...]], wiring: Wiring) -> Proposal:
    """Propose roles and streams. ``nodes``: in the order given; ``stated``: their stated roles, with one uut."""
    uut = next(node for node, roles in stated.items() if "uut" in roles)
    ends: list[tuple[Port, Port]] = []
    for wire in wiring.wires:
        for near, far in ((wire.one, wire.other), (wire.other, wire.one)):
            if far.node == uut and near.node != uut:
                ends.append((near, far))
    ends.sort(key=lambda end: (nodes.index(end[0].node), natural_sort_key(end[0].interface)))
    roles = _roles(nodes, stated, uut, ends)
    sides: dict[str, list[tuple[Port, Port]]] = {"source": [], "sink": []}
    for node in nodes:
        own = [end for end in ends if end[0].node == node]
        if not own:
            continue
        if roles[node] == ("source", "sink"):
            half = (len(own) + 1) // 2
            sides["source"] += own[:half]
            sides["sink"] += own[half:]
        else:
            sides[roles[node][0]] += own
    streams = tuple(
        ProposedStream(source, uut_in, uut_out, sink)
        for (source, uut_in), (sink, uut_out) in zip(sides["source"], sides["sink"], strict=False)
    )
    used = {port for stream in streams for port in (stream.source, stream.sink)}
    spare = tuple(near for near, _ in ends if near not in used)
    return Proposal(uut, {**roles, uut: ("uut",)}, streams, spare)


def _roles(
    nodes: Sequence[str],
    stated: Mapping[str, tuple[str, ...]],
    uut: str,
    ends: Sequence[tuple[Port, Port]],
) -> dict[str, tuple[str, ...]]:
    """Roles as stated, else by name, else assigned to the side with fewer ports, sources first.

    A single node next to the UUT is both source and sink.
    """
    wired = [node for node in nodes if node != uut and any(near.node == node for near, _ in ends)]
    count = {node: sum(near.node == node for near, _ in ends) for node in wired}
    if len(wired) == 1 and wired[0] not in stated:
        return {wired[0]: ("source", "sink")}
    found: dict[str, tuple[str, ...]] = {node: stated[node] for node in wired if node in stated}
    for node in wired:
        for part in re.split(r"[-_.]", node.lower()):
            if node not in found and part.startswith((*SOURCES, *SINKS)):
                found[node] = ("source",) if part.startswith(SOURCES) else ("sink",)
    rest = [node for node in wired if node not in found]
    # The first nodes send and the last ones capture, so that neighbours in the list stay together.
    total = sum(count.values())
    sending = sum(count[node] for node, roles in found.items() if roles == ("source",))
    for node in rest:
        is_source = sending + count[node] <= (total + 1) // 2
        sending += count[node] if is_source else 0
        found[node] = ("source",) if is_source else ("sink",)
    return found
