"""Programs and kernel features that a node needs for its role, and optional services of its kernel."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from labconsole.contracts.ports import AgentLink
from labconsole.engine.check.context import CheckContext, Wave, check
from labconsole.engine.check.result import CheckFinding, CheckStatus, failed, passed, skipped, warned
from labconsole.engine.trial.kernel_probes import begin_probe, parse_refusal
from labconsole.engine.trial.setup import TIMED_BY, TrialSettings, stream_to_time
from labconsole.errors import NodeError, NodeLost
from labconsole.model.generator import load_generator
from labconsole.model.generator_names import BUILT_IN
from labconsole.plugins import PluginError
from labconsole.wire.kernel_drops import StartKernelDrops, StopKernelDrops
from labconsole.wire.message import Message, Request
from labconsole.wire.packet_times import (
    LINK_S,
    NATIVE_XDP,
    SOCKET_FILTER,
    StartPacketTimes,
    StopPacketTimes,
    StreamToTime,
    TimedPackets,
    TimedPort,
)
from labconsole.wire.survey import TakeSurvey

# -- tools -------------------------------------------------------------------------------------------------------------
# Programs and kernel features that a node needs for its role.


@check("tools.capture", "tcpdump", roles=("sink",))
async def capture(bench: CheckContext, node: str) -> CheckFinding:
    """A sink captures with tcpdump."""
    version = (await bench.facts(node)).tcpdump
    if version is None:
        return failed("tcpdump is not installed", f"install it on {node}: apt install tcpdump")
    return passed(f"version {version}", tcpdump=version)


@check("tools.generator", "generator", roles=("source",))
async def generator(bench: CheckContext, node: str) -> CheckFinding:
    """The generator with which a source will send."""
    facts = await bench.facts(node)
    wanted = (bench.plan.generator if bench.plan is not None else None) or bench.inventory.defaults.generator
    if wanted not in BUILT_IN:
        return await _check_plugin(bench, node, wanted)
    version, loadable = facts.pktgen, facts.pktgen_loadable
    if version is not None or loadable:
        text = f"pktgen {version}" if version is not None else "pktgen can be loaded"
        return passed(f"{text}; requested: {wanted}", generator="afpacket" if wanted == "afpacket" else "pktgen")
    if wanted == "pktgen":
        return failed(
            f"the kernel {facts.kernel} has no pktgen, and generator: pktgen is requested",
            "boot a kernel with CONFIG_NET_PKTGEN, or let `generator: auto` fall back to afpacket",
        )
    if wanted == "afpacket" or bench.inventory.emulated:
        return passed(f"afpacket (requested: {wanted}); no pktgen in this kernel", generator="afpacket")
    return warned(
        "no pktgen in this kernel: afpacket will be used, which is slower and less regular",
        "boot a kernel with CONFIG_NET_PKTGEN, as distributions build it",
        generator="afpacket",
    )


async def _check_plugin(bench: CheckContext, node: str, wanted: str) -> CheckFinding:
    """A plug-in generator: whether it can be shipped, and whether the node has the programs it runs."""
    try:
        plugin = load_generator(wanted)
    except PluginError as exc:
        return failed(str(exc), f"repair or uninstall it, or choose another generator: {', '.join(BUILT_IN)}")
    needed = list(plugin.about.programs)
    found = (await bench.read(node, TakeSurvey(tools=needed, guests=[]))).tools if needed else {}
    missing = [tool for tool in needed if found.get(tool) is None]
    if missing:
        return failed(f"no {', '.join(missing)} (for generator {wanted})", f"install {', '.join(missing)} on {node}")
    needs = f"; needs {plugin.about.needs}" if plugin.about.needs else ""
    return passed(f"{wanted}, a plug-in: {plugin.about.summary}{needs}", generator=wanted, sha256=plugin.sha256)


@check("tools.platform", "platform tools", roles=("uut",))
async def platform(bench: CheckContext, node: str) -> CheckFinding:
    """Programs that the platforms under check run on the UUT."""
    needed = bench.tools()
    if not needed:
        return passed(f"{', '.join(bench.platforms())}: only the kernel is needed")
    found = (await bench.survey(node)).tools
    missing = [tool for tool in needed if found.get(tool) is None]
    if missing:
        missing_programs = ", ".join(f"no {tool} (for {needed[tool]})" for tool in missing)
        return failed(
            missing_programs, f"install {', '.join(missing)} on {node}, or do without these platforms", missing=missing
        )
    return passed(", ".join(f"{tool} {found[tool]}" for tool in needed))


# -- kernel ------------------------------------------------------------------------------------------------------------
# Optional kernel services beyond counters: reasons for drops, and arrival time of each packet.

ANSWER_S = 2.5
"""Time limit of each of three requests, since a check has ten seconds. A check that resets links has more time for two
of its requests."""

PORTS_S, POLL_S = 3.0, 0.05
"""Extra time for the ports at the other ends to come up, and interval between two looks at them."""


@check("kernel.drop_reasons", "reasons for drops", roles=("uut", "host"))
async def drop_reasons(bench: CheckContext, node: str) -> CheckFinding:
    """Whether the kernels of the unit under test and of its host report why they drop packets."""
    start = StartKernelDrops(sinks=[stream.sink_ip for stream in bench.streams()], budget_ns=None, look_every_s=None)
    wanted = TrialSettings.of(bench.inventory, bench.plan).drop_reasons
    return await _try_request(bench.link(node), start, StopKernelDrops(), "drop_reasons", wanted)


@check(
    "kernel.packet_times",
    "times of packets",
    roles=("sink",),
    wave=Wave.LINKS,
    deadline_s=2 * (2 * LINK_S + ANSWER_S) + PORTS_S,
)
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
    start = StartPacketTimes(ports=[TimedPort(interface=name, streams=own) for name, own in ports.items()], by=by)
    # If the attempt fails, links are waited for twice.
    answer_s = ANSWER_S + (2 * LINK_S if by == NATIVE_XDP else 0)
    hops = [hop for stream in bench.streams() if stream.sink.node == node for hop in bench.hops(stream)[2:]]
    up = [hop for hop in hops if bench.blocked(*hop) is None] if by == NATIVE_XDP else []
    found = await _try_request(bench.link(node), start, StopPacketTimes(), "packet_times", wanted, answer_s)
    down = await _down(bench, up)
    if not down:
        return found
    hint = found.hint or "look at these ports, then check again; or set packet_times: on, which resets no link"
    status = CheckStatus.WARN if found.status is CheckStatus.PASS else found.status
    return replace(found, status=status, evidence=f"{found.evidence}; afterwards {', '.join(down)}", hint=hint)


async def _down(bench: CheckContext, hops: Sequence[tuple[str, str]]) -> list[str]:
    """Why each of these ports, which were usable before, is not usable yet; the next check sends through them."""
    until_s = time.monotonic() + PORTS_S
    while True:
        down = [why for hop in hops if (why := bench.blocked(*hop)) is not None]
        if not down or time.monotonic() > until_s:
            return down
        await asyncio.sleep(POLL_S)


async def _try_request(
    link: AgentLink, start: Request[Any], stop: Request[Any], setting: str, wanted: str, answer_s: float = ANSWER_S
) -> CheckFinding:
    """Start and stop the probe at once, within the check's own time."""
    stopped: Message | None = None
    lost: NodeError | None = None
    try:
        try:
            started = await begin_probe(link, start, stop, timeout_s=answer_s)
        finally:
            try:
                stopped = await link.ask(stop, timeout_s=answer_s)
            except NodeError as exc:
                lost = exc
    except NodeLost:
        raise
    except NodeError as exc:
        code, message = parse_refusal(exc)
        if wanted == "off":
            return passed(f"not available, and not requested ({setting}: off): {message}", refused=code)
        hint = "log in as root" if code == "no_permission" else "boot another kernel"
        if wanted.startswith("xdp-"):
            hint = f"{hint}, or " if code == "no_permission" else ""
            return warned(f"not available: {message}", f"{hint}set {setting}: on, which changes nothing", refused=code)
        return warned(f"not available: {message}", f"{hint}, or leave {setting} off", refused=code)
    taken = getattr(started, "memory_bytes", None)
    memory = "" if taken is None else f", {taken / 1e6:.1f} MB of the kernel's memory while it counts"
    summary = f"available ({setting}: {wanted}){memory}"
    if lost is not None:
        unknown = "it is not known whether it ended and what it changed"
        hint = f"look at the node's ports, then check again; or leave {setting} off"
        return warned(f"{summary}; {unknown}: {lost.message}", hint)
    changes, as_before = _changes(stopped)
    if as_before:
        return passed(summary + changes)
    return warned(summary + changes, "correct this at the port (ethtool -K, ip link), or set packet_times: on")


def _changes(stopped: Message | None) -> tuple[str, bool]:
    """What an XDP program changed at the ports, and whether everything was restored."""
    text, as_before = "", True
    for port in stopped.ports if isinstance(stopped, TimedPackets) else ():
        if port.xdp is not None:
            changed = list(port.xdp.features)
            if port.xdp.link_changes:
                changed.append(f"{port.xdp.link_changes} changes of its link")
            text += f"; at {port.interface} it causes {', '.join(changed) or 'no change'}"
            if port.xdp.left_features:
                text += f", and could not restore {', '.join(port.xdp.left_features)}"
            if port.xdp.link_is_back is False:
                text += f", and {LINK_S:g} s after its removal the link was not up again"
            as_before &= not port.xdp.left_features and port.xdp.link_is_back is not False
    return text, as_before
