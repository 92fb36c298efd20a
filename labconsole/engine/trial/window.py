"""Readings on every node at the beginning and end of a trial, in addition to the counters.

They cover settings, other activity, and drop counters. Counting packets does not depend on them, so a node that cannot
answer one does not end the trial: the gap is noted, and the verdict says that it was not observed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence

from labconsole.contracts.ports import AgentLink
from labconsole.engine.links import run_concurrently
from labconsole.errors import NodeError, NodeUnreachable
from labconsole.model.inventory import Inventory
from labconsole.verdict.changes import find_stream_ports
from labconsole.verdict.observations import NodeReading, TrialObservations
from labconsole.wire import host_activity
from labconsole.wire.drops import ReadDrops
from labconsole.wire.host_activity import ProcessPlace, ReadSurroundings
from labconsole.wire.message import R, Request
from labconsole.wire.settings import ReadSettings

TIMEOUT_S = 10.0


class ConsoleUse:
    """This process, which may run on a measured machine: its location, and its processor use."""

    def __init__(self) -> None:
        self.place = ProcessPlace(
            boot_id=host_activity.boot_id(), pid_namespace=host_activity.pid_namespace(), pid=os.getpid()
        )
        self._begun_s = time.process_time()

    def begin(self) -> None:
        """Count from now on."""
        self._begun_s = time.process_time()

    def used_s(self) -> float:
        """Processor time since ``begin``, over all threads."""
        return time.process_time() - self._begun_s


class Readings:
    """The readings on the nodes of one trial.

    ``interfaces``: those whose drivers are read, by node. ``own``: processes that belong to the trial although the
    agent did not start them, by node, such as a guest's under an independent hypervisor. ``guests``: names of guests'
    processes (DriverInfo.processes). ``inventory``: the settings of its streams' ports are read, too.
    """

    def __init__(
        self,
        seen: TrialObservations,
        links: dict[str, AgentLink],
        interfaces: dict[str, list[str]],
        guests: Sequence[str],
        own: dict[str, list[int]],
        inventory: Inventory,
    ) -> None:
        self._guests, self._own = list(guests), own
        self._seen, self._links, self._interfaces = seen, links, interfaces
        self._nodes = list(interfaces)
        # A host may have hundreds of other interfaces, of its guests and ours.
        self._ports = {
            node: list(dict.fromkeys((*find_stream_ports(inventory, node), *own_ports)))
            for node, own_ports in interfaces.items()
        }
        self._console_ns: int | None = None
        self._console = ConsoleUse()
        self._silent: set[tuple[str, str]] = set()

    async def open(self) -> None:
        """Read settings and surroundings of all nodes concurrently at the beginning, in a few milliseconds."""
        self._console_ns = time.time_ns() - time.monotonic_ns()
        self._console.begin()
        self._seen.begin = {node: NodeReading() for node in self._nodes}
        await self._read(self._seen.begin, begin=True)

    async def close(self) -> None:
        """Read the same again at the end, on nodes that still answer."""
        if self._console_ns is not None:
            self._seen.console_clock_moved_ns = time.time_ns() - time.monotonic_ns() - self._console_ns
            self._seen.console_cpu_s = self._console.used_s()
            self._seen.console_boot_id = self._console.place.boot_id
        await self._read(self._ending(), begin=False)

    async def drops(self, *, begin: bool) -> None:
        """Read drop counters: right before traffic, and once it has ended."""
        side = self._seen.begin if begin else self._ending()

        async def read(node: str) -> None:
            side[node].drops = drops = await self._ask(node, ReadDrops(interfaces=self._interfaces[node]))
            for own in drops.namespaces.values() if drops is not None and not begin else ():
                for interface in own.cut or ():
                    detail = f"{interface} has more error statistics than are kept"
                    self._seen.notes.append({"node": node, "kind": "not_observed", "detail": detail})

        await run_concurrently(read(node) for node in self._nodes)

    def _ending(self) -> dict[str, NodeReading]:
        if not self._seen.end:
            self._seen.end = {node: NodeReading() for node in self._nodes}
        return self._seen.end

    async def _read(self, side: dict[str, NodeReading], *, begin: bool) -> None:
        async def settings(node: str) -> None:
            side[node].settings = await self._ask(node, ReadSettings(ports=self._ports[node]))

        async def others(node: str) -> None:
            request = ReadSurroundings(
                begin=begin, guests=self._guests, own=self._own.get(node) or None, console=self._console.place
            )
            side[node].surroundings = await self._ask(node, request)

        await run_concurrently([*(settings(node) for node in self._nodes), *(others(node) for node in self._nodes)])

    async def _ask(self, node: str, request: Request[R]) -> R | None:
        try:
            return await self._links[node].ask(request, timeout_s=TIMEOUT_S)
        except NodeUnreachable:
            return None  # the trial learns that by itself
        except NodeError as exc:  # also a lost node: it may only have been slow, which nothing else would report
            if (node, request.op) not in self._silent:
                self._silent.add((node, request.op))
                self._seen.notes.append(
                    {"node": node, "kind": "not_observed", "detail": f"{request.op}: {exc.message}"}
                )
            return None


def ports_by_node(names: Iterable[str], ports: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Interfaces among ``ports`` by node, each once."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for node, interface in dict.fromkeys(ports):
        found.setdefault(node, []).append(interface)
    return found
