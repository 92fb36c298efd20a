"""Rate limits of guests for the length of a trial, and their limiters' settings and counts, read back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from labconsole.contracts.ports import AgentLink
from labconsole.experiments.flow.record import LimiterRecord
from labconsole.network.traffic_control import RateLimit
from labconsole.network.xen_rate_limit import XenRateLimit
from labconsole.wire.clean import read_json
from labconsole.wire.execution import Execute

TOKEN = "flow"
BURST_S = 0.001
"""Burst after a pause, in seconds at the limit, but at least two frames. Timers that are later than this cost rate."""

QUEUE_S = 0.05
"""Longest wait of a frame in the queue."""

SOCKET_FRAMES, FULL_PAYLOAD_BYTES = 78, 1024
"""Queue bound in frames for a guest on the UUT's own kernel, and the least payload for which it applies. Each of the
guest's sockets waits once 92 frames are on their way. A shorter queue drops the excess instead, which shows whether the
guest wanted more. Smaller frames give a socket more than 92.
"""

LEAST_BURST_BYTES, LEAST_QUEUE_BYTES = 3028, 10 * 1514
KIND, CREDIT = "tbf on ifb", "netback credit"
CREDIT_RATIO = 0.1
"""Largest part of its limit that Xen's back end leaves unused: its timer is a tick late in every interval of 50 ms."""

CREDIT_STEP_BPS = 160
"""One byte in each interval."""

RING_BYTES, SOCKET_BYTES = 256 * 1514, 212_992
"""Most bytes that wait for credit: in the ring between guest and back end, and in each socket's buffer in the guest."""

_MOST = 2**63

READ_CREDIT = """
nics=$1 back_ends=$2
shift 2
for interface; do
    node=$(cat "$nics/$interface/device/nodename") || continue
    node=${node#backend/vif/}
    for name in "$interface" "vif${node%/*}.${node#*/}"; do
        cat "$back_ends/$name"/io_ring_q* 2>/dev/null | sed -n "s|^Credit .*credit:|$interface|p"
        [ "$name" = "vif${node%/*}.${node#*/}" ] && break
    done
done
"""
"""Shell script that prints a line for each queue of these interfaces. The kernel's directory has the name that an
interface had when its back end was connected.
"""

_NICS, _BACK_ENDS = "/sys/class/net", "/sys/kernel/debug/xen-netback"
_QUEUE = re.compile(r"^(\S+) (\d{1,20}), usec: (\d{1,20})\s*$", re.MULTILINE)


def build_rate_limit(
    host_interface: str, number: int, rate_bps: int, most_frames_bytes: int | None = None
) -> RateLimit:
    """The change that limits a guest, numbered from 1, behind this interface. ``most_frames_bytes``: upper bound of its
    queue, if any.
    """
    queue_bytes = round(rate_bps / 8 * QUEUE_S)
    if most_frames_bytes is not None:
        queue_bytes = min(queue_bytes, most_frames_bytes)
    return RateLimit(
        interface=host_interface,
        queue=queue_name(number),
        rate_bps=rate_bps,
        burst_bytes=max(LEAST_BURST_BYTES, round(rate_bps / 8 * BURST_S)),
        queue_bytes=max(LEAST_QUEUE_BYTES, queue_bytes),
    )


def build_credit(host_interface: str, rate_bps: int) -> XenRateLimit:
    """The change that limits a guest through its NIC's back end."""
    return XenRateLimit(interface=host_interface, rate_bps=rate_bps)


def waits_for_credit(limiter: LimiterRecord | None) -> bool:
    """Whether a guest over its limit has to wait, so that it sends no more; otherwise the excess is dropped."""
    return limiter is not None and limiter.kind == CREDIT


def credit_queue_s(rate_bps: int, flows: int) -> float:
    """Time for which credit still lets through the backlog of a guest's flows after they stop."""
    return (RING_BYTES + flows * SOCKET_BYTES) * 8 / ((1 - CREDIT_RATIO) * rate_bps)


def queue_name(number: int) -> str:
    return f"lcq{number}"


async def read_credit(uut: AgentLink, interfaces: Mapping[str, str]) -> dict[str, LimiterRecord]:
    """Read the limit of each guest's NIC back end from the kernel (debugfs), given guest to interface.

    Every queue of a NIC has the whole credit, so a guest may send their sum. What cannot be read is None. So is the
    burst, which the kernel does not report.
    """
    if not interfaces:
        return {}
    said = await uut.ask(
        Execute(argv=["sh", "-c", READ_CREDIT, "sh", _NICS, _BACK_ENDS, *interfaces.values()], timeout_s=10)
    )
    queues: dict[str, list[tuple[int, int]]] = {}
    for interface, credit_bytes, every_us in _QUEUE.findall(said.stdout):
        queues.setdefault(interface, []).append((int(credit_bytes), int(every_us)))
    return {guest: _credit(interface, queues.get(interface, [])) for guest, interface in interfaces.items()}


def _credit(interface: str, queues: list[tuple[int, int]]) -> LimiterRecord:
    limited = bool(queues) and all(every_us and credit * 8_000_000 < _MOST for credit, every_us in queues)
    return LimiterRecord(
        kind=CREDIT,
        interface=interface,
        rate_bps=sum(credit * 8_000_000 // every_us for credit, every_us in queues) if limited else None,
        burst_bytes=None,
        passed_packets=None,
        dropped_packets=None,
    )


async def read_limiters(uut: AgentLink, queues: Mapping[str, str]) -> dict[str, LimiterRecord]:
    """Read each guest's limiter, given guest to the interface that it is on. What cannot be read is None."""
    if not queues:
        return {}
    said = await uut.ask(Execute(argv=["tc", "-s", "-j", "qdisc", "show"], timeout_s=10))
    of = _index_by_interface(said.stdout)
    return {guest: _build_limiter(interface, of.get(interface, {})) for guest, interface in queues.items()}


def _index_by_interface(text: str) -> dict[str, dict[str, Any]]:
    try:
        found = read_json(text)
    except ValueError:
        return {}
    if not isinstance(found, list):
        return {}
    return {str(each.get("dev")): each for each in found if isinstance(each, dict) and each.get("kind") == "tbf"}


def _build_limiter(interface: str, said: dict[str, Any]) -> LimiterRecord:
    options = said.get("options")
    settings = options if isinstance(options, dict) else {}
    rate = _whole(settings.get("rate"))
    return LimiterRecord(
        kind=KIND,
        interface=interface,
        rate_bps=None if rate is None else rate * 8,
        burst_bytes=_whole(settings.get("burst")),
        passed_packets=_whole(said.get("packets")),
        dropped_packets=_whole(said.get("drops")),
    )


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _MOST // 8 else None
