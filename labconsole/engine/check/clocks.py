"""Clocks: offset from this machine, synchronisation, and cost of reading."""

from __future__ import annotations

from labconsole.engine.check.context import CheckContext, check
from labconsole.engine.check.result import CheckFinding, Values, failed, passed, skipped, warned
from labconsole.engine.trial.recorder import node_facts, read_clock_statements
from labconsole.measure.timing import agreement
from labconsole.model.record.extensions import STATED

OFFSET_S = 0.05
"""Larger offsets prevent aligning records of different nodes by their wall clocks."""

WRONG_S = 60.0
FAST_SOURCES = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "riscv_clocksource")

PACKAGES = {"ptp4l": "linuxptp"}
"""Package of a program that keeps clocks together with its query tool, if the names differ."""


@check("clock.offset", "clock offset")
async def offset(bench: CheckContext, node: str) -> CheckFinding:
    """The node's wall clock against this machine's, with the error bound that the round trip sets."""
    link = bench.link(node)
    offset_ns, bound_ns = link.clock_offset_ns, link.clock_error_ns
    evidence = f"{offset_ns / 1e6:+.3f} ms ± {bound_ns / 1e6:.3f} ms from this machine"
    values: Values = {"clock_offset_ns": offset_ns, "clock_error_ns": bound_ns}
    certain_s = max(0, abs(offset_ns) - bound_ns) / 1e9
    if certain_s > WRONG_S:
        return failed(
            evidence, "set the node's clock, or its records will have wrong times; run chrony or ntpd", **values
        )
    if certain_s > OFFSET_S:
        return warned(evidence, "run chrony or PTP on both: the nodes' records are aligned by their clocks", **values)
    return passed(evidence, **values)


@check("clock.sync", "clock synchronised")
async def discipline(bench: CheckContext, node: str) -> CheckFinding:
    """Whether NTP or PTP keeps the clock right. A clock that neither keeps right may be stepped during a run."""
    if bench.inventory.emulated:
        return passed("all nodes share one clock: the testbed is emulated on one machine")
    clock = (await bench.survey(node)).clock
    if clock is None:
        return skipped("the kernel does not report it")
    if not clock.synchronised:
        return warned("not synchronised by NTP or PTP", f"on {node}: apt install chrony", **clock.to_wire())
    return passed(
        f"synchronised by NTP or PTP, off by at most {clock.max_error_us / 1000:.1f} ms as it reports",
        **clock.to_wire(),
    )


@check("clock.stated", "stated clock errors", roles=("source", "sink"))
async def stated(bench: CheckContext, node: str) -> CheckFinding:
    """The clock error stated in hosts.yaml or by the clock's keeper; on a sink, compared with measured offsets."""
    entry = bench.inventory.nodes[node]
    if entry.clock_error_ns is None and entry.clock_keeper is None:
        return skipped("none: labconsole compares the clocks itself (clock_error_ns, clock_keeper)")
    sources = {stream.source.node for stream in bench.streams() if stream.sink.node == node}
    links = {node: bench.link(node), **{name: link for name, link in bench.links.items() if name in sources}}
    statements = await read_clock_statements(bench.inventory, links)
    statement = statements[node]
    values: Values = {STATED: statement.model_dump()}
    if statement.error_ns is None:
        package = PACKAGES.get(statement.by, statement.by)
        remedy = f"on {node}: apt install {package}, and let it keep the clock; or remove clock_keeper from hosts.yaml"
        return warned(f"{statement.by} tells nothing: {statement.refused}", remedy, **values)
    nodes = node_facts(links, {name: await bench.facts(name) for name in links}, statements)
    pairs = [(name, agreement((name, node), nodes[name], nodes[node])) for name in sorted(sources & set(links))]
    false = [f"{name}: {each.unused}" for name, each in pairs if each.contradicted]
    if false:
        return warned("; ".join(false), f"state a larger error, or find out what sets the clock of {node}", **values)
    bounds = [f"to {name}'s {each.bound_ns} ns ({each.bound_by})" for name, each in pairs]
    return passed(
        f"off by at most {statement.error_ns} ns ({statement.by}); {', '.join(bounds)}".rstrip("; "), **values
    )


@check("clock.source", "clock source")
async def source(bench: CheckContext, node: str) -> CheckFinding:
    """A generator reads the clock for every frame, and some clocks take microseconds for that."""
    name = (await bench.facts(node)).clocksource
    if name is None:
        return skipped("the kernel does not report it")
    if name not in FAST_SOURCES:
        return warned(
            f"{name}: slow to read",
            "find out why the kernel dropped tsc (dmesg | grep -i tsc): pacing and time stamps suffer",
            clocksource=name,
        )
    return passed(str(name), clocksource=name)
