"""Which ports of a node may carry test traffic, and marked frames sent from each of them."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import IPv4Network

from pydantic import TypeAdapter, ValidationError

from labconsole.contracts.ports import AgentLink
from labconsole.engine.check.cabling import close_generator, read_heard_streams
from labconsole.engine.links import run_concurrently
from labconsole.engine.trial.setup import UDP_SOURCE_PORT
from labconsole.errors import LabError, NodeError
from labconsole.model.design_point import MIN_PKT_SIZE_BYTES
from labconsole.model.inventory import Interface
from labconsole.network.links import LinkUp
from labconsole.wire.changes import AnyChange, ApplyChanges, ReadNetwork, RouteEntry, UndoChanges
from labconsole.wire.generator import PrepareGenerator, StartGenerator, WaitForGenerator
from labconsole.wire.links import NodeLinkState, ReadLinks
from labconsole.wire.stream_spec import StreamSpec
from labconsole.wire.survey import StartListening, StopListening, TakeSurvey

# -- ports -------------------------------------------------------------------------------------------------------------
# Which ports of a node may carry test traffic, and why the others are left alone. Pure.

_ETHERNET = re.compile(r"(?!00:00:00:00:00:00)[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}\Z")
_KINDS = (None, "", "veth")
"""Kinds of links that are tried: a NIC has none, and a veth is a NIC of the local lab's nodes."""

_HOSTS_NAME = TypeAdapter(Interface)
Reason = Callable[[str], str]
"""Why an interface is in use, by its name or a pronoun."""
MAX_REASON_CHARACTERS = 400


@dataclass(frozen=True, slots=True, order=True)
class Port:
    """A NIC that may be tried. ``speed_bps`` is None if unknown, for example without a carrier."""

    node: str
    interface: str
    mac: str
    driver: str
    speed_bps: int | None
    up: bool
    bridge: str | None = None
    """The bridge that the NIC belongs to, if any."""

    def __str__(self) -> str:
        return f"{self.node}/{self.interface}"


@dataclass(frozen=True, slots=True)
class ExcludedPort:
    """A NIC from which nothing is sent, and why."""

    node: str
    interface: str
    why: str

    def __str__(self) -> str:
        return f"{self.node}/{self.interface}"


def sort_ports(
    node: str,
    links: Sequence[NodeLinkState],
    ssh_interface: str | None,
    addresses: Mapping[str, Sequence[str]],
    routes: Sequence[RouteEntry],
) -> tuple[list[Port], list[ExcludedPort]]:
    """The ports to try and those to leave alone, each sorted by name, with numbers by value."""
    ports, alone = [], []
    kinds = {each.name: each.kind for each in links if not each.namespace}
    used = _used(ssh_interface, addresses, routes, [each for each in links if not each.namespace])
    for link in sorted(links, key=lambda each: natural_sort_key(each.name)):
        if link.namespace or link.kind not in _KINDS or link.mac is None or not _ETHERNET.match(link.mac):
            continue
        if link.name in used:
            alone.append(ExcludedPort(node, link.name, used[link.name]("it")))
        elif not _is_name_of_hosts(link.name):
            alone.append(ExcludedPort(node, link.name, "hosts.yaml cannot have this name: rename it on the node"))
        elif link.master is None:
            ports.append(Port(node, link.name, link.mac, link.driver or "?", link.speed_bps, link.up))
        elif not link.up:
            alone.append(
                ExcludedPort(node, link.name, f"it is down in {link.master}: setting it up might close a loop")
            )
        elif kinds.get(link.master) == "bridge":
            port = Port(node, link.name, link.mac, link.driver or "?", link.speed_bps, link.up, link.master)
            ports.append(port)
        else:
            alone.append(ExcludedPort(node, link.name, f"it belongs to {link.master}"))
    return ports, alone


def _used(
    ssh_interface: str | None,
    addresses: Mapping[str, Sequence[str]],
    routes: Sequence[RouteEntry],
    links: Sequence[NodeLinkState],
) -> dict[str, Reason]:
    """Why each interface is in use, as a function of its name; includes parents and members of used interfaces."""
    found = {
        name: _build_reason(f"the route to {each.destination} uses ") for each in routes if (name := each.interface)
    }
    found |= {name: _build_reason(f"the address {own[0]} is on ") for name, own in addresses.items() if own}
    if ssh_interface is not None:
        found[ssh_interface] = _build_reason("SSH uses ")
    by_name: defaultdict[str, list[NodeLinkState]] = defaultdict(list)
    by_master: defaultdict[str | None, list[NodeLinkState]] = defaultdict(list)
    for link in links:
        by_name[link.name].append(link)
        by_master[link.master].append(link)
    waiting = deque(found)
    while waiting:
        name = waiting.popleft()
        carriers = {link.parent: ", which is on " for link in by_name[name] if link.parent}
        members = {link.name: ", to which " for link in by_master[name]}
        for other, words in (carriers | members).items():
            if other not in found:
                found[other] = _build_reason(found[name](name) + words, " belongs" if other in members else "")
                waiting.append(other)
    return found


