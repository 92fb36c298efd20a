"""Makes the unit under test report the work of its processors during a trial's traffic, in telemetry trials only."""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.contracts.ports import AgentLink
from labconsole.engine.trial.kernel_probes import TIMEOUT_S, parse_refusal
from labconsole.errors import NodeError, NodeLost, NodeUnreachable
from labconsole.verdict.observations import TrialObservations, WorkWitness
from labconsole.wire.processor_work import BeginProcessorWork, EndProcessorWork


class ProcessorWatch:
    """Records the processors' work in one trial on the unit under test; the result is in ``seen.work``.

    Counting packets does not depend on it: a node that cannot report does not end a trial, and its reason is recorded.
    """

    def __init__(
        self, seen: TrialObservations, link: AgentLink, node: str, ports: Sequence[str], *, wanted: bool
    ) -> None:
        self._seen, self._link, self._node, self._ports, self._wanted = seen, link, node, list(ports), wanted
        self._open = False

    async def begin(self) -> None:
        """Start, right before traffic."""
        if not self._wanted:
            return
        self._seen.work = witness = WorkWitness(self._node)
        try:
            await self._link.ask(BeginProcessorWork(interfaces=self._ports), timeout_s=TIMEOUT_S)
            self._open = True
        except (NodeLost, NodeUnreachable):
            return  # the trial learns that by itself
        except NodeError as exc:
            witness.refused = parse_refusal(exc)

    async def end(self) -> None:
        """Stop, right after traffic."""
        witness = self._seen.work
        if witness is None or not self._open:
            return
        self._open = False
        try:
            witness.done = await self._link.ask(EndProcessorWork(), timeout_s=TIMEOUT_S)
        except (NodeLost, NodeUnreachable):
            return
        except NodeError as exc:
            witness.refused = parse_refusal(exc)
