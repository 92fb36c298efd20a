"""Why a source offered less than intended, as far as it can be observed, and which nodes share a machine. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from labconsole.model.design_point import DesignPoint
from labconsole.model.record.run import Figures
from labconsole.model.tolerances import Tolerances
from labconsole.units import format_rate_bps
from labconsole.verdict.hops import driver_growth, qdisc_growth
from labconsole.verdict.observations import StreamObservations, TrialObservations
from labconsole.wire.host_activity import NodeSurroundings, UsageWindow

# -- shared hosts ------------------------------------------------------------------------------------------------------
# Nodes that are namespaces of one machine: they share its processors, and maybe none sees all its processes.
#
# A node in its own PID namespace sees only the processes in it. The time that the machine's processors spent on
# processes, minus what all of its nodes and the console account for, is the work of processes that no node sees. Only a
# lower bound is known: the kernel's work in interrupts is also accounted to the process that it interrupts.

INITIAL_PID_NAMESPACE = 0xEFFFFFFC
"""The kernel's own number of the namespace that sees every process (PROC_PID_INIT_INO)."""

TICK_S = 0.01
"""A processor's time is sampled at least this often, so the error of a share is that of a count of samples."""

SURE_DEVIATIONS = 4.0


@dataclass(frozen=True, slots=True)
class UnseenLoad:
    """The processors that processes which no node sees used of a machine, at least."""

    nodes: tuple[str, ...]
    cpu_ratio: float
    error_ratio: float

    @property
    def lower_bound_ratio(self) -> float:
        """The certain part of it."""
        return max(0.0, self.cpu_ratio - self.error_ratio)


Machine = dict[str, NodeSurroundings]
"""The nodes on one machine, with the last reading of each."""


def machines(seen: TrialObservations) -> list[Machine]:
    """Nodes with their last reading, grouped by machine: namespaces of one machine share its processors."""
    found: dict[str, Machine] = {}
    for node, reading in seen.end.items():
        if reading.surroundings is not None:
            found.setdefault(reading.surroundings.boot_id or node, {})[node] = reading.surroundings
    return list(found.values())


def same_machine(seen: TrialObservations, node: str, other: str) -> bool:
    """Whether two nodes are known to be namespaces of one machine."""
    return node == other or any(node in each and other in each for each in machines(seen))


def unseen(seen: TrialObservations, nodes: Machine) -> UnseenLoad | None:
    """The unseen load of one machine, or None if a node sees every process, or too little is known.

    Too little is also known if some nodes are on another machine: that may be a guest on this one, with our own work.
    """
    if len(nodes) < len(seen.end):
        return None
    by_view: dict[int, UsageWindow] = {}
    for reading in nodes.values():
        view = reading.pid_namespace
        if view is None or view == INITIAL_PID_NAMESPACE or reading.window is None:
            return None
        by_view.setdefault(view, reading.window)  # nodes that see the same processes report the same
    reading = next(iter(nodes.values()))
    window, cpus = reading.window, reading.cpus
    if window is None or window.cpu is None or not cpus or not window.elapsed_s:
        return None
    cpu, elapsed_s = window.cpu, window.elapsed_s
    share = cpu.busy_ratio - cpu.interrupt_ratio - cpu.steal_ratio
    seen_s = sum(sum(each.used_s.values()) for each in by_view.values())
    if seen.console_boot_id is not None and seen.console_boot_id == reading.boot_id:
        seen_s += seen.console_cpu_s or 0.0
    samples = cpus * elapsed_s / TICK_S
    error_s = SURE_DEVIATIONS * math.sqrt(max(samples * share * (1 - share), 1.0)) * TICK_S
    return UnseenLoad(tuple(nodes), (share * cpus * elapsed_s - seen_s) / elapsed_s, error_s / elapsed_s)


# -- offered shortfall -------------------------------------------------------------------------------------------------
# Why a source offered less than intended, as far as it can be observed. Pure. Several causes may apply.
#
# Each is a code, a sentence and its figures: flow_control, queue_full, shaper, link_speed, cpu, unseen_cpu.

BUSY_RATIO = 0.02
"""A generator that waited for less than this share of its time used its processor fully."""