def _build_reason(before: str, after: str = "") -> Reason:
    """A reason that names an interface. Not a format string: what nodes call interfaces is in it, and of as many."""
    shown = before if len(before) <= MAX_REASON_CHARACTERS else f"…{before[-MAX_REASON_CHARACTERS:]}"
    return lambda name: f"{shown}{name}{after}"


def _is_name_of_hosts(name: str) -> bool:
    try:
        _HOSTS_NAME.validate_python(name)
    except ValidationError:
        return False
    return True


def natural_sort_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """A sort key that puts eth10 after eth9."""
    parts = re.split(r"(\d+)", name)
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in parts)


# -- probing -----------------------------------------------------------------------------------------------------------
# Send marked frames from every port while every port of every node listens, then undo all changes.
#
# Each port sends five frames to an address that no NIC has, so that no host accepts them, and bridges and switches
# flood them. Each discovery draws the IP addresses of its frames; other frames are not counted.

FRAMES = 5
DELAY_NS = 5_000_000
FIRST_UDP_PORT = 30_000
"""UDP port of the first NIC; a frame's port identifies the NIC that sent it."""

TEST_NETWORK = IPv4Network("198.18.0.0/15")

QUIET_S = 0.5
"""Listening ends when nothing new was heard for this long after the last frame."""
HEAR_S = 10.0
"""After this long, frames that still arrive are repetitions by a loop or another program."""
CARRIER_S = 8.0
"""Time that a copper link needs to come up, with a margin."""
STEP_S = 0.1
TOKEN = "discover"

Tell = Callable[[str, str], None]
"""Reports progress: a node's name, and what is done on it now."""

Heard = dict[Port, dict[tuple[str, str], int]]
"""Number of frames heard, by sending port and by the (node, interface) that heard them."""


def ignore_progress(node: str, doing: str) -> None:
    """Discard the progress."""


@dataclass(frozen=True, slots=True)
class Target:
    """The addresses in a discovery's frames, none of which belongs to a host."""

    mac: str
    source_ip: str
    sink_ip: str


def draw_target() -> Target:
    """Draw addresses for one discovery: 40 bits of MAC, and IP addresses from the 2^17 of RFC 2544's test network."""

    def draw_ip() -> str:
        return str(TEST_NETWORK[1 + secrets.randbelow(TEST_NETWORK.num_addresses - 2)])

    return Target(bytes([2, *secrets.token_bytes(5)]).hex(":"), draw_ip(), draw_ip())


async def read_ports(
    links: Mapping[str, AgentLink], tell: Tell = ignore_progress
) -> tuple[list[Port], list[ExcludedPort]]:
    """The ports of all nodes, in the order of nodes: those that may be tried, and those that are left alone."""
    ports: list[Port] = []
    alone: list[ExcludedPort] = []
    for node, link in links.items():
        tell(node, "reads its ports")
        reply = await link.ask(ReadLinks())
        survey = await link.ask(TakeSurvey(tools=[]))
        network = await link.ask(ReadNetwork(routes=True))
        management = survey.management
        own, rest = sort_ports(node, reply.links, management.interface, management.addresses, network.routes or [])
        tell(node, f"has {len(own)} {'port' if len(own) == 1 else 'ports'} to try, and {len(rest)} to leave alone")
        ports += own
        alone += rest
    return ports, alone


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a probe.

    ``ports``: with their speeds during the probe. ``refused``: why a port could not send. ``not_undone``: changes that
    the agents could not undo, in sentences.
    """

    ports: list[Port]
    heard: Heard
    refused: dict[Port, str]
    not_undone: list[str]


async def probe(links: Mapping[str, AgentLink], ports: Sequence[Port], tell: Tell = ignore_progress) -> ProbeResult:
    """Probe every port. A port that is down is set up, waited for, and set down again. Raises NodeError."""
    marks = {FIRST_UDP_PORT + number: port for number, port in enumerate(ports)}
    by_node = {node: [port for port in ports if port.node == node] for node in links}
    by_node = {node: own for node, own in by_node.items() if own}
    target = draw_target()
    refused: dict[Port, str] = {}
    not_undone: list[str] = []
    problem: NodeError | None = None
    try:
        await run_concurrently(_up(links[node], own, tell) for node, own in by_node.items())
        speeds = await _carriers(links, by_node, any(not port.up for port in ports))
        await run_concurrently(
            links[node].ask(
                StartListening(interfaces=[port.interface for port in own], source_ip=target.source_ip), timeout_s=8
            )
            for node, own in by_node.items()
        )
        await run_concurrently(_send(links[node], own, marks, target, refused, tell) for node, own in by_node.items())
        for node in by_node:
            tell(node, "listens")
        heard = await _hear({node: links[node] for node in by_node}, marks, target)
    except NodeError as exc:
        problem = exc
        raise
    finally:
        for node in by_node:
            tell(node, "restores what was changed")
            with suppress(NodeError):  # its agent stops listening when it ends
                await links[node].ask(StopListening(), timeout_s=8)
            try:
                undone = await links[node].ask(UndoChanges(token=TOKEN), timeout_s=20)
                not_undone += [f"{node}: {each}" for each in undone.failed]
                tell(node, "could not restore everything" if undone.failed else "is restored")
            except NodeError as exc:
                not_undone.append(f"{node}: {exc.message}: its agent undoes everything when it ends")
        if problem is not None and not_undone:
            raise NodeError(problem.node, f"{problem.message}; not restored: {'; '.join(not_undone)}") from problem
    updated = {(port.node, port.interface): port for port in speeds}
    refused = {updated[port.node, port.interface]: why for port, why in refused.items()}
    return ProbeResult(speeds, heard, refused, not_undone)


async def _up(link: AgentLink, ports: Sequence[Port], tell: Tell) -> None:
    down: list[AnyChange] = [LinkUp(interface=port.interface) for port in ports if not port.up]
    if down:
        tell(ports[0].node, f"sets up {', '.join(port.interface for port in ports if not port.up)} for a carrier")
        await link.ask(ApplyChanges(token=TOKEN, changes=down), timeout_s=20)


async def _carriers(links: Mapping[str, AgentLink], by_node: Mapping[str, Sequence[Port]], wait: bool) -> list[Port]:
    """All ports with their current speeds; with ``wait``, once all have a carrier or time is up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + (CARRIER_S if wait else 0.0)
    while True:
        found, lacking = [], False
        for node, own in by_node.items():
            current = {each.name: each for each in (await links[node].ask(ReadLinks())).links if not each.namespace}
            for port in own:
                link = current.get(port.interface)
                lacking = lacking or link is None or not link.carrier
                found.append(port if link is None else replace(port, speed_bps=link.speed_bps))
        if not lacking or loop.time() > deadline:
            return found
        await asyncio.sleep(STEP_S)


