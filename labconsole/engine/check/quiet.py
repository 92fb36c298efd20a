"""Is the testbed quiet: no foreign frames, answers of sinks, other generators or captures, and no leftovers?"""

from __future__ import annotations

import asyncio

from labconsole.engine.check.context import CheckContext, Wave, alike, check
from labconsole.engine.check.result import CheckFinding, Values, failed, passed, repaired, skipped, warned
from labconsole.engine.trial.setup import sink_port
from labconsole.engine.trial.traffic import describe_unheld_port
from labconsole.errors import AgentError
from labconsole.verdict.observations import parse_snapshot
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import ReadCounters
from labconsole.wire.foreign import HoldSinkPorts, ReleaseSinkPorts, SinkPort
from labconsole.wire.survey import RemoveLeftovers

WINDOW_S = 1.0
QUIET_PPS = 1.0
"""Neighbour discovery and spanning tree stay below this rate; a run shows both as foreign frames."""

LOUD_PPS = 10.0
COUNTED = ("rx_packets", "tx_packets")
MAX_NAMED = 5


@check("quiet.ports", "data ports quiet")
async def ports(bench: CheckContext, node: str) -> CheckFinding:
    """Frames on the data ports while no trial runs."""
    link = bench.link(node)
    first = await link.ask(ReadCounters(), timeout_s=8)
    await asyncio.sleep(WINDOW_S)
    last = await link.ask(ReadCounters(), timeout_s=8)
    before, after = parse_snapshot(first), parse_snapshot(last)
    window_s = (last.monotonic_ns - first.monotonic_ns) / 1e9
    counted: dict[str, int] = {}
    for name in bench.ports(node):
        old, new = before.get(("", name)), after.get(("", name))
        if old is not None and new is not None:
            counted[name] = sum(new.values[STAT_NAMES.index(s)] - old.values[STAT_NAMES.index(s)] for s in COUNTED)
    if not counted:
        return skipped("none of its data ports exists")
    evidence = alike({name: f"{count} packets" for name, count in counted.items()}) + f" in {window_s:.1f} s"
    pps = max(counted.values()) / window_s
    loudest = max(counted, key=lambda name: counted[name])
    hint = f"look at them: tcpdump -ni {loudest} on {node}"
    if pps > LOUD_PPS:
        return failed(evidence, hint, window_s=window_s, packets=counted)
    if pps > QUIET_PPS:
        return warned(evidence, hint, window_s=window_s, packets=counted)
    return passed(evidence, window_s=window_s, packets=counted)


@check("quiet.answers", "answers to test frames", roles=("sink",))
async def answers(bench: CheckContext, node: str) -> CheckFinding:
    """A sink that has its sink_ip answers test frames; a sink that forwards passes them on."""
    mine = {(s.sink_ip, sink_port(i)): s for i, s in enumerate(bench.inventory.streams) if s.sink.node == node}
    if not mine:
        return skipped("no stream ends at this node")
    if node not in bench.leased:
        return skipped("this console does not hold its lease; another console may be using the streams' UDP ports")
    wanted, link = [SinkPort(sink_ip=ip, udp_sink_port=port) for ip, port in mine], bench.link(node)
    try:
        states = (await link.ask(HoldSinkPorts(ports=wanted), timeout_s=8)).ports
        await link.ask(ReleaseSinkPorts(), timeout_s=8)
    except AgentError as exc:
        problem = f"the streams' UDP ports are not bound: {exc.message}"
        return warned(problem, "if the sink has its sink_ip, remove that from its interface (ip address del)")
    problems = [each for each in map(describe_unheld_port, wanted, states) if each is not None]
    values: Values = {f"{each.sink_ip}:{each.udp_sink_port}": s.state for each, s in zip(wanted, states, strict=True)}
    if problems:
        return warned("; ".join(text for text, _ in problems[:MAX_NAMED]), problems[0][1], **values)
    own = [each.sink_ip for each, state in zip(wanted, states, strict=True) if state.state == "held"]
    interfaces = (await bench.settings(node)).interfaces
    names = {s.sink.interface for (ip, _), s in mine.items() if ip not in own}
    forwarding = sorted(n for n in names if n in interfaces and interfaces[n].sysctls.get("forwarding") == "1")
    if forwarding:
        return warned(
            f"{', '.join(forwarding)} forwards: test frames for a sink_ip that the node does not have leave it again, "
            "or are answered with ICMP",
            f"on {node}: sysctl -w net.ipv4.conf.{forwarding[0]}.forwarding=0",
            **values,
        )
    if own:
        kept = "during trials the agent holds the streams' UDP ports, so that its kernel does not answer test frames"
        return passed(f"the node has {', '.join(dict.fromkeys(own))}: {kept}", **values)
    return passed("the node does not have the streams' sink_ip, so its kernel answers no test frame", **values)


