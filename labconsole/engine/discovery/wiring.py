"""Derives cables from the frames that were heard. Pure.

A cable joins two ports that hear each other, one of which hears only the other's frames. Frames that the UUT's bridge
passes on are heard in more places, but they arrive through the cable too. Ports that hear several and are heard by
several are on a switch, or on a cable with more than two ends; which of them belong together is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labconsole.engine.discovery.ports import Port
from labconsole.engine.discovery.probing import FRAMES, Heard


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