async def _send(
    link: AgentLink,
    ports: Sequence[Port],
    marks: Mapping[int, Port],
    target: Target,
    refused: dict[Port, str],
    tell: Tell,
) -> None:
    """Send from one port after the other, so that a failing port does not stop the others."""
    numbers = {port: mark for mark, port in marks.items()}
    for number, port in enumerate(ports, 1):
        tell(port.node, f"sends from {port.interface}, port {number} of {len(ports)}")
        spec = StreamSpec(
            stream=port.interface,
            interface=port.interface,
            generator="afpacket",
            destination_mac=target.mac,
            source_ip=target.source_ip,
            sink_ip=target.sink_ip,
            udp_source_port=UDP_SOURCE_PORT,
            udp_sink_port=numbers[port],
            pkt_size_bytes=MIN_PKT_SIZE_BYTES,
            delay_ns=DELAY_NS,
            count=FRAMES,
            duration_s=1.0,
            max_count=FRAMES,
        )
        try:
            try:
                await link.ask(PrepareGenerator(streams=[spec]), timeout_s=10)
                await link.ask(StartGenerator(progress_interval_s=1.0))
                await link.ask(WaitForGenerator(), timeout_s=10)
            finally:
                await close_generator(link)
        except LabError as exc:
            refused[port] = str(exc)


async def _hear(links: Mapping[str, AgentLink], marks: Mapping[int, Port], target: Target) -> Heard:
    """Where frames arrived, once nothing new has arrived for a while. Raises NodeError if that does not end."""
    loop = asyncio.get_running_loop()
    last: Heard = {}
    since = begun = loop.time()
    while True:
        replies = await asyncio.gather(*map(read_heard_streams, links.values()))
        heard: Heard = {}
        for node, reply in zip(links, replies, strict=True):
            for row in reply:
                sender = marks.get(row.udp_sink_port)
                if sender is not None and (row.source_ip, row.sink_ip) == (target.source_ip, target.sink_ip):
                    places = heard.setdefault(sender, {})
                    place = (node, row.interface)
                    places[place] = places.get(place, 0) + row.packets
        if heard != last:
            if loop.time() - begun > HEAR_S:
                ports = heard.keys() | last.keys()
                moved = (heard.get(port, {}).items() ^ last.get(port, {}).items() for port in ports)
                node, interface = min(place for rows in moved for place, _ in rows)
                raise NodeError(
                    node,
                    f"test frames still arrive at {interface} {HEAR_S:g} s after the last one was sent: a loop between "
                    "its ports or another program repeats them; stop that, then try again",
                )
            last, since = heard, loop.time()
        elif loop.time() - since > QUIET_S:
            return heard
        await asyncio.sleep(STEP_S)
