"""Does each cable go where hosts.yaml says? Send a few marked frames down every cable and listen on every port.

Each cable is tested by itself, including those at the UUT's exits: the UUT sends those frames, so that no platform has
to forward anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from labconsole.contracts.ports import AgentLink
from labconsole.engine.check.context import CheckContext
from labconsole.engine.check.result import CheckFinding, Values, failed, passed, skipped
from labconsole.engine.trial.setup import UDP_SOURCE_PORT
from labconsole.errors import AgentError, LabError, NodeError
from labconsole.model.design_point import MIN_PKT_SIZE_BYTES
from labconsole.wire.generator import CloseGenerator, PrepareGenerator, StartGenerator, WaitForGenerator
from labconsole.wire.stream_spec import StreamSpec
from labconsole.wire.survey import HeardStream, ReadListening, StartListening, StopListening

MARKED_FRAMES = 5
MARKED_DELAY_NS = 2_000_000
FIRST_PORT_IN, FIRST_PORT_OUT = 41_000, 51_000
"""UDP ports that no trial uses; each identifies the cable down which a frame was sent."""

ARRIVAL_S = 1.0
STEP_S = 0.02


@dataclass(frozen=True, slots=True)
class Cable:
    """One cable of one stream: from (node, interface) to (node, interface); ``port`` marks its frames."""

    stream: str
    side: str
    near: tuple[str, str]
    far: tuple[str, str]
    port: int
    source_ip: str
    sink_ip: str


def cables(bench: CheckContext) -> list[Cable]:
    """Both cables of each stream."""
    found = []
    for index, stream in enumerate(bench.streams()):
        source, uut_in, uut_out, sink = bench.hops(stream)
        ends = (stream.source_ip, stream.sink_ip)
        found.append(Cable(stream.name, "in", source, uut_in, FIRST_PORT_IN + index, *ends))
        found.append(Cable(stream.name, "out", uut_out, sink, FIRST_PORT_OUT + index, *ends))
    return found


@dataclass
class CableFindings:
    """The finding on each cable, by stream and side."""

    findings: dict[tuple[str, str], CheckFinding]

    def of(self, cables_: list[Cable]) -> CheckFinding:
        """One finding for several cables of one node: the worst status, with the evidence of all."""
        mine = [self.findings[(cable.stream, cable.side)] for cable in cables_]
        order = ("fail", "warn", "skipped", "pass")
        worst = min(mine, key=lambda finding: order.index(finding.status))
        return CheckFinding(
            status=worst.status,
            evidence="; ".join(finding.evidence for finding in mine),
            hint=worst.hint,
            values={"cables": [finding.values for finding in mine]},
        )


async def try_cables(bench: CheckContext) -> CableFindings:
    """Send marked frames down every cable between two nodes leased by this console, and find where each arrived."""
    tried = CableFindings({})
    ready: list[Cable] = []
    for cable in cables(bench):
        reason = _not_ready(bench, cable)
        if reason is not None:
            tried.findings[(cable.stream, cable.side)] = reason
        else:
            ready.append(cable)
    listeners = [node for node in bench.leased if bench.ports(node) and node in bench.links]
    try:
        await asyncio.gather(*(_listen(bench, node) for node in listeners))
        senders = list(dict.fromkeys(cable.near[0] for cable in ready))
        refusals = await asyncio.gather(*(_send(bench, node, ready) for node in senders))
        heard = await _hear(bench, listeners, ready)
    finally:
        await asyncio.gather(*(_stop(bench, node) for node in listeners))
    refusal_of = dict(zip(senders, refusals, strict=True))
    for cable in ready:
        tried.findings[(cable.stream, cable.side)] = _judge(cable, heard, refusal_of[cable.near[0]])
    return tried


def _text(end: tuple[str, str]) -> str:
    return "/".join(end)


def _not_ready(bench: CheckContext, cable: Cable) -> CheckFinding | None:
    for node, interface in (cable.near, cable.far):
        if node not in bench.links:
            return skipped(f"{cable.stream}: {node} is not connected")
        if node not in bench.leased:
            return skipped(f"{cable.stream}: this console does not hold the lease of {node}")
        live = bench.session.telemetry.interfaces.get((node, "", interface))
        if live is None:
            return skipped(f"{cable.stream}: {node} has no {interface}")
    live = bench.session.telemetry.interfaces[(cable.near[0], "", cable.near[1])]
    if not live.link.up or not live.link.carrier:
        return failed(
            f"{cable.stream}: {_text(cable.near)} has no carrier, so nothing can be sent to {_text(cable.far)}",
            f"set the port up, and check that the cable to {_text(cable.far)} is plugged in",
        )
    return None


async def _listen(bench: CheckContext, node: str) -> None:
    there = [name for name in bench.ports(node) if (node, "", name) in bench.session.telemetry.interfaces]
    await bench.link(node).ask(StartListening(interfaces=there), timeout_s=8)


async def _stop(bench: CheckContext, node: str) -> None:
    if node in bench.links:
        try:
            await bench.link(node).ask(StopListening(), timeout_s=8)
        except NodeError:
            return  # its agent stops listening when it ends


async def _send(bench: CheckContext, node: str, ready: list[Cable]) -> str | None:
    """Send one node's marked frames. Returns why it failed, or None."""
    specs: list[StreamSpec] = []
    for cable in ready:
        if cable.near[0] != node:
            continue
        far = bench.session.telemetry.interfaces[(cable.far[0], "", cable.far[1])]
        specs.append(
            StreamSpec(
                stream=f"{cable.stream}.{cable.side}",
                interface=cable.near[1],
                # pktgen would start every configured device, also other users'; a few frames do not need it.
                generator="afpacket",
                destination_mac=str(far.link.mac),
                source_ip=cable.source_ip,
                sink_ip=cable.sink_ip,
                udp_source_port=UDP_SOURCE_PORT,
                udp_sink_port=cable.port,
                pkt_size_bytes=MIN_PKT_SIZE_BYTES,
                delay_ns=MARKED_DELAY_NS,
                count=MARKED_FRAMES,
                duration_s=2.0,
                max_count=MARKED_FRAMES,
            )
        )
    link = bench.link(node)
    try:
        try:
            await link.ask(PrepareGenerator(streams=specs), timeout_s=10)
            await link.ask(StartGenerator(progress_interval_s=1.0))
            await link.ask(WaitForGenerator(), timeout_s=10)
        finally:
            await close_generator(link)
    except LabError as exc:
        return str(exc)
    return None


