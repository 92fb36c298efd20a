"""Taking a trial on a running crew, whatever the guests do: clocks, swap, programs, attestation."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TypeVar

from labconsole.contracts.crew import StandingCrew
from labconsole.contracts.experiment import Stage
from labconsole.contracts.ports import AgentLink
from labconsole.engine.trial.window import Readings
from labconsole.errors import Aborted, AgentError, NodeError, NodeLost, TooLittleMemory
from labconsole.model.identity import new_run_id, utc_now
from labconsole.model.record.kind import Placing, ProgramRecord
from labconsole.model.record.run import Reason
from labconsole.verdict.observations import TrialObservations
from labconsole.verdict.reasons import reason
from labconsole.wire.changes import AnyChange, ApplyChanges, UndoChanges
from labconsole.wire.execution import Execute
from labconsole.wire.marks import SeenMarks, StartMarks, StopMarks

# -- common parts ------------------------------------------------------------------------------------------------------
# Common parts of taking a trial on a running crew, whatever the guests do.

_SHA256 = re.compile(r"^([0-9a-f]{64})\s", re.MULTILINE)
_SWAPPED = re.compile(r"^pswp(?:in|out) (\d{1,20})$", re.MULTILINE)

DID_NOT_COME = ("guest_silent", "guest_ended", "no_busybox")
"""Codes of a guest that was started and did not answer, or ended, or cannot send a mark."""

NO_SPACE = "no_space"
"""The code for lack of disk space, in agents' errors and in verdicts."""

NOT_SET_UP = frozenset({"guests_missing", "no_memory", NO_SPACE})
"""Codes of a trial whose guests were not set up."""

T = TypeVar("T")


def build_empty_observations(why: Reason) -> TrialObservations:
    """Observations of a trial that could not be taken, with the reason."""
    seen = TrialObservations(run_id=new_run_id(datetime.now(UTC)), started_at=utc_now())
    seen.doubts.append(why)
    return seen


async def run_cancellable(stage: Stage, work: Awaitable[T]) -> T:
    """Await ``work``, unless the operator stops it: then end the guests with their work. Raises Aborted."""
    task, stop = asyncio.ensure_future(work), asyncio.ensure_future(stage.wait_stopping())
    try:
        await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()  # the task that makes guests uses the stage until it is over
            await asyncio.gather(task, return_exceptions=True)
            await stage.restore()
            raise Aborted("the plan was ended")
        return task.result()
    finally:
        task.cancel()
        stop.cancel()
        await asyncio.gather(task, stop, return_exceptions=True)


async def start_crew(stage: Stage, standing: Awaitable[StandingCrew]) -> StandingCrew | Reason:
    """The running guests, or why they do not start. Raises NodeError for reasons unrelated to guests, and Aborted."""
    try:
        return await run_cancellable(stage, standing)
    except TooLittleMemory as exc:
        return reason("no_memory", exc.message)
    except AgentError as exc:
        if exc.code == NO_SPACE:
            return reason(NO_SPACE, exc.message)
        if exc.code not in DID_NOT_COME:
            raise
        return reason("guests_missing", exc.message)


@asynccontextmanager
async def apply_changes(uut: AgentLink, changes: list[AnyChange], token: str) -> AsyncIterator[None]:
    """Apply these changes within the context. Raises NodeError if one cannot be made, or not be undone."""
    if not changes:
        yield
        return
    await uut.ask(ApplyChanges(token=token, changes=changes))
    try:
        yield
    except BaseException:
        with suppress(NodeError):  # the trial's own error says more; an agent that is gone has undone it
            await uut.ask(UndoChanges(token=token))
        raise
    if failed := (await uut.ask(UndoChanges(token=token))).failed:
        raise NodeError(uut.name, f"not undone: {'; '.join(failed)}")


@asynccontextmanager
async def record_marks(timekeeper: AgentLink, start: StartMarks) -> AsyncIterator[list[SeenMarks]]:
    """Record marks within the context; afterwards they are in the list.

    Recording always stops, also if it is cancelled while starting: the agent may have started it although its answer is
    no longer awaited.
    """
    seen: list[SeenMarks] = []
    try:
        await timekeeper.ask(start)
        yield seen
    except BaseException:
        with suppress(NodeError):  # the error itself says more
            await timekeeper.ask(StopMarks(marks=start.marks))
        raise
    seen.append(await timekeeper.ask(StopMarks(marks=start.marks)))


async def read_swapped_pages(uut: AgentLink) -> int | None:
    """Pages that the UUT has moved in and out of swap since it was started, or None if not reported."""
    reply = await uut.ask(Execute(argv=["cat", "/proc/vmstat"], timeout_s=5))
    found = _SWAPPED.findall(reply.stdout)
    return sum(map(int, found)) if len(found) == 2 else None


async def identify_program(crew: StandingCrew, program: str, names: Sequence[str]) -> ProgramRecord:
    """Whether all guests have the same program file: its SHA-256 on each of these guests, read once per crew."""
    known = crew.programs.setdefault(program, {})
    standing = {member.name: member for member in crew.crew.members}
    line = f"p=$(which {program}) && sha256sum $p"

    async def look(name: str) -> None:
        try:
            answer = await standing[name].ask(crew.uut, line)
        except NodeLost:
            raise
        except NodeError:
            return  # the work itself will report the problem, with a better message
        found = _SHA256.search(answer)
        if found is not None:
            known[name] = found[1]

    await asyncio.gather(*(look(name) for name in names if name not in known))
    return ProgramRecord(
        name=program,
        sha256=tuple(sorted({known[name] for name in names if name in known})),
        unknown=sum(name not in known for name in names),
    )


async def find_attestation_drift(standing: StandingCrew) -> list[str]:
    """Differences between the guests and their attestation at set-up, in sentences. Raises NodeLost."""
    crew = standing.crew
    if crew.attest is None:
        return []
    try:
        after = await crew.attest(standing.uut)
    except NodeLost:
        raise
    except NodeError as exc:
        return [exc.message]
    if after == crew.attestation:
        return []
    return ["the guests are not what was set up: their attestation changed"]


def choose_cpu(placing: Placing, cpus: Sequence[int], number: int) -> str | None:
    """The CPU on which a guest, counted from 0, is to run. ``cpus``: the UUT's, the last one shared by all."""
    if placing == "any" or not cpus:
        return None
    return str(cpus[-1] if placing == "same" else cpus[number % len(cpus)])


# -- crew attempt ------------------------------------------------------------------------------------------------------
# One attempt on a running crew, independent of its work: opening and closing the attempt.
#
# It covers the set-up that the attempt belongs to, other activity at both ends, pages swapped meanwhile, and whether
# the guests are still what was set up.


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
