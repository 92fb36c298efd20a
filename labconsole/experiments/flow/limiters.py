"""Guests held to a rate for as long as a trial lasts, and what their limiters say of it, read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from labconsole.contracts.ports import AgentLink
from labconsole.model.record.flow import LimiterSeen
from labconsole.network.rate_limits import RateLimit
from labconsole.wire.execution import Execute

TOKEN = "flow"
BURST_S = 0.001
"""What may come at once after a rest, but two frames at least: timers that are later than this cost rate."""

QUEUE_S = 0.05
"""How long a frame waits at most."""

LEAST_BURST_BYTES, LEAST_QUEUE_BYTES = 3028, 10 * 1514
KIND = "tbf on ifb"
_MOST = 2**63


def limit_of(host_interface: str, number: int, rate_bps: int) -> RateLimit:
    """The change that limits a guest, counted from 1, behind this interface."""
    return RateLimit(
        interface=host_interface,
        queue=queue_name(number),
        rate_bps=rate_bps,
        burst_bytes=max(LEAST_BURST_BYTES, round(rate_bps / 8 * BURST_S)),
        queue_bytes=max(LEAST_QUEUE_BYTES, round(rate_bps / 8 * QUEUE_S)),
    )


def queue_name(number: int) -> str:
    return f"lcq{number}"


async def read_limiters(uut: AgentLink, queues: Mapping[str, str]) -> dict[str, LimiterSeen]:
    """Guest to what its limiter says, given guest to the interface that it is on. What cannot be read is None."""
    if not queues:
        return {}
    said = await uut.ask(Execute(argv=["tc", "-s", "-j", "qdisc", "show"], timeout_s=10))
    of = _by_interface(said.stdout)
    return {guest: _seen(interface, of.get(interface, {})) for guest, interface in queues.items()}


def _by_interface(text: str) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, list):
        return {}
    return {str(each.get("dev")): each for each in found if isinstance(each, dict) and each.get("kind") == "tbf"}


def _seen(interface: str, said: dict[str, Any]) -> LimiterSeen:
    options = said.get("options")
    told = options if isinstance(options, dict) else {}
    rate = _whole(told.get("rate"))
    return LimiterSeen(
        kind=KIND,
        interface=interface,
        rate_bps=None if rate is None else rate * 8,
        burst_bytes=_whole(told.get("burst")),
        passed_packets=_whole(said.get("packets")),
        dropped_packets=_whole(said.get("drops")),
    )


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _MOST // 8 else None