async def read_heard_streams(link: AgentLink) -> Sequence[HeardStream]:
    """The test frames counted by a node's listener. Raises NodeError if it has missed some."""
    reply = await link.ask(ReadListening(), timeout_s=8)
    if not reply.complete:
        raise NodeError(
            link.name,
            "more test frames arrive than a listener counts, so it is not known which of ours did: another generator "
            "sends to this node; stop it, then try again",
        )
    return reply.heard


async def close_generator(link: AgentLink) -> None:
    """Disarm the node's generator, whether or not it was prepared."""
    try:
        await link.ask(CloseGenerator())
    except AgentError as exc:
        if exc.code != "not_prepared":
            raise


Heard = dict[int, dict[tuple[str, str], int]]
"""Frames by mark and by the (node, interface) at which they arrived."""


async def _hear(bench: CheckContext, nodes: list[str], ready: list[Cable]) -> Heard:
    """Where frames arrived, as soon as all are where they should be or ARRIVAL_S has passed."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + ARRIVAL_S
    wanted = {(cable.port, cable.source_ip, cable.sink_ip) for cable in ready}
    while True:
        replies = await asyncio.gather(*(read_heard_streams(bench.link(node)) for node in nodes))
        heard: Heard = {}
        for node, reply in zip(nodes, replies, strict=True):
            for row in reply:
                if (row.udp_sink_port, row.source_ip, row.sink_ip) not in wanted:
                    continue
                places = heard.setdefault(row.udp_sink_port, {})
                place = (node, row.interface)
                places[place] = places.get(place, 0) + row.packets
        complete = all(heard.get(cable.port, {}).get(cable.far, 0) >= MARKED_FRAMES for cable in ready)
        if complete or loop.time() > deadline:
            return heard
        await asyncio.sleep(STEP_S)


def _judge(cable: Cable, heard: Heard, refused: str | None) -> CheckFinding:
    near, far = _text(cable.near), _text(cable.far)
    if refused is not None:
        return failed(
            f"{cable.stream}: {near} could not send: {refused}", "look at what the node reports about the interface"
        )
    places = heard.get(cable.port, {})
    arrived = places.get(cable.far, 0)
    values: Values = {
        "stream": cable.stream,
        "from": near,
        "to": far,
        "sent": MARKED_FRAMES,
        "arrived": arrived,
    }
    elsewhere = [_text(place) for place, count in places.items() if place != cable.far and count]
    if arrived == MARKED_FRAMES:
        return passed(f"{cable.stream}: {near} → {far}, {arrived} of {MARKED_FRAMES} marked frames", **values)
    if arrived:
        return failed(
            f"{cable.stream}: {near} → {far}, only {arrived} of {MARKED_FRAMES} marked frames",
            f"the cable between {near} and {far} loses frames: replace it, and look at both ports' error counters",
            **values,
        )
    if elsewhere:
        key = "uut_in" if cable.side == "in" else "sink"
        return failed(
            f"{cable.stream}: frames sent from {near} arrived at {', '.join(elsewhere)}, expected at {far}",
            f"cables are swapped: move the cable to {far}, or give stream {cable.stream} {key}: "
            f"{cable_value(cable, elsewhere[0])} in hosts.yaml",
            **values,
            elsewhere=elsewhere,
        )
    return failed(
        f"{cable.stream}: {MARKED_FRAMES} marked frames sent from {near}, none arrived at {far} or any other data port",
        f"check that the cable from {near} ends at {far}, and whether a switch between them filters",
        **values,
    )


def cable_value(cable: Cable, place: str) -> str:
    """The value in hosts.yaml that matches the present cabling."""
    node, _, interface = place.partition("/")
    return interface if cable.side == "in" and node == cable.far[0] else place
