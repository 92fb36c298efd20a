"""Clocks: how far a node's is from ours, whether something keeps it right, and whether reading it is cheap."""

from __future__ import annotations

from labconsole.engine.check.context import CheckContext, check
from labconsole.engine.check.result import CheckFinding, Values, failed, passed, skipped, warned

OFFSET_S = 0.05
"""Beyond this, records of different nodes cannot be laid side by side by their wall clocks."""

WRONG_S = 60.0
FAST_SOURCES = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "riscv_clocksource")


@check("clock.offset", "clock offset")
async def offset(bench: CheckContext, node: str) -> CheckFinding:
    """The node's wall clock against ours, with the bound that the round trip sets."""
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
    """Whether NTP or PTP keeps the clock right: one that nobody keeps right may be stepped in the middle of a run."""
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


@check("clock.source", "clock source")
async def source(bench: CheckContext, node: str) -> CheckFinding:
    """A generator reads the clock for every frame; some clocks take microseconds for that."""
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
