"""Guests that receive from outside: the commands for each, and its counts. Pure.

Only the guest itself can count what arrived in it. Its counts are used, its clock is not. A rate is what was read over
the time that the source sent. The reader's own report is not used; the reader only has to take datagrams out of its
socket.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labconsole.experiments.flow.rates import HEADER_BYTES
from labconsole.experiments.flow.record import FlowRequested
from labconsole.experiments.flow.script import FIRST_SOURCE_PORT, SINK_ADDRESS, SINK_PORT
from labconsole.verdict.observations import Snapshot
from labconsole.wire.generator import SentStream
from labconsole.wire.stream_spec import MAX_DELAY_NS, StreamSpec

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
class ReceiveWindow:
    """Observations of one window. ``before`` and ``after``: counters of the UUT and of the source. ``counted``: those
    of each guest at both ends. ``silent``: guests that did not answer, and why.
    """

    sent: Mapping[str, SentStream]
    before: tuple[Snapshot, Snapshot]
    after: tuple[Snapshot, Snapshot]
    counted: Mapping[str, tuple[GuestCounts | None, GuestCounts | None]]
    silent: tuple[tuple[str, str], ...] = ()

    def moved(self, node: int, interface: str | None, statistic: int) -> int | None:
        """Increase of a counter of an interface of the UUT (0) or of the source (1), or None if it was not there all
        the time.
        """
        before, after = (side[node].get(("", interface or "")) for side in (self.before, self.after))
        if before is None or after is None or after.values[statistic] < before.values[statistic]:
            return None
        return after.values[statistic] - before.values[statistic]


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
