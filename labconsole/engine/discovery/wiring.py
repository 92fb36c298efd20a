"""From what was heard to cables. Pure.

A cable joins two ports of which each hears the other, and one hears nobody else's frames but that one's: what the UUT's
bridge passes on is heard in more places, but comes in by the cable too. Ports that hear several and are heard by
several are on a switch, or on one cable with more than two ends: which of them belong together cannot be told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labconsole.engine.discovery.ports import Port
from labconsole.engine.discovery.probing import FRAMES, Heard


@dataclass(frozen=True, slots=True)
class Wire:
    """A cable between two ports. ``also_heard``: ports behind a bridge of either end, which heard the frames, too."""

    one: Port
    other: Port
    lost_frames: int
    also_heard: tuple[Port, ...] = ()

    def far(self, port: Port) -> Port:
        """The other end."""
        return self.other if port == self.one else self.one


@dataclass(frozen=True, slots=True)
class Wiring:
    """``wires``: cables; ``shared``: ports that hear each other in more than pairs; ``one_way``: heard, and hears not
    back; ``silent``: neither; ``refused``: why a port could not send; ``elsewhere``: at which ports that are left alone
    a silent one was heard.
    """

    wires: tuple[Wire, ...]
    shared: tuple[tuple[Port, ...], ...]
    one_way: tuple[tuple[Port, Port], ...]
    silent: tuple[Port, ...]
    refused: Mapping[Port, str]
    elsewhere: Mapping[Port, tuple[str, ...]]

    def find_wire(self, port: Port) -> Wire | None:
        """The cable in a port."""
        return next((wire for wire in self.wires if port in (wire.one, wire.other)), None)


def find_wiring(ports: Sequence[Port], heard: Heard, refused: Mapping[Port, str]) -> Wiring:
    """``ports``: all that sent or listened."""
    at = {(port.node, port.interface): port for port in ports}
    reach = {
        port: {at[place]: count for place, count in heard.get(_same(heard, port), {}).items() if place in at}
        for port in ports
    }
    wires = []
    taken: set[Port] = set()
    for port in ports:
        # Only one hears it, and is heard by it: whatever else hears that one is behind a bridge.
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
    told = {port for pair in one_way for port in pair} | in_shared
    silent = [port for port in left if port not in told]
    elsewhere = {}
    for port in silent:
        places = ["/".join(place) for place in heard.get(_same(heard, port), {}) if place not in at]
        if places:
            elsewhere[port] = tuple(places)
    return Wiring(tuple(wires), tuple(shared), tuple(one_way), tuple(silent), dict(refused), elsewhere)


def _same(heard: Heard, port: Port) -> Port:
    """The port as it sent: its speed may have been read since."""
    return next((each for each in heard if (each.node, each.interface) == (port.node, port.interface)), port)


def _components(ports: Sequence[Port], reach: Mapping[Port, Mapping[Port, int]]) -> list[tuple[Port, ...]]:
    """Groups of ports that hear each other, both ways, of more than one."""
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
