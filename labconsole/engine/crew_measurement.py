"""Taking a trial on a running crew, whatever the guests do: the attempt, the throughput seen live, the sink's end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeVar

from labconsole.contracts.crew import StandingCrew
from labconsole.contracts.experiment import Stage
from labconsole.contracts.picture import OverTime, PictureCurve
from labconsole.contracts.ports import AgentLink
from labconsole.engine.trial.window import Readings
from labconsole.errors import Aborted, AgentError, NodeError, NodeLost, TooLittleMemory
from labconsole.model.identity import new_run_id, utc_now
from labconsole.model.inventory import Inventory
from labconsole.model.record.kind import ProgramRecord
from labconsole.model.record.run import Reason
from labconsole.packets.flows import MAX_BINS
from labconsole.verdict.observations import Snapshot, TrialObservations, parse_snapshot
from labconsole.verdict.reasons import reason
from labconsole.wire.capture import CaptureResult, StartCapture, StopCapture
from labconsole.wire.changes import AnyChange, ApplyChanges, UndoChanges
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import CountersSampled, ReadCounters
from labconsole.wire.execution import Execute
from labconsole.wire.links import ReadLinks
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


def choose_cpu(placing: Literal["same", "own", "any"], cpus: Sequence[int], number: int) -> str | None:
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


# -- crew watch --------------------------------------------------------------------------------------------------------
# Throughput of guests over time, from the counters of their interfaces on the UUT, for live display. Pure.

LEAST_STEP_S = 0.2
"""Minimum time between two points of a curve; shorter intervals mostly show noise of the reading times."""

MOST_POINTS = 400


class CountingWatch:
    """Takes samples of the UUT's counters. ``guests``: interface index on the UUT to the guest's name.

    A value is the increase of ``statistic`` per second, times ``scale``.
    """

    def __init__(self, guests: Mapping[int, str], statistic: str, scale: float) -> None:
        self._names, self._place, self._scale = dict(guests), STAT_NAMES.index(statistic), scale
        self._begun_ns: int | None = None
        self._last: dict[int, tuple[int, int]] = {}
        self._curves: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in guests.values()}

    def see(self, sample: CountersSampled) -> bool:
        """Add a sample; return whether a point was added. Time begins with the first sample."""
        added = False
        for index, values in sample.namespaces.get("", ()):
            if index in self._names and len(values) > self._place:
                added |= self._count(index, sample.monotonic_ns, values[self._place])
        return added

    def _count(self, index: int, at_ns: int, counted: int) -> bool:
        self._begun_ns = at_ns if self._begun_ns is None else self._begun_ns
        former_ns, former = self._last.setdefault(index, (at_ns, counted))
        took_s = (at_ns - former_ns) / 1e9
        if took_s < LEAST_STEP_S:
            return False
        self._last[index] = at_ns, counted
        seconds, values = self._curves[self._names[index]]
        seconds.append((at_ns - self._begun_ns) / 1e9)
        values.append(max(0, counted - former) / took_s * self._scale)
        del seconds[:-MOST_POINTS], values[:-MOST_POINTS]
        return True

    def since_begun_s(self, at_ns: int) -> float | None:
        """A time of the UUT's monotonic clock on the curves' time axis, or None before the first sample."""
        return None if self._begun_ns is None else (at_ns - self._begun_ns) / 1e9

    def over_time(self, title: str, unit: str, moments: Sequence[tuple[float, str]] = ()) -> OverTime:
        """The curves so far."""
        curves = tuple(
            PictureCurve(name=name, seconds=tuple(seconds), values=tuple(values))
            for name, (seconds, values) in self._curves.items()
        )
        return OverTime(title=title, unit=unit, curves=curves, moments=tuple(moments))


# -- crew sink ---------------------------------------------------------------------------------------------------------
# The sink's end of trials that count packets there: its MAC address, and counters before and after, when steady.
#
# Shared by guests that send and guests that forward.

MOST_DRAIN_S = 10.0
"""Maximum time that packets may wait in queues after the last was sent."""

_RX = STAT_NAMES.index("rx_packets")


async def find_sink_mac(crew: StandingCrew) -> str:
    """The MAC address of the sink's NIC. Raises NodeError if the node does not report it."""
    links = {link.name: link.mac for link in (await crew.timekeeper.ask(ReadLinks())).links if not link.namespace}
    if not (mac := links.get(crew.stream.sink.interface)):
        raise NodeError(crew.timekeeper.name, f"does not say the MAC address of {crew.stream.sink.interface}")
    return mac.lower()


async def read_counters(crew: StandingCrew) -> tuple[Snapshot, Snapshot]:
    """Counters of the UUT and of the sink. Raises NodeError."""
    replies = await asyncio.gather(crew.uut.ask(ReadCounters()), crew.timekeeper.ask(ReadCounters()))
    uut, sink = map(parse_snapshot, replies)
    return uut, sink


async def read_counters_after_drain(
    crew: StandingCrew, drain_s: float, seen: TrialObservations
) -> tuple[Snapshot, Snapshot]:
    """Counters once no packet arrives at the sink any more, so that packets queued on the path are not counted as lost.

    If packets never stop arriving, ``seen`` gets a doubt. Raises NodeError.
    """
    port, found = ("", crew.stream.sink.interface), await read_counters(crew)
    for _ in range(max(1, round(MOST_DRAIN_S / drain_s))):
        await asyncio.sleep(drain_s)
        former, found = found, await read_counters(crew)
        if port in found[1] and port in former[1] and found[1][port].values[_RX] == former[1][port].values[_RX]:
            return found
    detail = f"packets still arrived at the sink {MOST_DRAIN_S:g} s after the last was sent"
    seen.doubts.append(reason("not_drained", detail))
    return found


# -- sink capture ------------------------------------------------------------------------------------------------------
# Captures all packets at the sink's NIC while guests send or forward, by flow and time bin.

SNAP_BYTES = 64
CLOSE_S = 300.0
"""Time that a sink may take to count the rest of its capture."""


@dataclass(slots=True, kw_only=True)
class SinkCapture:
    """One capture. If ``found`` is None after ``close``, ``failure`` says why."""

    crew: StandingCrew
    name: str
    found: CaptureResult | None = None
    failure: str = ""
    closed: bool = False

    async def close(self) -> None:
        """Close the capture and have it counted. Raises NodeLost."""
        self.closed = True
        try:
            self.found = await self.crew.timekeeper.ask(StopCapture(capture=self.name), timeout_s=CLOSE_S)
        except NodeLost:
            raise
        except NodeError as exc:
            self.failure = exc.message


@asynccontextmanager
async def captured_at_sink(
    crew: StandingCrew, inventory: Inventory, name: str, *, expected_packets: int, bin_s: float, bins: int
) -> AsyncIterator[SinkCapture]:
    """Capture without a filter, to see other senders too, until the context ends. Raises NodeError."""
    sink = crew.timekeeper
    capture = SinkCapture(crew=crew, name=name)
    start = StartCapture(
        capture=name,
        interface=crew.stream.sink.interface,
        filter="",
        snap_bytes=SNAP_BYTES,
        buffer_kib=inventory.defaults.capture_buffer_kib,
        directory=inventory.nodes[sink.name].capture_dir,
        expected_packets=expected_packets,
        flow_bin_ns=round(bin_s * 1e9),
        flow_bins=min(MAX_BINS, bins),
    )
    try:
        await sink.ask(start)
        yield capture
    finally:
        if not capture.closed:
            with suppress(NodeError):
                await sink.ask(StopCapture(capture=name), timeout_s=CLOSE_S)
