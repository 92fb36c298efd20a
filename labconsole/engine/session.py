"""A session on a testbed: its links, its platform and its lease, and one batch of trials at a time.

The session owns the links (it reconnects lost ones with back-off), the live telemetry, the platform that is set up on
the UUT, and the lease. Everything it changed on a node is undone when a batch ends, well or badly; one that another
operator takes over ends so.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import Generic, TypeVar

from labconsole.contracts.driver import DriverFor
from labconsole.contracts.ports import AgentLink, Connect, RunSink
from labconsole.engine.leases import LeaseHolder, Leases, newest_trial
from labconsole.engine.links import LinkPool
from labconsole.engine.live.events import Event, Listener, Notice, Phase, PhaseChanged
from labconsole.engine.live.observed import ObservedStreams, ObservedTrial
from labconsole.engine.live.telemetry import NodeLive, Telemetry
from labconsole.engine.telling import TrialTelling
from labconsole.engine.trial.order import Take, TrialOrder
from labconsole.engine.trial.platform import UutPlatform
from labconsole.engine.trial.second_guest import check_background, check_reference, second_guest_setup
from labconsole.engine.trial.setup import TrialSettings
from labconsole.engine.trial.stream_wiring import check_mtu
from labconsole.engine.trial.taking import TrialTaker
from labconsole.engine.trial.trial import Trial
from labconsole.errors import LabError, MeasurementError, NodeUnreachable, OnlyWatches
from labconsole.model.design_point import DesignPoint
from labconsole.model.identity import operator_name
from labconsole.model.inventory import Inventory, Stream
from labconsole.model.limits_check import check_request, nodes_of
from labconsole.model.plan.estimate import TRIAL_OVERHEAD_S
from labconsole.model.record.envelope import Envelope, NodeVersions
from labconsole.model.record.run import RunRecord
from labconsole.model.tolerances import Tolerances
from labconsole.wire import lease, message
from labconsole.wire.counters import CountersSampled

log = logging.getLogger("labconsole.engine")

POLL_S = 0.2
"""How often a node that is waited for is looked at."""

CLOSE_S = 30.0
"""How long close() waits for a batch to stop in order: a drain, its captures counted, the platform restored."""

StoreT = TypeVar("StoreT", bound=RunSink, covariant=True)


class Session(Generic[StoreT]):
    """One operator's session on one testbed. connect() and close() bracket its life."""

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
        """``envelope``: the testbed's calibration, which its runs are held against."""
        self.read_only = read_only
        self.inventory, self.store = inventory, store
        self.telemetry = Telemetry()
        self.operator, self.driver_for, self.guest_processes = operator_name(), driver_for, guest_processes
        for name, node in inventory.nodes.items():
            self.telemetry.nodes[name] = NodeLive(name, node.roles)
        self._shell_argv = shell_argv
        self._pool = LinkPool(
            inventory,
            self.telemetry,
            connect=connect,
            emit=self._emit,
            on_event=self._on_agent_event,
            on_lost=self._on_lost,
            only_watch=read_only,
        )
        self._telling = TrialTelling(self._pool.links, inventory.streams[0].source.node)
        self._listeners: list[Listener] = []
        self._batch = asyncio.Lock()
        self._stop = asyncio.Event()
        self._leases = Leases(self.operator)
        self._observed = ObservedStreams(self.telemetry, inventory, self._pool.links)
        self._platform = UutPlatform(
            inventory,
            self.telemetry,
            self._pool,
            driver_for=driver_for,
            emit=self._emit,
            stopping=self._stop.is_set,
        )
        self._taker = TrialTaker(
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
        """What verdicts go by unless a plan says otherwise."""
        return self._taker.tolerances

    @property
    def envelope(self) -> Envelope | None:
        """The testbed's calibration, where there is one."""
        return self._taker.envelope

    # Listening

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with every event from now on; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def _emit(self, event: Event) -> None:
        for listener in (self._telling.hear, *self._listeners):
            try:
                listener(event)
            except Exception:  # a listener's fault must not void a measurement
                log.exception("a listener failed on %s", type(event).__name__)

    # Links

    @property
    def running(self) -> bool:
        """True while a batch of trials is under way."""
        return self._batch.locked()

    async def connect(self, nodes: Iterable[str] | None = None) -> None:
        """Connect to the nodes (default: all) at once; returns when each is connected or has failed the first time.

        A node that fails raises nothing here: it is told as NodeChanged and tried again in the background.
        """
        await self._pool.connect(nodes or self.inventory.nodes)

    async def close(self) -> None:
        """Stop what runs, close every link. The agents undo what is left; returns when they are gone."""
        await self.abort()
        with suppress(TimeoutError):  # a batch that does not end is ended by its links
            async with asyncio.timeout(CLOSE_S):
                await self._batch.acquire()
        await self._pool.close()

    def _on_lost(self, name: str, reason: str) -> None:
        if name == self.inventory.uut:
            self._platform.forget()
        self._leases.forget(name)
        if self._taker.trial is None:
            self.telemetry.nodes[name].quiet = False
        else:
            self._taker.trial.node_lost(name, reason)

    def _on_agent_event(self, node: str, event: message.AgentEvent) -> None:
        if isinstance(event, lease.LeaseChanged):
            link = self._pool.links.get(node)
            self._leases.seen(node, event, link.clock_offset_ns if link is not None else 0)
            self.telemetry.mark_quiet(node, event.quiet)
            if not self.running:
                self._observed.follow(self.observed_trial())
        elif isinstance(event, lease.LeaseLost) and self._leases.taken_over(node, event):
            self._lose_lease()
        elif isinstance(event, CountersSampled) and not self.running:
            self._observed.add_counters(node)
        if self._taker.trial is not None:
            self._taker.trial.on_agent_event(node, event)

    @property
    def links(self) -> dict[str, AgentLink]:
        """The links that stand now, by node."""
        return self._pool.links

    def versions(self, streams: Iterable[Stream]) -> dict[str, NodeVersions]:
        """Kernels and drivers of the nodes at both ends of these streams, as they are seen now."""
        return self._pool.versions(streams)

    # Nodes, for the operator who looks after them

    def reconnect(self, node: str) -> bool:
        """Try a lost node again now, without waiting for its back-off. False when there is nothing to try."""
        return self._pool.reconnect(node)

    def shell_argv(self, node: str) -> list[str]:
        """The command line that opens a shell on a node by the same way as the link. Blocking: reads ssh_config."""
        self.refuse_if_only_watching()
        if self._shell_argv is None:
            raise NodeUnreachable(node, "this testbed cannot open a shell", operation="shell")
        return self._shell_argv(node, self.inventory)

    @functools.cached_property
    def boots_s(self) -> dict[str, float]:
        """Platform to the time until one guest of it forwards. Raises ConfigError."""
        return {name: self.driver_for(name, self.inventory).about.boot_s for name in self.inventory.platforms}

    def check_background(self, request: DesignPoint) -> None:
        """Raises ConfigError for a background load that the platform cannot have. Asks nobody."""
        check_background(request, self.inventory, self.driver_for)

    def check_now(self, request: DesignPoint) -> None:
        """The same, and for a frame that an interface does not carry, as far as the nodes are known. Asks nobody."""
        self.check_background(request)
        check_mtu(request, self.inventory, self.telemetry)

    def check_stored(self, request: DesignPoint) -> None:
        """Raises ConfigError for a load that is a share of what is not stored, StoreError. Blocking."""
        check_reference(request, self.inventory, self.store)

    # What a session may do

    def refuse_if_only_watching(self) -> None:
        """Raises OnlyWatches. The agents of such a session refuse as well (wire/session.py, OnlyWatch)."""
        if self.read_only:
            raise OnlyWatches

    def refuse_if_others_measure(self, nodes: Iterable[str], what: str) -> None:
        """Raises MeasurementError, with who, since when and what for, when another session holds one of these nodes.

        ``what`` would disturb it.
        """
        for name in nodes:
            holder = self._leases.holders.get(name)
            if holder is not None:
                raise MeasurementError(f"{what} would disturb another session: {name} is held by {holder.describe()}")

    # Checks

    def attending(self, trial: Trial) -> AbstractContextManager[None]:
        """A trial outside any batch, a check's, hears meanwhile what agents tell and what becomes of their links."""
        return self._taker.attending(trial)

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Let no batch begin meanwhile. Raises MeasurementError when one is under way."""
        if self._batch.locked():
            raise MeasurementError("a run is already in progress")
        async with self._batch:
            self._stop.clear()
            self._observed.forget()
            yield

    # Leases

    def lease_holders(self) -> dict[str, LeaseHolder]:
        """Who else holds which of the connected nodes now. Kept up by the agents; asks nobody."""
        return dict(self._leases.holders)

    def observed_trial(self) -> ObservedTrial | None:
        """The trial that another operator takes now, as the agents of its sources tell; asks nobody."""
        return newest_trial(self._leases.holders)

    def _lose_lease(self) -> None:
        """Another operator took the testbed over: nothing more is begun, and the running trial is void."""
        lost = self._leases.lost
        assert lost is not None
        self._stop.set()
        if self._taker.trial is not None:
            self._taker.trial.lease_taken(lost)
        self._emit(Notice(severity="error", message=lost.message, node=lost.node))

    # Trials

    async def run(self, request: DesignPoint, repetitions: int = 1, *, take_over: bool = False) -> list[RunRecord]:
        """Take one design point ``repetitions`` times and store every run.

        Raises LabError when it cannot begin (LeaseHeld when another operator has the testbed, which ``take_over``
        overrides) and LeaseTaken when another operator takes it over; what else goes wrong later is in the records.
        """
        check_request(request, self.inventory)
        await second_guest_setup(request, self.inventory, self.driver_for, self.store)
        records = []
        each_s = request.duration_s + self.settings().drain_s + TRIAL_OVERHEAD_S + self.inventory.defaults.settle_s
        async with self.batch(request, take_over=take_over, left_s=each_s * repetitions) as take:
            for repetition in range(1, repetitions + 1):
                if repetition > 1:
                    await self.renew_lease(each_s * (repetitions - repetition + 1))
                records.append(await take(TrialOrder(request=request, repetition=repetition, repetitions=repetitions)))
                if repetition < repetitions and not self.stopping:
                    await self.settle(self.inventory.defaults.settle_s)
                if self.stopping:
                    break
        return records

    async def abort(self) -> None:
        """Stop the running trial and the batch it belongs to; what was measured is saved. Safe at any time."""
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
        """Hold the testbed for several trials: lease taken, platform kept set up between them, all undone at the end.

        Yields what takes one trial. ``request`` is the first to come; ``purpose`` (default: the request) and
        ``left_s``, how long all of it will take, are what others are told; ``nodes``: those that all of it needs, where
        that is more than the first request does.
        Raises LeaseHeld when another operator has a node, unless ``take_over``, and LeaseTaken at the end when
        another operator took one from us.
        """
        self.refuse_if_only_watching()
        async with self.exclusive():
            try:
                await self._leases.take(
                    self._pool.require(self.nodes_of(request) if nodes is None else list(nodes)),
                    purpose=purpose or request.words(),
                    observe={self.inventory.uut: request.observe},
                    left_s=left_s,
                    take_over=take_over,
                )
                try:
                    yield self._taker.take
                except LabError as exc:
                    if self._leases.lost is not None:
                        raise self._leases.lost from exc  # whatever a node then refused, this is why
                    raise
                if self._leases.lost is not None:
                    raise self._leases.lost
            finally:
                try:
                    await self._platform.restore()
                finally:
                    try:
                        await self._telling.end()
                    finally:
                        await self._leases.release()  # whatever a driver made of it, others may have the testbed

    async def renew_lease(self, left_s: float | None) -> None:
        """Tell who waits for the testbed how long the batch will still take; None says nothing new."""
        await self._leases.renew(left_s)

    async def wait_connected(self, nodes: Iterable[str], *, within_s: float) -> None:
        """Wait until these nodes are connected again. Raises NodeUnreachable with the reason when one is not in time.

        Returns at once when the session is aborted.
        """
        names = list(nodes)
        deadline = time.monotonic() + within_s
        while not self.stopping:
            try:
                self._pool.require(names)
                return
            except NodeUnreachable:
                if time.monotonic() > deadline:
                    raise
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._stop.wait()

    def nodes_of(self, request: DesignPoint) -> list[str]:
        """The UUT, and the sources and sinks of the streams that a request uses."""
        return nodes_of(request, self.inventory)

    def settings(self, *, drain_s: float | None = None) -> TrialSettings:
        """How trials are taken on this testbed unless a plan says otherwise."""
        return TrialSettings.of(self.inventory, drain_s)