PAUSE = re.compile(r"(?<!admin_q_)pause|xoff|flow_control")
"""Excludes ena's admin_q_pause: the queue by which the driver gives the NIC orders."""

BUSY = re.compile(r"^(?!.*(?:(?<![a-z])rx|dequeue)).*(?:busy|requeue|stop)")
"""Excludes the receiving side: mlx5's rx_cache_busy, hv_netvsc's rx_comp_busy."""

SHAPERS = ("tbf", "htb", "hfsc", "cake", "netem", "fq")
"""Queueing disciplines that delay packets by their rate; the overlimits of others mean nothing."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause that slowed a source down."""

    cause: str
    detail: str
    figures: Figures

    def to_json(self) -> Figures:
        """The cause as plain data."""
        return {"cause": self.cause, **self.figures}


def pauses(seen: TrialObservations, node: str, interface: str) -> dict[str, int]:
    """The driver's counters of pause frames on a port that grew."""
    return {
        name: packets
        for name, packets in driver_growth(seen, node, "", interface).items()
        if PAUSE.search(name.lower())
    }


def find_shortfall_causes(
    seen: TrialObservations, raw: StreamObservations, request: DesignPoint, limits: Tolerances
) -> Iterator[Cause]:
    """The known causes that slowed this stream's source down."""
    node, interface = raw.stream.source.node, raw.stream.source.interface
    moved = driver_growth(seen, node, "", interface)
    paused = {name: n for name, n in pauses(seen, node, interface).items() if "tx" not in name.lower()}
    if paused:
        yield Cause("flow_control", f"flow control throttled it ({_format_counters(paused)})", {"counters": paused})
    busy = {name: n for name, n in moved.items() if BUSY.search(name.lower())}
    for kind, grown in qdisc_growth(seen, node, "", interface):
        if grown.requeues:
            busy[f"qdisc_{kind}.requeues"] = grown.requeues
        if kind in SHAPERS and grown.overlimits:
            figures = {"qdisc": kind, "overlimits": grown.overlimits}
            yield Cause("shaper", f"the queueing discipline {kind} on {interface} delayed packets", figures)
    if raw.generated is not None and raw.generated.errors:
        busy["generator.errors"] = raw.generated.errors
    if busy:
        yield Cause("queue_full", f"the send queue was full ({_format_counters(busy)})", {"counters": busy})
    speed_bps = link_speed_bps(seen, node, interface)
    if speed_bps is not None and request.paced_bps is not None and request.paced_bps > speed_bps:
        detail = f"{interface} runs at only {format_rate_bps(speed_bps)}"
        yield Cause("link_speed", detail, {"speed_bps": speed_bps})
    idle = idle_ratio(raw)
    if idle is not None and idle < BUSY_RATIO:
        yield Cause("cpu", f"the generator's processor was busy {1 - idle:.1%} of the time", {"idle_ratio": idle})
    if raw.generated is not None and raw.generated.error_text:
        return  # that ended it; it was not slow
    for nodes in machines(seen):
        hidden = unseen(seen, nodes) if node in nodes else None
        if hidden is not None and hidden.lower_bound_ratio > limits.other_cpu_ratio:
            detail = f"processes that no node sees took {hidden.lower_bound_ratio:.0%} or more of a processor"
            yield Cause("unseen_cpu", detail, {"cpu_ratio": hidden.cpu_ratio, "error_ratio": hidden.error_ratio})


def idle_ratio(raw: StreamObservations) -> float | None:
    """Share of its sending time in which the generator waited for the next packet to be due, or None if unknown."""
    sent = raw.generated
    return None if sent is None or sent.idle_ns is None or not sent.elapsed_ns else sent.idle_ns / sent.elapsed_ns


def link_speed_bps(seen: TrialObservations, node: str, interface: str) -> int | None:
    """The link speed negotiated at the end of the trial, or None if the driver does not report it."""
    port = seen.readings(node)[1].port(interface)
    return port.speed_mbps * 1_000_000 if port is not None and port.speed_mbps else None


def _format_counters(counters: dict[str, int]) -> str:
    return ", ".join(f"{name} {packets}" for name, packets in counters.items())
