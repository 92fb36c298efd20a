"""Derives roles of nodes and streams from the cables found. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from labconsole.engine.discovery.ports import Port, natural_sort_key
from labconsole.engine.discovery.wiring import Wiring

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
