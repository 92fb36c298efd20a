"""Nodes that are namespaces of one machine: they share its processors, and maybe none sees all its processes. Pure.

A node in its own PID namespace sees only the processes in it. The time that the machine's processors spent on
processes, minus what all of its nodes and the console account for, is the work of processes that no node sees. Only a
lower bound is known: the kernel's work in interrupts is also accounted to the process that it interrupts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from labconsole.verdict.observations import TrialObservations
from labconsole.wire.host_activity import NodeSurroundings, UsageWindow

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
