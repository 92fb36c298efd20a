"""Makes the kernels of the unit under test and its host report where and why they drop test packets during a trial.

Counting packets does not depend on it: a kernel that cannot report does not end a trial, and its reason is recorded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from labconsole.contracts.ports import AgentLink
from labconsole.engine.concurrent_requests import run_concurrently
from labconsole.engine.trial.kernel_probes import TIMEOUT_S, begin_probe, parse_refusal
from labconsole.errors import NodeError, NodeLost, NodeUnreachable
from labconsole.model.inventory import DropReasons, Inventory
from labconsole.verdict.observations import KernelWitness, TrialObservations
from labconsole.wire.kernel_drops import GuestInside, StartKernelDrops, StopKernelDrops

BUDGET_RATIO = 0.01
"""Share of one processor, during traffic, that the drop counting may use if it was not requested explicitly."""

LOOKS = 150
SHORTEST_LOOK_S, LONGEST_LOOK_S = 0.01, 0.25
"""Number of checks of the counting's processor use per trial."""


class KernelDropWatch:
    """Drop counting of one trial, on the unit under test and its host; afterwards the results are in ``seen``."""

    def __init__(
        self,
        seen: TrialObservations,
        inventory: Inventory,
        links: Mapping[str, AgentLink],
        sinks: Sequence[str],
        wanted: DropReasons,
        duration_s: float,
        inside: Callable[[AgentLink], Awaitable[dict[str, int]]] | None,
    ) -> None:
        self._seen, self._inventory, self._links = seen, inventory, links
        self._sinks, self._wanted, self._duration_s = list(sinks), wanted, duration_s
        self._inside = inside
        self._guests: list[GuestInside] = []
        self._counting: list[tuple[AgentLink, KernelWitness]] = []

    async def start(self) -> None:
        """Start counting, before the counters are read for the first time."""
        if self._wanted == "off":
            return
        budget_ns = round(BUDGET_RATIO * self._duration_s * 1e9) if self._wanted == "auto" else None
        uut, host = self._inventory.uut, self._inventory.host
        self._seen.kernel = KernelWitness(asked=self._wanted, budget_ns=budget_ns)
        # Set first, so that stop ends it even if an answer comes too late or is no longer awaited.
        self._counting = [(self._links[uut], self._seen.kernel)]
        if host is not None:
            carries = self._inventory.nodes[host].carries or {}
            below = KernelWitness(asked=self._wanted, budget_ns=budget_ns, host=host, carries=carries)
            self._seen.host_kernel = below
            self._counting.append((self._links[host], below))
        if self._inside is not None:
            with suppress(NodeError):  # without them only the node's own namespaces are covered
                found = await self._inside(self._links[uut])
                self._guests = [GuestInside(name=name, pid=pid) for name, pid in found.items()]
        await run_concurrently([self._begin(*each) for each in self._counting])

    async def _begin(self, link: AgentLink, witness: KernelWitness) -> None:
        look_s = min(max(self._duration_s / LOOKS, SHORTEST_LOOK_S), LONGEST_LOOK_S)
        request = StartKernelDrops(
            sinks=self._sinks,
            budget_ns=witness.budget_ns,
            look_every_s=look_s,
            guests=self._guests if witness.host is None else [],
        )
        try:
            witness.started = await begin_probe(link, request, StopKernelDrops())
        except (NodeLost, NodeUnreachable):
            return  # the trial learns that by itself
        except NodeError as exc:
            self._counting.remove((link, witness))
            witness.refused = parse_refusal(exc)

    async def stop(self) -> None:
        """Collect the counts, after the counters were read for the last time. Safe to call twice."""
        await run_concurrently([self._end(*each) for each in self._counting])

    async def _end(self, link: AgentLink, witness: KernelWitness) -> None:
        try:
            witness.drops = await link.ask(StopKernelDrops(), timeout_s=TIMEOUT_S)
        except (NodeLost, NodeUnreachable):
            return
        except NodeError as exc:
            if witness.started is not None:
                witness.refused = parse_refusal(exc)
        self._counting.remove((link, witness))
