"""Processors, memory and heat, which can make two equal trials give different results."""

from __future__ import annotations

import re

from labconsole.engine.check.context import CheckContext, check
from labconsole.engine.check.result import CheckFinding, Values, failed, passed, skipped, warned

_CPUS = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
DEEP_IDLE_US = 200
"""Idle states with a longer exit latency delay the first frames after a pause."""

BUSY_RATIO = 0.7
LOW_MEMORY_BYTES = 64 * 1024 * 1024
LOW_MEMORY_RATIO = 0.1
HOT_MILLIDEGREES = 90_000


@check("cpu.governor", "frequency governor")
async def governor(bench: CheckContext, node: str) -> CheckFinding:
    """A processor whose frequency follows its load forwards differently at every load."""
    found = (await bench.settings(node)).governors
    if found is None:
        return passed("the kernel does not change frequencies here")
    evidence = ", ".join(f"{name} on {count} CPUs" for name, count in found.items())
    values: Values = {**found}
    if set(found) != {"performance"}:
        return warned(evidence, f"on {node}: cpupower frequency-set -g performance", **values)
    return passed(evidence, **values)


@check("cpu.turbo", "turbo")
async def turbo(bench: CheckContext, node: str) -> CheckFinding:
    """Turbo depends on heat and on how many cores work."""
    on = (await bench.settings(node)).turbo
    if on is None:
        return passed("the kernel reports no turbo here")
    if on:
        return warned("on", f"on {node}: echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or off in the BIOS")
    return passed("off")


@check("cpu.idle", "idle states")
async def idle(bench: CheckContext, node: str) -> CheckFinding:
    """Deep idle states."""
    states = (await bench.settings(node)).idle_states
    if not states:
        return passed("the kernel reports no idle states here")
    usable = [s for s in states if not s.disabled and s.exit_latency_us is not None]
    deepest = max(usable, key=lambda s: s.exit_latency_us or 0, default=None)
    if deepest is None:
        return passed("all are disabled")
    evidence, values = f"deepest {deepest.name}, {deepest.exit_latency_us} µs to leave", deepest.to_wire()
    if (deepest.exit_latency_us or 0) > DEEP_IDLE_US:
        return warned(evidence, f"on {node}: cpupower idle-set -D {DEEP_IDLE_US}", **values)
    return passed(evidence, **values)


@check("cpu.interrupts", "interrupts")
async def interrupts(bench: CheckContext, node: str) -> CheckFinding:
    """CPUs that handle the NICs' interrupts, and whether irqbalance moves them."""
    settings = await bench.settings(node)
    parts = []
    for name in bench.ports(node):
        found = settings.interfaces[name].irqs if name in settings.interfaces else {}
        if found:
            parts.append(f"{name}: {len(found)} on CPUs {', '.join(sorted(set(map(str, found.values()))))}")
    evidence = "; ".join(parts) or "its data ports have no interrupts of their own"
    if settings.isolated_cpus:
        evidence += f"; CPUs {settings.isolated_cpus} are isolated"
    if settings.irqbalance:
        return warned(
            f"{evidence}; irqbalance runs",
            f"on {node}: systemctl stop irqbalance (it moves interrupts in the middle of a run)",
        )
    return passed(f"{evidence}; no irqbalance")


@check("cpu.load", "load")
async def load(bench: CheckContext, node: str) -> CheckFinding:
    """Load that is present already."""
    found, cpus = (await bench.survey(node)).load, (await bench.facts(node)).cpus
    if not found or cpus < 1:
        return skipped("the kernel does not report it")
    evidence = f"{found[0]:.2f} on {cpus} CPUs over the last minute"
    if found[0] / cpus > BUSY_RATIO:
        return warned(
            evidence, f"look at what runs on {node} (top), and measure when it has ended", load=found, cpus=cpus
        )
    return passed(evidence, load=found, cpus=cpus)


@check("cpu.memory", "memory")
async def memory(bench: CheckContext, node: str) -> CheckFinding:
    """Memory for capture buffers and guests."""
    found = (await bench.survey(node)).memory
    total, free = found.total_bytes, found.available_bytes
    if total is None or free is None:
        return skipped("the kernel does not report it")
    evidence = f"{free / 1e6:.0f} MB of {total / 1e6:.0f} MB available"
    values = found.to_wire()
    buffer_bytes = bench.inventory.defaults.capture_buffer_kib * 1024
    needed = LOW_MEMORY_BYTES
    if "sink" in bench.roles(node):
        needed += buffer_bytes * len(bench.ports(node))
    if free < needed:
        hint = f"{needed / 1e6:.0f} MB are needed: end programs, or lower capture_buffer_kib"
        return failed(evidence, hint, **values)
    if free < LOW_MEMORY_RATIO * total:
        return warned(evidence, f"find out what uses the memory of {node} (top): it may begin to swap", **values)
    return passed(evidence, **values)


@check("cpu.heat", "heat")
async def heat(bench: CheckContext, node: str) -> CheckFinding:
    """Thermal throttling."""
    found = (await bench.survey(node)).heat
    throttled, hottest = found.throttled, found.hottest_millidegrees
    parts, values = [], found.to_wire()
    if hottest is not None:
        parts.append(f"{hottest / 1000:.0f} °C at the hottest place")
    if throttled is not None:
        parts.append(f"throttled {throttled} times since boot")
    evidence = ", ".join(parts) or "the kernel reports no sensors here"
    if (throttled or 0) > 0 or (hottest or 0) > HOT_MILLIDEGREES:
        return warned(evidence, "check fans and air flow: a throttled processor forwards less", **values)
    return passed(evidence, **values)


@check("cpu.generator", "generator's processors", roles=("source",))
async def generator_cpus(bench: CheckContext, node: str) -> CheckFinding:
    """The processors that hosts.yaml gives a generator exist."""
    wanted, cpus = bench.inventory.nodes[node].generator_cpus, (await bench.facts(node)).cpus
    if not wanted:
        return passed("not pinned (generator_cpus in hosts.yaml)")
    online = cpu_list((await bench.settings(node)).online_cpus)
    if online is None:
        return skipped("the kernel does not report which processors exist")
    missing = [cpu for cpu in wanted if cpu not in online]
    if missing:
        return failed(
            f"CPU {', '.join(map(str, missing))} of generator_cpus does not exist; available: {cpus}",
            f"correct nodes.{node}.generator_cpus in hosts.yaml",
        )
    return passed(f"CPU {', '.join(map(str, wanted))}")


def cpu_list(text: str | None) -> set[int] | None:
    """``"0-3,8"`` to {0, 1, 2, 3, 8}, or None if the text is not a list of processors."""
    found: set[int] = set()
    for part in (text or "").split(","):
        match = _CPUS.fullmatch(part)
        if match is None:
            return None
        low, high = int(match[1]), int(match[2] or match[1])
        if high - low > 65536:
            return None
        found.update(range(low, high + 1))
    return found
