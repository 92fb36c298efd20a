"""Guests that receive from outside: their commands and counts, one attempt, and its results."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

from labconsole.contracts.crew import StandingCrew
from labconsole.contracts.experiment import Bench
from labconsole.contracts.ports import AgentLink
from labconsole.engine.crew_measurement import run_cancellable
from labconsole.engine.crew_sink import RX, TX, CountedWindow
from labconsole.engine.crew_stage import NETWORK
from labconsole.engine.trial.traffic import START_LEAD_S
from labconsole.errors import MeasurementError, NodeError
from labconsole.experiments.flow.base import FlowMeasurement, FlowObservation
from labconsole.experiments.flow.live_view import INTO, SendingWatch
from labconsole.experiments.flow.plan import FlowFactors, FlowPoint
from labconsole.experiments.flow.rates import HEADER_BYTES
from labconsole.experiments.flow.record import FlowRequested, HopLoss, ReceiverRecord, SourceRecord
from labconsole.experiments.flow.script import FIRST_SOURCE_PORT, SINK_ADDRESS, SINK_PORT
from labconsole.model.generator import generator_options
from labconsole.verdict.observations import Snapshot, parse_snapshot
from labconsole.verdict.reasons import reason
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import ReadCounters
from labconsole.wire.generator import CloseGenerator, PrepareGenerator, SentStream, StartGenerator, WaitForGenerator
from labconsole.wire.links import ReadLinks
from labconsole.wire.stream_spec import MAX_DELAY_NS, StreamSpec

# -- commands and counts -----------------------------------------------------------------------------------------------
# Only the guest itself can count what arrived in it. Its counts are used, its clock is not. A rate is what was read
# over the time that the source sent. The reader's own report is not used; the reader only has to take datagrams out of
# its socket.

FAR_ADDRESS = SINK_ADDRESS
"""Source address of the datagrams. No node has it, so what a guest sends to it gets no answer."""

TAUGHT_EVERY_S = 50
"""Interval of a guest's pings to FAR_ADDRESS. A bridge forgets after 300 s behind which port a guest is, and then
floods its frames.
"""

LONGER_S = 180.0
"""Time that the reader may run beyond the sending time: it starts earlier, and reads until nothing more arrives."""

READ_LINE = "cat /proc/net/route /proc/net/dev /proc/net/snmp /proc/net/udp"
LISTEN_TRIES, LISTEN_NAP_S = 50, 0.1
SLACK_RATIO, SLACK_S = 0.02, 0.05
"""Excess over the requested time that the source may take for its count before it is stopped by time."""

_ROUTE = re.compile(r"^(\S{1,15})\t([0-9A-F]{8})\t", re.MULTILINE)
_DEVICE = re.compile(r"^ *(\S{1,15}): *\d{1,20} +(\d{1,18}) ", re.MULTILINE)
_DEVICES_FROM = "Inter-|"
_TABLE = re.compile(r"^(Ip|Udp): ([A-Za-z].*)\n\1: ([-\d ]+)$", re.MULTILINE)
_READERS = re.compile(r"^ *\d{1,9}: ([0-9A-F]{8}):([0-9A-F]{4}) ", re.MULTILINE)
_READER = re.compile(r"^LCREADER (\d{1,10}) (\d{1,10})$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivingGuest:
    """One guest. ``own_stack``: it has a network stack of its own, and not the UUT's."""

    name: str
    address: str
    mac: str
    host_interface: str | None
    own_stack: bool

    def begin_line(self, source_mac: str, duration_s: float) -> str:
        """Command that starts the reader and waits until it listens. It also gives a guest with its own stack the MAC
        address of FAR_ADDRESS and pings that at intervals. Reader and ping end by themselves if end_line() never runs.
        """
        most_s = math.ceil(duration_s + LONGER_S)
        teach = (
            f"busybox arp -s {FAR_ADDRESS} {source_mac}; "
            f"busybox ping -w {most_s} -i {TAUGHT_EVERY_S} {FAR_ADDRESS} >/dev/null 2>&1 & h=$!; "
        )
        listens = f"grep -q '{_little_endian(self.address)}:{SINK_PORT:04X} ' /proc/net/udp"
        return (
            f"h=0; {teach if self.own_stack else ''}"
            f"busybox timeout -s KILL {most_s} iperf -s -u -p {SINK_PORT} -B {self.address} >/dev/null 2>&1 & r=$!; "
            "i=0; "
            f"while [ $i -lt {LISTEN_TRIES} ] && ! {listens}; do sleep {LISTEN_NAP_S:g}; i=$((i+1)); done; "
            'echo "LCREADER $r $h"'
        )

    def end_line(self, processes: Sequence[int]) -> str:
        """Command that ends what begin_line() started."""
        forget = f"busybox arp -d {FAR_ADDRESS} >/dev/null 2>&1; " if self.own_stack else ""
        return f"{forget}kill -KILL {' '.join(map(str, processes))} 2>/dev/null; :"


