"""What a node's kernel can be asked for beyond counters: why it drops packets, and when each packet came."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from labconsole.contracts.ports import AgentLink
from labconsole.engine.check.context import CheckContext, check
from labconsole.engine.check.result import CheckFinding, passed, skipped, warned
from labconsole.engine.trial.kernel_asking import begin, refusal
from labconsole.engine.trial.setup import TrialSettings, stream_to_time
from labconsole.errors import NodeError, NodeLost
from labconsole.wire.kernel_drops import StartKernelDrops, StopKernelDrops
from labconsole.wire.message import Request
from labconsole.wire.packet_times import StartPacketTimes, StopPacketTimes, StreamToTime, TimedPort

ANSWER_S = 2.5
"""Of each of three requests: a check has ten seconds."""


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
    asked = StartPacketTimes(ports=[TimedPort(interface=name, streams=own) for name, own in ports.items()])
    wanted = "on" if TrialSettings.of(bench.inventory, bench.plan).packet_times else "off"
    return await _asked(bench.link(node), asked, StopPacketTimes(), "packet_times", wanted)


async def _asked(link: AgentLink, start: Request[Any], stop: Request[Any], setting: str, wanted: str) -> CheckFinding:
    """Begin and end at once, within the check's own time."""
    try:
        try:
            started = await begin(link, start, stop, timeout_s=ANSWER_S)
        finally:
            with suppress(NodeError):
                await link.ask(stop, timeout_s=ANSWER_S)
    except NodeLost:
        raise
    except NodeError as exc:
        code, message = refusal(exc)
        if wanted == "off":
            return passed(f"not to be had, and not asked for ({setting}: off): {message}", refused=code)
        hint = "log in as root" if code == "no_permission" else "boot another kernel"
        return warned(f"not to be had: {message}", f"{hint}, or leave {setting} off", refused=code)
    taken = getattr(started, "memory_bytes", None)
    memory = "" if taken is None else f", {taken / 1e6:.1f} MB of the kernel's memory while it counts"
    return passed(f"to be had ({setting}: {wanted}){memory}")
