"""What a node's kernel can be asked for beyond counters: why it drops packets, and when each packet came."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from labconsole.contracts.ports import AgentLink
from labconsole.engine.check.context import CheckContext, check
from labconsole.engine.check.result import CheckFinding, passed, skipped, warned
from labconsole.engine.trial.kernel_asking import begin, refusal
from labconsole.engine.trial.setup import TIMED_BY, TrialSettings, stream_to_time
from labconsole.errors import NodeError, NodeLost
from labconsole.wire.kernel_drops import StartKernelDrops, StopKernelDrops
from labconsole.wire.message import Message, Request
from labconsole.wire.packet_times import (
    NATIVE_XDP,
    SOCKET_FILTER,
    StartPacketTimes,
    StopPacketTimes,
    StreamToTime,
    TimedPackets,
    TimedPort,
)

ANSWER_S, LINK_ANSWER_S = 2.5, 6.0
"""Of each of three requests: a check has ten seconds. The second where a link has to come back."""


@check("kernel.drop_reasons", "reasons for drops", roles=("uut", "host"))
async def drop_reasons(bench: CheckContext, node: str) -> CheckFinding:
    """Whether the kernel of the unit under test, and of its host, says why it drops packets."""
    asked = StartKernelDrops(sinks=[stream.sink_ip for stream in bench.streams()], budget_ns=None, look_every_s=None)
    wanted = TrialSettings.of(bench.inventory, bench.plan).drop_reasons
    return await _asked(bench.link(node), asked, StopKernelDrops(), "drop_reasons", wanted)


@check("kernel.packet_times", "times of packets", roles=("sink",))
async def packet_times(bench: CheckContext, node: str) -> CheckFinding:
    """Whether a sink's kernel times every packet."""
    ports: dict[str, list[StreamToTime]] = {}
    for index, stream in enumerate(bench.streams()):
        if stream.sink.node == node:
            ports.setdefault(stream.sink.interface, []).append(stream_to_time(stream, index))
    if not ports:
        return skipped("none of the streams under check ends here")
    wanted = TrialSettings.of(bench.inventory, bench.plan).packet_times
    by = TIMED_BY.get(wanted, SOCKET_FILTER)
    asked = StartPacketTimes(ports=[TimedPort(interface=name, streams=own) for name, own in ports.items()], by=by)
    answer_s = LINK_ANSWER_S if by == NATIVE_XDP else ANSWER_S
    return await _asked(bench.link(node), asked, StopPacketTimes(), "packet_times", wanted, answer_s)


async def _asked(
    link: AgentLink, start: Request[Any], stop: Request[Any], setting: str, wanted: str, answer_s: float = ANSWER_S
) -> CheckFinding:
    """Begin and end at once, within the check's own time."""
    told: Message | None = None
    try:
        try:
            started = await begin(link, start, stop, timeout_s=answer_s)
        finally:
            with suppress(NodeError):
                told = await link.ask(stop, timeout_s=ANSWER_S)
    except NodeLost:
        raise
    except NodeError as exc:
        code, message = refusal(exc)
        if wanted == "off":
            return passed(f"not to be had, and not asked for ({setting}: off): {message}", refused=code)
        hint = "log in as root" if code == "no_permission" else "boot another kernel"
        if wanted.startswith("xdp-"):
            hint = f"{hint}, or " if code == "no_permission" else ""
            return warned(f"not to be had: {message}", f"{hint}set {setting}: on, which changes nothing", refused=code)
        return warned(f"not to be had: {message}", f"{hint}, or leave {setting} off", refused=code)
    taken = getattr(started, "memory_bytes", None)
    memory = "" if taken is None else f", {taken / 1e6:.1f} MB of the kernel's memory while it counts"
    return passed(f"to be had ({setting}: {wanted}){memory}{_changes(told)}")


def _changes(told: Message | None) -> str:
    """What an XDP program changed at the ports meanwhile."""
    words = ""
    for port in told.ports if isinstance(told, TimedPackets) else ():
        if port.xdp is not None:
            changed = list(port.xdp.features)
            if port.xdp.link_changes:
                changed.append(f"{port.xdp.link_changes} changes of its link")
            words += f"; at {port.interface} it brings {', '.join(changed) or 'no change'}"
            if port.xdp.left_features:
                words += f", and could not put back {', '.join(port.xdp.left_features)}"
    return words
