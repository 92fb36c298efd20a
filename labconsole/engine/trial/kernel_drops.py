"""Having the unit under test's kernel say where and why it drops test packets, for as long as a trial's counters count.

Nothing of it is needed to count packets: a kernel that does not say it does not end a trial, and its word why is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.contracts.ports import AgentLink
from labconsole.engine.trial.kernel_asking import TIMEOUT_S, begin, refusal
from labconsole.errors import NodeError, NodeLost, NodeUnreachable
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import DropReasons
from labconsole.verdict.observed import KernelWitness, TrialObservations
from labconsole.wire.kernel_drops import StartKernelDrops, StopKernelDrops

BUDGET_RATIO = 0.01
"""Of one processor for the time of the traffic, what counting may take where it was not asked for."""

LOOKS = 150
SHORTEST_LOOK_S, LONGEST_LOOK_S = 0.01, 0.25
"""How often in a trial it is looked what counting took."""


class KernelDropWatch:
    """The counting of one trial, on the unit under test; what it found is in ``seen.kernel`` once it has stopped."""

    def __init__(
        self, seen: TrialObservations, link: AgentLink, sinks: Sequence[str], wanted: DropReasons, request: DesignPoint
    ) -> None:
        self._seen, self._link, self._sinks, self._wanted = seen, link, list(sinks), wanted
        self._duration_s = request.duration_s
        self._counting = False

    async def start(self) -> None:
        """Begin to count: before the counters are read the first time."""
        if self._wanted == "off":
            return
        budget_ns = round(BUDGET_RATIO * self._duration_s * 1e9) if self._wanted == "auto" else None
        look_s = min(max(self._duration_s / LOOKS, SHORTEST_LOOK_S), LONGEST_LOOK_S)
        asked = StartKernelDrops(sinks=self._sinks, budget_ns=budget_ns, look_every_s=look_s)
        self._seen.kernel = witness = KernelWitness(asked=self._wanted, budget_ns=budget_ns)
        self._counting = True  # also when the answer comes late or nobody waits for it any more: stop ends it
        try:
            witness.started = await begin(self._link, asked, StopKernelDrops())
        except (NodeLost, NodeUnreachable):
            return  # the trial hears of that by itself
        except NodeError as exc:
            self._counting = False
            witness.refused = refusal(exc)

    async def stop(self) -> None:
        """Take what was counted: after the counters were read the last time. Safe to call twice."""
        witness = self._seen.kernel
        if not self._counting or witness is None:
            return
        try:
            witness.drops = await self._link.ask(StopKernelDrops(), timeout_s=TIMEOUT_S)
        except (NodeLost, NodeUnreachable):
            return
        except NodeError as exc:
            if witness.started is not None:
                witness.refused = refusal(exc)
        self._counting = False
