"""A session on a testbed: its links, its platform and its lease, and one batch of trials at a time.

The session owns the links (it re-establishes lost ones with back-off), the live telemetry, the platform that is set up
on the UUT, and the lease. When a batch ends, successfully or not, every change on a node is undone; a batch whose lease
another operator takes over ends the same way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime

from labconsole.contracts.driver import DriverFor
from labconsole.contracts.ports import Connect
from labconsole.engine.connections import ConnectedTestbed, StoreT
from labconsole.engine.crew_stage import CrewStage
from labconsole.engine.leases import TrialAnnouncer
from labconsole.engine.live.events import GuestTrialStarted, Notice, Phase, PhaseChanged
from labconsole.engine.trial.platform import UutPlatform
from labconsole.engine.trial.recorder import TrialRecorder
from labconsole.engine.trial.second_guest import second_guest_setup
from labconsole.engine.trial.setup import Take, TrialRequest, check_mtu
from labconsole.engine.trial.trial import Trial
from labconsole.errors import Aborted, LabError, MeasurementError, NodeLost
from labconsole.model.design_point import DesignPoint
from labconsole.model.identity import new_run_id
from labconsole.model.inventory import Inventory
from labconsole.model.limits_check import check_request
from labconsole.model.plan.estimate import TRIAL_OVERHEAD_S
from labconsole.model.record.envelope import Envelope
from labconsole.model.record.run import Role, RunRecord
from labconsole.model.tolerances import Tolerances
from labconsole.wire import lease, message

log = logging.getLogger("labconsole.engine")

CLOSE_S = 30.0
"""Time that close() gives a batch to stop in order: drain, count its captures, restore the platform."""


class Session(ConnectedTestbed[StoreT]):
    """One operator's session on one testbed, from connect() to close()."""

    def __init__(
        self,
        inventory: Inventory,
        *,
        connect: Connect,
        driver_for: DriverFor,
        guest_processes: Callable[[], Sequence[str]] = tuple,
        store: StoreT,
        tolerances: Tolerances | None = None,
        shell_argv: Callable[[str, Inventory], list[str]] | None = None,
        read_only: bool = False,
        envelope: Envelope | None = None,
    ) -> None:
        """``envelope``: the testbed's calibration, against which its runs are judged."""
        super().__init__(
            inventory,
            connect=connect,
            driver_for=driver_for,
            guest_processes=guest_processes,
            store=store,
            shell_argv=shell_argv,
            read_only=read_only,
        )
        self._announcer = TrialAnnouncer(self._pool.links, inventory.streams[0].source.node)
        self.subscribe(self._announcer.hear)
        self._batch = asyncio.Lock()
        self._stop = asyncio.Event()
        self._platform = UutPlatform(
            inventory,
            self.telemetry,
            self._pool,
            driver_for=driver_for,
            emit=self._emit,
            stopping=self._stop.is_set,
        )
        self.stage = CrewStage(
            inventory,
            self._pool,
            driver_for=driver_for,
            emit=self._emit,
            stop=self._stop,
            guest_processes=guest_processes,
        )
        self._taker = TrialRecorder(
            inventory=inventory,
            telemetry=self.telemetry,
            links=self._pool,
            leases=self._leases,
            platform=self._platform,
            store=store,
            driver_for=driver_for,
            guest_processes=guest_processes,
            operator=self.operator,
            tolerances=tolerances or Tolerances(),
            envelope=envelope,
            emit=self._emit,
            stopping=self._stop.is_set,
        )

    @property
    def tolerances(self) -> Tolerances:
        """The tolerances of verdicts, unless a plan has its own."""
        return self._taker.tolerances

    @property
    def envelope(self) -> Envelope | None:
        """The testbed's calibration, or None."""
        return self._taker.envelope

    # Links

    @property
    def running(self) -> bool:
        """True while a batch of trials is under way."""
        return self._batch.locked()

    async def close(self) -> None:
        """Stop what runs, close every link. The agents undo what is left; returns when they are gone."""
        await self.abort()
        with suppress(TimeoutError):  # closing the links ends a batch that does not end by itself
            async with asyncio.timeout(CLOSE_S):
                await self._batch.acquire()
        await self._pool.close()

    def _on_lost(self, name: str, reason: str) -> None:
        if name == self.inventory.uut:
            self._platform.forget()
        super()._on_lost(name, reason)
        if self._taker.trial is None:
            self.telemetry.nodes[name].quiet = False
        else:
            self._taker.trial.node_lost(name, reason)

    def _on_agent_event(self, node: str, event: message.AgentEvent) -> None:
        super()._on_agent_event(node, event)
        self.stage.hear(node, event)
        if isinstance(event, lease.LeaseLost) and self._leases.taken_over(node, event):
            self._lose_lease()
        if self._taker.trial is not None:
            self._taker.trial.on_agent_event(node, event)

    # Checks

    def attending(self, trial: Trial) -> AbstractContextManager[None]:
        """Forward agents' events and link losses to a trial outside any batch, a check's, within this context."""
        return self._taker.attending(trial)

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Let no batch begin within this context. Raises MeasurementError if one is under way."""
        if self._batch.locked():
            raise MeasurementError("a run is already in progress")
        async with self._batch:
            self._stop.clear()
            self._observed.forget()
            yield

    # Leases

    def _lose_lease(self) -> None:
        """Another operator took the testbed over: begin nothing more, and void the running trial."""
        lost = self._leases.lost
        assert lost is not None
        self._stop.set()
        if self._taker.trial is not None:
            self._taker.trial.lease_taken(lost)
        self._emit(Notice(severity="error", message=lost.message, node=lost.node, is_raised=True))

    # Trials

    async def run(
        self, request: DesignPoint, repetitions: int = 1, *, take_over: bool = False, role: Role = "measured"
    ) -> list[RunRecord]:
        """Take one design point ``repetitions`` times and store every run.

        Raises LabError if it cannot begin (LeaseHeld if another operator has the testbed, which ``take_over``
        overrides), and LeaseTaken if another operator takes it over. Other later problems are in the records.
        """
        check_request(request, self.inventory)
        check_mtu(request, self.inventory, self.telemetry)
        await second_guest_setup(request, self.inventory, self.driver_for, self.store)
        records = []
        each_s = request.duration_s + self.settings().drain_s + TRIAL_OVERHEAD_S + self.inventory.defaults.settle_s
        async with self.batch(request, take_over=take_over, left_s=each_s * repetitions) as take:
            for repetition in range(1, repetitions + 1):
                if repetition > 1:
                    await self.renew_lease(each_s * (repetitions - repetition + 1))
                order = TrialRequest(request=request, repetition=repetition, repetitions=repetitions, role=role)
                records.append(await take(order))
                if repetition < repetitions and not self.stopping:
                    await self.settle(self.inventory.defaults.settle_s)
                if self.stopping:
                    break
        return records

    async def abort(self) -> None:
        """Stop the running trial and its batch; results so far are saved. Safe at any time."""
        self._stop.set()
        if self._taker.trial is not None:
            self._taker.trial.abort()

    @property
    def stopping(self) -> bool:
        """True once abort() was called in the running batch."""
        return self._stop.is_set()

    async def wait_stopping(self) -> None:
        """Return once abort() is called."""
        await self._stop.wait()

    async def settle(self, seconds: float) -> None:
        """Let the UUT restabilise between trials (RFC 2544 section 23 e); abort() ends the wait."""
        if seconds <= 0:
            return
        self._emit(PhaseChanged(run_id="", phase=Phase.SETTLING, expected_s=seconds))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()

    @asynccontextmanager
    async def batch(
        self,
        request: DesignPoint,
        *,
        purpose: str | None = None,
        take_over: bool = False,
        left_s: float | None = None,
        nodes: Iterable[str] | None = None,
    ) -> AsyncIterator[Take]:
        """Lease the testbed for several trials, keep the platform set up between them, and undo everything at the end.

        Yields the function that takes one trial. ``request`` is the first request. Others see ``purpose`` (default: the
        request) and ``left_s``, the expected duration of the batch. ``nodes``: the nodes of all requests, if they are
        more than those of the first.

        Raises LeaseHeld if another operator has a node, unless ``take_over``, and at the end LeaseTaken if another
        operator took one from us.
        """
        self.refuse_if_only_watching()
        async with self.exclusive():
            try:
                names = self.nodes_of(request) if nodes is None else list(nodes)
                await self._wait_connected(names)
                await self._leases.take(
                    self._pool.require(names),
                    purpose=purpose or request.words(),
                    observe={self.inventory.uut: request.observe},
                    left_s=left_s,
                    take_over=take_over,
                )
                try:
                    yield self._taker.take
                except LabError as exc:
                    if self._leases.lost is not None:
                        raise self._leases.lost from exc  # the cause of whatever a node refused afterwards
                    raise
                if self._leases.lost is not None:
                    raise self._leases.lost
            finally:
                async with AsyncExitStack() as ending:  # in reverse order, even if a driver raises an unknown error
                    ending.push_async_callback(self._leases.release)  # then others may have the testbed
                    ending.push_async_callback(self._announcer.end)
                    ending.push_async_callback(self._platform.restore)
                    ending.push_async_callback(self.stage.restore)

    async def _wait_connected(self, names: Sequence[str]) -> None:
        """Wait for nodes that are being connected. Raises Aborted if abort() is called meanwhile."""
        tried, stop = asyncio.ensure_future(self._pool.connect(names)), asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait((tried, stop), return_when=asyncio.FIRST_COMPLETED)
        finally:
            tried.cancel()
            stop.cancel()
        if self._stop.is_set():
            raise Aborted("stopped while nodes were being connected")

    def announce_guest_trial(self, request: DesignPoint, description: str, plan: str | None) -> None:
        """Announce a trial of an experiment with guests to all watching sessions. See GuestTrialStarted."""
        run_id = new_run_id(datetime.now(UTC))
        self._emit(GuestTrialStarted(run_id=run_id, request=request, words=description, plan=plan))

    async def renew_lease(self, left_s: float | None) -> None:
        """Announce how long the batch will still take to operators who wait; None announces nothing.

        Nodes that were lost and are back are leased again. Raises LeaseHeld if another operator has one by now.
        """
        with suppress(NodeLost):  # the trial notices that by itself
            await self._leases.retake(self._pool.links)
        await self._leases.renew(left_s)