@check("quiet.programs", "captures and generators")
async def programs(bench: CheckContext, node: str) -> CheckFinding:
    """Captures and generators of other users."""
    found = [p for p in (await bench.survey(node)).processes if p.kind in ("sniffer", "sender")]
    near = [p for p in found if p.same_network is not False]
    commands = [f"{p.name} (process {p.pid}): {p.command}" for p in (near or found)[:MAX_NAMED]]
    evidence = "; ".join(commands)
    if near:
        return failed(
            evidence,
            f"ask its owner, or stop it: on {node}: kill {near[0].pid}",
            pids=[p.pid for p in near],
        )
    if found:
        return warned(f"in another network namespace: {evidence}", "it uses processor time: ask its owner to stop it")
    return passed("no capture or generator is running")


@check("quiet.pktgen", "pktgen free", roles=("source",))
async def pktgen(bench: CheckContext, node: str) -> CheckFinding:
    """Other users' devices in pktgen, which would start together with ours."""
    survey = await bench.survey(node)
    ours = {entry.name for entry in survey.leftovers if entry.kind == "pktgen"}
    foreign = [device for device in survey.pktgen_devices if device not in ours]
    if foreign:
        return failed(
            f"configured: {', '.join(foreign[:MAX_NAMED])}",
            f"they belong to another user: ask, or on {node}: echo reset > /proc/net/pktgen/pgctrl",
            devices=foreign,
        )
    return passed("no device configured by another user")


@check("quiet.logins", "logins")
async def logins(bench: CheckContext, node: str) -> CheckFinding:
    """Users who are logged in may do anything at any time."""
    found = (await bench.facts(node)).logins
    if found is None:
        return passed("the node does not keep a list of logins")
    users = []
    for entry in found:
        host = f" from {entry.host}" if entry.host else ""
        users.append(f"{entry.user} on {entry.line}{host}")
    if users:
        return warned(", ".join(users[:MAX_NAMED]), "tell them that you are measuring", logins=len(users))
    return passed("no other user is logged in")


@check("quiet.leftovers", "leftovers of earlier runs", wave=Wave.FIXES)
async def leftovers(bench: CheckContext, node: str) -> CheckFinding:
    """Leftovers of a session that did not end properly."""
    found = (await bench.survey(node)).leftovers
    if node not in bench.leased:
        found = [entry for entry in found if entry.kind != "link"]  # a bridge may be the lease holder's
    if not found:
        return passed("nothing")
    evidence = ", ".join(f"{entry.kind} {entry.name}" for entry in found[:MAX_NAMED])
    if len(found) > MAX_NAMED:
        evidence += f" and {len(found) - MAX_NAMED} more"
    if bench.fix and node in bench.leased:
        removed = (await bench.link(node).ask(RemoveLeftovers(), timeout_s=20)).removed
        bench.forget(node)
        if not (await bench.survey(node)).leftovers:
            return repaired("for good: " + "; ".join(removed[:MAX_NAMED]), removed=removed)
    return failed(
        evidence, f"remove it on {node}, or use --fix: it is labconsole's own, and no session uses it", fixable=True
    )
