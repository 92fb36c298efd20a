"""The background load of one trial: started in the second guest, sampled at both ends of the counted window, ended.

The record contains what was observed, from inside and from outside the guest, never what was requested. The second
guest's own stream does not belong here: it is sent, captured and counted like any other (trial.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labconsole.contracts.driver import SecondGuest
from labconsole.contracts.ports import AgentLink
from labconsole.engine.concurrent_requests import run_concurrently
from labconsole.engine.trial import guest_load
from labconsole.engine.trial.guest_load import ImplausibleAnswer, LoadSample
from labconsole.engine.trial.second_guest import SecondGuestSetup
from labconsole.errors import CapabilityMissing, NodeError, NodeLost, NodeUnreachable
from labconsole.model.record.run import Background, Figures
from labconsole.wire.usage import ProcessUsage, Usage

UP_S = 20.0
"""Time for the workers to start; a guest may be an emulated machine."""

DOWN_S = 5.0
LOOK_S = 0.02
USAGE_S = 10.0
MIB = 2**20


@dataclass(frozen=True, slots=True)
class _Moment:
    """One end of the window: the guest's own sample, and the UUT's of the guest's processes, or None if missing."""

    at_s: float
    inside: LoadSample | None
    outside: Usage | None


class BackgroundLoad:
    """The background load of one trial. ``notes`` are added to the trial's: what could not be observed, and why."""

    def __init__(
        self,
        setup: SecondGuestSetup,
        guest: SecondGuest,
        uut: AgentLink,
        *,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.notes: list[Figures] = []
        self._stopping = stopping
        self._setup, self._guest, self._uut = setup, guest, uut
        self._kind = setup.kind
        self._leader: int | None = None
        self._workers: list[int] = []
        self._facts: guest_load.GuestFacts | None = None
        self._begin: _Moment | None = None
        self._end: _Moment | None = None

    async def start(self) -> None:
        """Start the load, if this kind has one; wait until all of its workers run, or until the trial is stopped.

        Raises CapabilityMissing or NodeError naming the guest and what it lacks; then nothing of the load is left.
        """
        if self._kind not in guest_load.ARGUMENTS:
            return
        if self._guest.ask is None:
            raise self._complaint(self._guest.cannot or "no program can be run inside it", missing=True)
        self._facts = guest_load.parse_facts(await self._ask(guest_load.FACTS_LINE))
        self._refuse_too_small()
        answer = await self._ask(guest_load.start_line(self._kind))
        for word, program in ((guest_load.NO_STRESS, "stress"), (guest_load.NO_SETSID, "setsid")):
            if answer.strip() == word:
                package = "stress" if program == "stress" else "util-linux"
                where = self._uut.name if self._guest.same_pids else "it"
                message = f"does not have {program}: install the package {package} in {where}"
                raise self._complaint(message, missing=True)
        try:
            self._leader = guest_load.parse_started(answer)
            await self._wait_up()
        except ImplausibleAnswer as exc:
            raise self._complaint(str(exc)) from exc

    def _refuse_too_small(self) -> None:
        needed, there = guest_load.MEMORY_BYTES[self._kind], self._facts.available_bytes if self._facts else None
        if there is not None and there < needed:
            raise self._complaint(
                f"has {there // MIB} MiB of memory to spare, and background {self._kind} (stress "
                f"{guest_load.ARGUMENTS[self._kind]}) writes to {needed // MIB} MiB: give the guest more"
            )

    async def _wait_up(self) -> None:
        assert self._leader is not None
        wanted = guest_load.WORKERS[self._kind]
        deadline = time.monotonic() + UP_S
        while True:
            self._workers = guest_load.parse_workers(await self._ask(guest_load.FIND_LINE), self._leader)
            if len(self._workers) == wanted or self._stopping():
                return
            if time.monotonic() > deadline:
                running = f"{len(self._workers)} of {wanted} processes after {UP_S:g} s"
                raise self._complaint(f"stress {guest_load.ARGUMENTS[self._kind]} did not come up: {running}")
            await asyncio.sleep(LOOK_S)

    async def begin(self) -> None:
        """Take the sample at the beginning of the window."""
        self._begin = await self._look()

    async def end(self) -> None:
        """Take the sample at the end of the window. Unreadable values are unknown, which is not an error."""
        self._end = await self._look()

    async def stop(self) -> None:
        """End the load and wait until it has ended. Safe to call twice or before a start. Raises NodeError."""
        if self._leader is None:
            return
        leader, deadline = self._leader, time.monotonic() + DOWN_S
        while True:
            try:
                left = guest_load.parse_group_members(await self._ask(guest_load.end_line(leader)), leader)
            except ImplausibleAnswer as exc:
                raise self._complaint(str(exc)) from exc
            if not left:
                self._leader = None
                return
            if time.monotonic() > deadline:
                raise self._complaint(f"{len(left)} processes of its load do not terminate")
            await asyncio.sleep(LOOK_S)

    def result(self) -> Background:
        """The record of the load, without the second guest's own stream."""
        requested: dict[str, int | float] = {}
        achieved: dict[str, int | float | None] = {}
        begin, end = self._begin, self._end
        inside = (begin.inside, end.inside) if begin is not None and end is not None else (None, None)
        if self._kind in guest_load.WORKERS:
            requested = {"workers": guest_load.WORKERS[self._kind], "demand_ratio": 1.0}
            achieved = dict.fromkeys(requested)
            if inside[0] is not None and inside[1] is not None:
                page_bytes = self._facts.page_bytes if self._facts is not None else None
                achieved |= guest_load.figures(self._kind, inside[0], inside[1], page_bytes)
        if inside[0] is not None and inside[1] is not None:
            achieved["steal_ratio"] = guest_load.steal_ratio(inside[0], inside[1])
        achieved |= self._outside()
        if begin is not None and end is not None:
            achieved["window_s"] = end.at_s - begin.at_s
        if self._setup.request is not None:
            requested["offered_pps"] = self._setup.offered_pps
        return Background(
            kind=self._kind,
            guest=self._guest.name,
            cpus=self._guest.cpus,
            requested=requested,
            achieved=achieved,
            reference=self._setup.reference,
        )

    def _outside(self) -> dict[str, int | float | None]:
        """The UUT's view: processor time of the guest's processes, and their time waiting for a processor."""
        first, last = (moment.outside if moment is not None else None for moment in (self._begin, self._end))
        if first is None or last is None:
            return {}
        found: dict[str, int | float | None] = {}
        for name, before, after in (
            ("host_cpu_s", first.cpu_ns, last.cpu_ns),
            ("host_wait_s", first.wait_ns, last.wait_ns),
        ):
            found[name] = None if before is None or after is None or after < before else (after - before) / 1e9
        return found

    async def _look(self) -> _Moment:
        inside: list[LoadSample] = []
        outside: list[Usage] = []

        async def ask_inside() -> None:
            if self._guest.ask is None:
                return
            try:
                answer = await self._ask(guest_load.sample_line(self._workers))
                inside.append(guest_load.parse_sample(answer, self._workers))
            except ImplausibleAnswer as exc:
                self._note(str(exc))

        async def ask_outside() -> None:
            pids = [] if self._guest.pid is None else [self._guest.pid]
            if self._guest.same_pids:
                pids += self._workers
            if pids:
                outside.append(await self._uut.ask(ProcessUsage(pids=pids), timeout_s=USAGE_S))

        async def noted(work: Any) -> None:
            try:
                await work
            except (NodeLost, NodeUnreachable):
                return  # the trial learns that by itself
            except NodeError as exc:
                self._note(exc.message)

        at_s = time.monotonic()
        await run_concurrently([noted(ask_inside()), noted(ask_outside())])
        return _Moment(at_s, inside[0] if inside else None, outside[0] if outside else None)

    async def _ask(self, line: str) -> str:
        assert self._guest.ask is not None
        return await self._guest.ask(self._uut, line)

    def _note(self, detail: str) -> None:
        self.notes.append({"node": self._uut.name, "kind": "background", "detail": f"{self._guest.name}: {detail}"})

    def _complaint(self, what: str, *, missing: bool = False) -> NodeError:
        kind = CapabilityMissing if missing else NodeError
        return kind(self._uut.name, f"the second guest, {self._guest.name}: {what}", operation="background")
