"""Guests held to a rate for as long as a trial lasts, and what their limiters say of it, read back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from labconsole.contracts.ports import AgentLink
from labconsole.model.record.flow import LimiterRecord
from labconsole.network.rate_limits import RateLimit
from labconsole.network.xen_rate_limit import XenRateLimit
from labconsole.wire.clean import read_json
from labconsole.wire.execution import Execute

TOKEN = "flow"
BURST_S = 0.001
"""What may come at once after a rest, but two frames at least: timers that are later than this cost rate."""

QUEUE_S = 0.05
"""How long a frame waits at most."""

SOCKET_FRAMES, FULL_PAYLOAD_BYTES = 78, 1024
"""Of a guest that is on the UUT's own kernel: with 92 frames on their way each of its sockets has it wait until one of
them is gone. A queue that holds fewer drops the rest instead, so that it is seen whether the guest wanted more. Of
smaller frames a socket has more.
"""

LEAST_BURST_BYTES, LEAST_QUEUE_BYTES = 3028, 10 * 1514
KIND, CREDIT = "tbf on ifb", "netback credit"
CREDIT_RATIO = 0.1
"""Xen's back end gives up to so much less than its limit: its timer is late by a tick in every interval of 50 ms."""

CREDIT_STEP_BPS = 160
"""A byte in each interval."""

RING_BYTES, SOCKET_BYTES = 256 * 1514, 212_992
"""What waits for credit at most: the ring between guest and back end, and each socket's buffer in the guest."""

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
"""For sh: of each queue of these interfaces a line. The kernel's directory has the name that an interface had when its
back end was connected.
"""

_NICS, _BACK_ENDS = "/sys/class/net", "/sys/kernel/debug/xen-netback"
_QUEUE = re.compile(r"^(\S+) (\d{1,20}), usec: (\d{1,20})\s*$", re.MULTILINE)


def build_rate_limit(
    host_interface: str, number: int, rate_bps: int, most_frames_bytes: int | None = None
) -> RateLimit:
    """The change that limits a guest, counted from 1, behind this interface; its queue holds no more than
    ``most_frames_bytes``.
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
    """The change that limits a guest whose NIC's back end does it."""
    return XenRateLimit(interface=host_interface, rate_bps=rate_bps)


def waits_for_credit(limiter: LimiterRecord | None) -> bool:
    """Whether a guest over its limit has to wait, so that no more comes out of it; else the rest is dropped."""
    return limiter is not None and limiter.kind == CREDIT


def credit_queue_s(rate_bps: int, flows: int) -> float:
    """For how long credit goes on to let through what so many flows of a guest sent, when they have stopped."""
    return (RING_BYTES + flows * SOCKET_BYTES) * 8 / ((1 - CREDIT_RATIO) * rate_bps)


def queue_name(number: int) -> str:
    return f"lcq{number}"


async def read_credit(uut: AgentLink, interfaces: Mapping[str, str]) -> dict[str, LimiterRecord]:
    """Guest to what the back end of its NIC holds it to, by the kernel's own word (debugfs), given guest to interface.

    Every queue of a NIC has the whole credit, so a guest may send their sum. What cannot be read is None, and so is
    what may come at once after a rest, which the kernel does not say.
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
    """Guest to what its limiter says, given guest to the interface that it is on. What cannot be read is None."""
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
    told = options if isinstance(options, dict) else {}
    rate = _whole(told.get("rate"))
    return LimiterRecord(
        kind=KIND,
        interface=interface,
        rate_bps=None if rate is None else rate * 8,
        burst_bytes=_whole(told.get("burst")),
        passed_packets=_whole(said.get("packets")),
        dropped_packets=_whole(said.get("drops")),
    )


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _MOST // 8 else None