def parse_processes(printed: str) -> list[int]:
    """Ids of the processes that begin_line() started, from its output; empty if that cannot be read."""
    found = _READER.search(printed.replace("\r", ""))
    return [] if found is None else [int(each) for each in found.groups() if int(each) > 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestCounts:
    """Counts of a guest since its start, each None if the guest does not report it. ``others``: packets in at all its
    other interfaces. ``reader``: whether its reader's socket exists.
    """

    nic: int | None
    others: int | None
    ip: int | None
    udp: int | None
    socket_full: int | None
    no_reader: int | None
    errors: int | None
    reader: bool


def read_counts(printed: str, address: str, network: str) -> GuestCounts:
    """Parse the output of READ_LINE. ``network``: address of the network that the guest's NIC is in."""
    text = printed.replace("\r", "")
    wanted, own = _little_endian(network), _little_endian(address)
    nic = next((device for device, to in _ROUTE.findall(text) if to == wanted), None)
    between = text.partition(_DEVICES_FROM)[2].partition("\nIp:")[0]
    devices = {device: int(packets) for device, packets in _DEVICE.findall(between)}
    tables: dict[str, dict[str, int]] = {}
    for table, names, values in _TABLE.findall(text):
        numbers = [int(each) for each in values.split() if re.fullmatch(r"-?\d{1,18}", each)]
        if len(numbers) == len(names.split()):
            tables[table] = {name: value for name, value in zip(names.split(), numbers, strict=True) if value >= 0}
    ip, udp = tables.get("Ip", {}), tables.get("Udp", {})
    return GuestCounts(
        nic=None if nic is None else devices.get(nic),
        others=None if nic is None else sum(packets for device, packets in devices.items() if device != nic),
        ip=ip.get("InDelivers"),
        udp=udp.get("InDatagrams"),
        socket_full=udp.get("RcvbufErrors"),
        no_reader=udp.get("NoPorts"),
        errors=udp.get("InErrors"),
        reader=any((own, f"{SINK_PORT:04X}") == found for found in _READERS.findall(text)),
    )


def _little_endian(address: str) -> str:
    """The address as in the kernel's tables on a little-endian machine; all guests run on these."""
    return "".join(f"{int(part):02X}" for part in reversed(address.split(".")))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveWindow(CountedWindow):
    """Observations of one window; the node outside is the source. ``counted``: counts of each guest at both ends.
    ``silent``: guests that did not answer, and why.
    """

    sent: Mapping[str, SentStream]
    counted: Mapping[str, tuple[GuestCounts | None, GuestCounts | None]]
    silent: tuple[tuple[str, str], ...] = ()


def build_stream(
    guest: ReceivingGuest,
    number: int,
    requested: FlowRequested,
    interface: str,
    generator: str,
    cpus: Sequence[int] | None,
    options: str | None = None,
) -> StreamSpec:
    """The source's stream to a guest, numbered from 0. Raises ValueError if the rate is below the source's lowest."""
    delay_ns = max(1, round(8e9 * requested.payload_bytes / requested.offered_bps))
    if delay_ns > MAX_DELAY_NS:
        raise ValueError(f"{requested.offered_bps} bit/s are less than a datagram in {MAX_DELAY_NS / 1e9:.0f} s")
    count = max(1, round(requested.duration_s * 1e9 / delay_ns))
    return StreamSpec(
        stream=guest.name,
        interface=interface,
        generator=generator,
        destination_mac=guest.mac,
        source_ip=FAR_ADDRESS,
        sink_ip=guest.address,
        udp_source_port=FIRST_SOURCE_PORT + number,
        udp_sink_port=SINK_PORT,
        pkt_size_bytes=requested.payload_bytes + HEADER_BYTES,
        delay_ns=delay_ns,
        count=count,
        duration_s=requested.duration_s * (1 + SLACK_RATIO) + SLACK_S,
        max_count=2 * count,
        cpus=list(cpus) if cpus else None,
        options=options,
    )


# -- results -----------------------------------------------------------------------------------------------------------
# Results of guests that receive: what each was sent and read, and at which place the rest was lost. Pure.
TX_DROPPED = STAT_NAMES.index("tx_dropped")


def build_receiver(guest: ReceivingGuest, window: ReceiveWindow, payload_bytes: int) -> ReceiverRecord:
    """Build the record of one guest."""
    sent = window.sent.get(guest.name)
    before, after = window.counted.get(guest.name, (None, None))

    def difference(name: str) -> int | None:
        first, last = (None if side is None else getattr(side, name) for side in (before, after))
        return None if first is None or last is None or last < first else int(last - first)

    sent_packets = None if sent is None else sent.sent_packets
    sent_s = None if sent is None or not sent.elapsed_ns else sent.elapsed_ns / 1e9
    handed = window.count(0, guest.host_interface, TX)
    nic, read, full = difference("nic"), difference("udp"), difference("socket_full")
    no_reader, errors = difference("no_reader"), difference("errors")
    # If another NIC of the guest received too, its IP layer counted more than our packets.
    ip = difference("ip") if difference("others") == 0 else None
    other_errors = None if errors is None or full is None else errors - full
    losses, unplaced = ledger(sent_packets, handed, nic, ip, read, full, no_reader, other_errors)
    return ReceiverRecord(
        guest=guest.name,
        address=guest.address,
        mac=guest.mac,
        host_interface=guest.host_interface,
        sent_packets=sent_packets,
        started_ns=None if sent is None else sent.started_monotonic_ns,
        sent_s=sent_s,
        stopped_by="" if sent is None else sent.stopped_by,
        errors=None if sent is None else sent.errors,
        output="" if sent is None else sent.error_text or "",
        offered_bps=rate_bps(sent_packets, sent_s, payload_bytes),
        handed_packets=handed,
        dropped_packets=window.count(0, guest.host_interface, TX_DROPPED),
        nic_packets=nic,
        ip_packets=ip,
        udp_packets=read,
        socket_full_packets=full,
        no_reader_packets=no_reader,
        error_packets=other_errors,
        reader=None if before is None or after is None else before.reader and after.reader,
        lost_packets=None if sent_packets is None or read is None else sent_packets - read,
        losses=losses,
        unplaced_packets=unplaced,
        payload_bps=rate_bps(read, sent_s, payload_bytes),
    )


def rate_bps(packets: int | None, sent_s: float | None, payload_bytes: int) -> float | None:
    """Payload rate of these packets over the time that the source sent, in bit/s."""
    return None if packets is None or not sent_s else packets * payload_bytes * 8 / sent_s


def ledger(
    sent: int | None,
    handed: int | None,
    nic: int | None,
    ip: int | None,
    read: int | None,
    full: int | None,
    no_reader: int | None,
    errors: int | None,
) -> tuple[tuple[HopLoss, ...], int | None]:
    """The packets lost at each place between two counts, and the lost packets that are at none of them.

    ``guest_unread``: packets that the guest's IP layer delivered and that its UDP layer neither gave to the reader nor
    refused. They wait in a socket.
    """
    found: list[HopLoss] = []
    former = sent
    for hop, count in (("to_guest", handed), ("guest_nic", nic), ("guest_udp", ip)):
        if count is None:
            continue
        if former is not None:
            found.append(HopLoss(hop=hop, packets=former - count))
        former = count
    refused = {"guest_no_reader": no_reader, "guest_socket_full": full, "guest_errors": errors}
    found += [HopLoss(hop=hop, packets=count) for hop, count in refused.items() if count is not None]
    if ip is not None and None not in (read, full, no_reader, errors):
        found.append(
            HopLoss(hop="guest_unread", packets=ip - sum(each or 0 for each in (read, full, no_reader, errors)))
        )
    if sent is None or read is None:
        return tuple(found), None
    return tuple(found), sent - read - sum(each.packets for each in found)


def lost_packets(receivers: Sequence[ReceiverRecord]) -> dict[str, tuple[int, int]]:
    """Packets lost at each place, and ``unplaced``, each with the number sent to all guests. Omits a place if a count
    of one guest is not known.
    """
    sent = [each.sent_packets for each in receivers]
    total = 0 if None in sent else sum(each or 0 for each in sent)
    places: list[dict[str, int | None]] = [
        {**{loss.hop: loss.packets for loss in each.losses}, "unplaced": each.unplaced_packets} for each in receivers
    ]
    found: dict[str, tuple[int, int]] = {}
    for place in dict.fromkeys(place for each in places for place in each):
        counts = [each.get(place) for each in places]
        if total and None not in counts:
            found[place] = sum(each or 0 for each in counts), total
    return found


def build_source(
    node: str, interface: str, mac: str, uut_interface: str, window: ReceiveWindow, generator: str
) -> SourceRecord:
    """Build the record of everything that left the source and that arrived at the UUT, of any kind."""
    return SourceRecord(
        node=node,
        interface=interface,
        mac=mac,
        address=FAR_ADDRESS,
        generator=generator,
        nic_packets=window.count(1, interface, TX),
        uut_interface=uut_interface,
        uut_packets=window.count(0, uut_interface, RX),
    )


# -- one attempt -------------------------------------------------------------------------------------------------------
# One attempt of guests that receive: readers in all of them, and their counts before and after the source's frames.

OVERDUE_S = 15.0
"""Time to wait for the source beyond its sending time."""

MOST_DRAIN_S = 10.0
"""Longest time that a guest may read on after the last packet was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveObservation(FlowObservation):
    """The observations of one attempt. ``generator``: the source's; ``source_mac``: of the source's NIC."""

    guests: tuple[ReceivingGuest, ...]
    window: ReceiveWindow
    source_mac: str
    generator: str


@dataclass(slots=True)
class _Reading:
    """State of the readers. ``processes``: those started in each guest. ``silent``: guests that did not answer, and
    why.
    """

    processes: dict[str, list[int]] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)


class ReceiveMeasurement(FlowMeasurement):
    """One attempt with a crew that shares the UUT's NIC towards the source."""

    def __init__(
        self,
        point: FlowPoint,
        factors: FlowFactors,
        requested: FlowRequested,
        generator: str,
        bench: Bench,
        crew: StandingCrew,
    ) -> None:
        super().__init__(point, factors, bench, crew)
        self._requested, self._generator = requested, generator
        self._source = bench.stage.source
        self._reading = _Reading()

    async def take(self) -> ReceiveObservation:
        """Start the readers, run the window, attest the guests afterwards.

        Raises MeasurementError if the platform or the source cannot do this, NodeError, and Aborted when it is stopped.
        """
        crew, source = self._crew, self._source
        guests, source_mac = self._guests(), await self._source_mac()
        nodes = {crew.uut: [crew.stream.uut_in], source: [crew.stream.source.interface]}
        window = await self._run_window(guests, nodes, (), lambda: self._send(guests, source_mac))
        hosts = [(crew.uut.name, each.host_interface) for each in guests if each.host_interface is not None]
        return ReceiveObservation(
            attempt=self._attempt,
            ports=((crew.uut.name, crew.stream.uut_in), (source.name, crew.stream.source.interface), *hosts),
            guests=tuple(guests),
            window=window,
            source_mac=source_mac,
            generator=self._generator,
        )

    def _guests(self) -> list[ReceivingGuest]:
        crew = self._crew.crew
        return [
            ReceivingGuest(
                **self._known(member),
                host_interface=self._standing[member.name].host_interface,
                own_stack=crew.own_stacks,
            )
            for member in self._crew.members
        ]

    async def _source_mac(self) -> str:
        interface = self._crew.stream.source.interface
        links = {link.name: link.mac for link in (await self._source.ask(ReadLinks())).links if not link.namespace}
        if not (mac := links.get(interface)):
            raise NodeError(self._source.name, f"does not say the MAC address of {interface}")
        return mac.lower()

    async def _send(self, guests: Sequence[ReceivingGuest], source_mac: str) -> ReceiveWindow:
        async with self._readers(guests, source_mac), self._armed(guests):
            counted = await self._counted(guests)
            before = await self._counters()
            many = (
                f"{len(guests)} guest{'s are' if len(guests) > 1 else ' is'} sent to for {self._factors.duration_s:g} s"
            )
            with self._show_progress(many, guests, SendingWatch(await self._indices(guests, {}), INTO)):
                sent = await run_cancellable(self._bench.stage, self._sent())
            after, counted_after = await self._read_drained_counters(guests)
        for side, snapshots in ((self._seen.before, before), (self._seen.after, after)):
            side.update(zip((self._crew.uut.name, self._source.name), snapshots, strict=True))
        return ReceiveWindow(
            sent=sent,
            before=before,
            after=after,
            counted={guest.name: (counted.get(guest.name), counted_after.get(guest.name)) for guest in guests},
            silent=tuple(self._reading.silent.items()),
        )

    # In the guests

    async def _ask(self, guest: ReceivingGuest, line: str) -> str | None:
        """The guest's output, or None if it does not answer; the reason is kept. Raises NodeLost."""
        try:
            return await self._standing[guest.name].ask(self._crew.uut, line)
        except NodeError as exc:
            if exc.failure == "node_lost":
                raise
            self._reading.silent.setdefault(guest.name, exc.message)
            return None

    @asynccontextmanager
    async def _readers(self, guests: Sequence[ReceivingGuest], source_mac: str) -> AsyncIterator[None]:
        """Run a reader in each guest during the block."""

        async def begin(guest: ReceivingGuest) -> None:
            said = await self._ask(guest, guest.begin_line(source_mac, self._factors.duration_s))
            self._reading.processes[guest.name] = parse_processes(said or "")

        async def end(guest: ReceivingGuest) -> None:
            if processes := self._reading.processes.get(guest.name):
                await self._standing[guest.name].ask(self._crew.uut, guest.end_line(processes))

        begun = asyncio.gather(*map(begin, guests), return_exceptions=True)
        try:
            for outcome in await asyncio.shield(begun):
                if isinstance(outcome, BaseException):
                    raise outcome
            yield
        finally:
            with suppress(asyncio.CancelledError):
                await begun
            # In a guest that does not answer any more, the reader ends with the guest.
            await asyncio.gather(*map(end, guests), return_exceptions=True)

    async def _counted(self, guests: Sequence[ReceivingGuest]) -> dict[str, GuestCounts]:
        said = await asyncio.gather(*(self._ask(guest, READ_LINE) for guest in guests))
        network = str(NETWORK.network_address)
        return {
            guest.name: read_counts(each, guest.address, network)
            for guest, each in zip(guests, said, strict=True)
            if each is not None
        }

    async def _read_drained_counters(
        self, guests: Sequence[ReceivingGuest]
    ) -> tuple[tuple[Snapshot, Snapshot], Mapping[str, GuestCounts]]:
        """Read all counters once no guest counts any more. Packets on the way, or waiting to be read, are not lost."""
        drain_s = self._bench.inventory.defaults.drain_s
        found = await self._counted(guests)
        for _ in range(max(1, round(MOST_DRAIN_S / drain_s))):
            await asyncio.sleep(drain_s)
            former, found = found, await self._counted(guests)
            if _own(found) == _own(former):
                break
        else:
            self._seen.doubts.append(reason("not_drained", f"guests still counted {MOST_DRAIN_S:g} s after the last"))
        return await self._counters(), found

    # At the source

    @asynccontextmanager
    async def _armed(self, guests: Sequence[ReceivingGuest]) -> AsyncIterator[None]:
        """Prepare the source for its streams to the guests."""
        interface = self._crew.stream.source.interface
        inventory = self._bench.inventory
        cpus = inventory.nodes[self._source.name].generator_cpus
        options = generator_options(self._generator, inventory.generators)
        try:
            specs = [
                build_stream(guest, number, self._requested, interface, self._generator, cpus, options)
                for number, guest in enumerate(guests)
            ]
        except ValueError as exc:
            raise MeasurementError(f"{self._source.name} cannot send so little: {exc}") from None
        try:
            prepared = await self._source.ask(PrepareGenerator(streams=specs))
            self._generator = prepared.streams[0].generator if prepared.streams else self._generator
            yield
        finally:
            with suppress(NodeError):
                await self._source.ask(CloseGenerator())

    async def _sent(self) -> dict[str, SentStream]:
        """Start all streams together, and return what the source reports."""
        source = self._source
        at_ns = time.monotonic_ns() + round((START_LEAD_S + source.round_trip_s) * 1e9) + source.monotonic_offset_ns
        await source.ask(StartGenerator(at_monotonic_ns=at_ns))
        said = await source.ask(WaitForGenerator(), timeout_s=self._factors.duration_s * 1.1 + OVERDUE_S)
        return {each.stream: each for each in said.streams}

    async def _counters(self) -> tuple[Snapshot, Snapshot]:
        """Counters of the UUT and of the source."""
        nodes: tuple[AgentLink, ...] = (self._crew.uut, self._source)
        uut, source = map(parse_snapshot, await asyncio.gather(*(node.ask(ReadCounters()) for node in nodes)))
        return uut, source


def _own(counted: Mapping[str, GuestCounts]) -> Mapping[str, GuestCounts]:
    """The counts without those of the guests' other NICs, which may count this very request."""
    return {guest: replace(each, others=None) for guest, each in counted.items()}
