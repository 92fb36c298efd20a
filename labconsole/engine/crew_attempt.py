"""One attempt on a running crew, independent of its work: opening and closing the attempt.

It covers the set-up that the attempt belongs to, other activity at both ends, pages swapped meanwhile, and whether the
guests are still what was set up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from labconsole.contracts.crew import StandingCrew
from labconsole.contracts.experiment import Stage
from labconsole.contracts.ports import AgentLink
from labconsole.engine.crew_measurement import find_attestation_drift, identify_program, read_swapped_pages
from labconsole.engine.trial.window import Readings
from labconsole.model.identity import new_run_id, utc_now
from labconsole.model.record.crew_trial import ProgramRecord
from labconsole.verdict.observations import TrialObservations


class CrewAttempt:
    """One attempt on a crew.

    ``problems``: a sentence for each guest that did not answer, or is not as it was set up; ``nodes``: those that took
    part.
    """

    def __init__(self, stage: Stage, crew: StandingCrew) -> None:
        self.stage, self.crew = stage, crew
        self.observations = TrialObservations(run_id=new_run_id(datetime.now(UTC)), started_at=utc_now())
        self.observations.attestation = crew.crew.attestation  # identifies our guests where no process does
        self.set_up = crew.begin_trial()
        self.program: ProgramRecord | None = None
        self.swapped_pages: int | None = None
        self.problems: list[str] = []
        self.nodes: tuple[AgentLink, ...] = ()

    async def find_program(self, name: str, guests: Sequence[str]) -> None:
        """Identify the program of this name on these guests."""
        self.program = await identify_program(self.crew, name, guests)

    @asynccontextmanager
    async def watched(self, nodes: Mapping[AgentLink, Sequence[str]]) -> AsyncIterator[None]:
        """Read other activity at both ends within this context. ``nodes``: each with the interfaces to read."""
        self.nodes = tuple(nodes)
        uut, pids = self.crew.uut, [member.pid for member in self.crew.crew.members if member.pid is not None]
        readings = Readings(
            self.observations,
            {node.name: node for node in nodes},
            {node.name: list(interfaces) for node, interfaces in nodes.items()},
            self.stage.guest_processes,
            {uut.name: pids},
            self.stage.inventory,
        )
        before = await read_swapped_pages(uut)
        await readings.open()
        yield
        await readings.close()
        after = await read_swapped_pages(uut)
        if before is None or after is None:
            detail = "does not say whether pages were moved in or out of swap"
            self.observations.notes.append({"node": uut.name, "kind": "not_observed", "detail": detail})
        else:
            self.swapped_pages = after - before

    async def attest(self, silent: Iterable[tuple[str, str]] = ()) -> None:
        """Check whether the guests are what was set up. ``silent``: those that did not answer, with the reason.

        If there are silent guests, none is attested, because a guest without answers does not report about itself
        either.
        """
        found = [f"{guest}: {why}" for guest, why in silent]
        self.problems += found or await find_attestation_drift(self.crew)
