"""A connected testbed: what the console and the headless commands both drive, one batch of trials at a time.

The session owns the links (it reconnects lost ones with back-off), the live telemetry, the platform that is set up on
the UUT, and the lease. Everything it changed on a node is undone when a batch ends, well or badly.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from labconsole.engine.assemble import build_record
from labconsole.engine.campaign import Campaign
from labconsole.engine.driver import Driver, Prepared, StreamWiring
from labconsole.engine.events import (
    Event,
    Listener,
    Notice,
    Phase,
    PhaseChanged,
    TrialFinished,
    TrialStarted,
)
from labconsole.engine.fleet import Fleet
from labconsole.engine.inspection import Inspection, inspect
from labconsole.engine.learning import Learning, wait_forwarding
from labconsole.engine.live import LiveStreams
from labconsole.engine.ports import AgentLink, Connect, RunSink
from labconsole.engine.telemetry import NodeLive, Telemetry
from labconsole.engine.trial import Trial, TrialSettings
from labconsole.errors import ConfigError, MeasurementError, NodeError, NodeUnreachable, StoreError
from labconsole.model.inventory import Inventory, Stream
from labconsole.model.record import PlanRef, RunRecord
from labconsole.model.request import TrialRequest, check_request
from labconsole.model.run_id import new_run_id
from labconsole.model.tolerances import Tolerances

if TYPE_CHECKING:
    from labconsole.engine.preflight.result import CheckResult, OnResult
    from labconsole.model.plan import Plan

log = logging.getLogger("labconsole.engine")

POLL_S = 0.2
"""How often a node that is waited for is looked at."""

CLOSE_S = 30.0
"""How long close() waits for a batch to stop in order: a drain, its captures counted, the platform restored."""

ETHERNET_HEADER_BYTES = 14
"""An interface's MTU counts the payload of the frame, the frame size counts this as well."""

StoreT = TypeVar("StoreT", bound=RunSink, covariant=True)
DriverFor = Callable[[str, Inventory], Driver]


def utc_now() -> str:
    """Now, as RFC 3339 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def operator_name() -> str:
    """Who runs this, as user@host; a user without an entry in the password database goes by number."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid{os.getuid()}"
    return f"{user}@{socket.gethostname()}"


class Session(Generic[StoreT]):
    """One operator's session on one testbed. connect() and close() bracket its life."""

    def __init__(
        self,
        inventory: Inventory,
        *,
        connect: Connect,
        driver_for: DriverFor,
        store: StoreT,
        tolerances: Tolerances | None = None,
        shell_argv: Callable[[str, Inventory], list[str]] | None = None,
    ) -> None:
        self.inventory, self.store = inventory, store
        self.tolerances = tolerances or Tolerances()
        self.telemetry = Telemetry()
        self.operator = operator_name()
        for name, node in inventory.nodes.items():
            self.telemetry.nodes[name] = NodeLive(name, node.roles)
        self._driver_for, self._shell_argv = driver_for, shell_argv
        self._fleet = Fleet(
            inventory,
            self.telemetry,
            connect=connect,
            emit=self._emit,
            on_event=self._on_agent_event,
            on_lost=self._on_lost,
        )
        self._listeners: list[Listener] = []
        self._trial: Trial | None = None
        self._batch = asyncio.Lock()
        self._stop = asyncio.Event()
        self._prepared: tuple[str, Prepared, Driver] | None = None
        self._learning: Learning | None = None

    # Listening

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with every event from now on; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def _emit(self, event: Event) -> None:
        for listener in list(self._listeners):
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
        await self._fleet.connect(nodes or self.inventory.nodes)

    async def close(self) -> None:
        """Stop what runs, close every link. The agents undo what is left; returns when they are gone."""
        await self.abort()
        with suppress(TimeoutError):  # a batch that does not end is ended by its links
            async with asyncio.timeout(CLOSE_S):
                await self._batch.acquire()
        await self._fleet.close()

    def _on_lost(self, name: str, reason: str) -> None:
        if name == self.inventory.uut:
            self._prepared = None  # its agent has undone it
        if self._trial is not None:
            self._trial.node_lost(name, reason)

    def _on_agent_event(self, node: str, event: dict[str, Any]) -> None:
        if self._trial is not None:
            self._trial.on_agent_event(node, event)

    @property
    def links(self) -> dict[str, AgentLink]:
        """The links that stand now, by node."""
        return self._fleet.links

    @property
    def facts(self) -> dict[str, dict[str, Any]]:
        """What each connected node said of itself."""
        return self._fleet.facts

    # Nodes, for the operator who looks after them

    def reconnect(self, node: str) -> bool:
        """Try a lost node again now, without waiting for its back-off. False when there is nothing to try."""
        return self._fleet.reconnect(node)

    async def inspect(self, node: str) -> Inspection:
        """Look at a node. Raises MeasurementError while a trial is under way, NodeUnreachable, NodeLost."""
        if self._trial is not None:
            raise MeasurementError("a trial is under way, and looking at a node would be part of what it measures")
        link = self._fleet.require([node])[node]
        inspection = await inspect(link)
        live = self.telemetry.nodes[node]
        live.round_trip_s, live.clock_offset_ns = link.round_trip_s, link.clock_offset_ns
        live.clock_error_ns = link.clock_error_ns
        self.telemetry.revision += 1
        return inspection

    def shell_argv(self, node: str) -> list[str]:
        """The command line that opens a shell on a node by the same way as the link. Blocking: reads ssh_config."""
        if self._shell_argv is None:
            raise NodeUnreachable(node, "this testbed has no way to open a shell", operation="shell")
        return self._shell_argv(node, self.inventory)

    # Checks

    async def check(
        self, *, plan: Plan | None = None, fix: bool = False, on_result: OnResult | None = None
    ) -> list[CheckResult]:
        """Preflight: see engine/preflight. Connects first; raises MeasurementError when a run is under way."""
        from labconsole.engine.preflight import preflight

        return await preflight(self, plan=plan, fix=fix, on_result=on_result)

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Let no batch begin meanwhile. Raises MeasurementError when one is under way."""
        if self._batch.locked():
            raise MeasurementError("a run is under way already")
        async with self._batch:
            self._stop.clear()
            yield

    # Trials

    async def run(self, request: TrialRequest, repetitions: int = 1) -> list[RunRecord]:
        """Take one design point ``repetitions`` times and store every run.

        Raises LabError when it cannot begin; what goes wrong later is in the records.
        """
        check_request(request, self.inventory)
        records = []
        async with self.batch(request) as take:
            for repetition in range(1, repetitions + 1):
                records.append(await take(request, None, repetition, repetitions))
                if repetition < repetitions and not self.stopping:
                    await self.settle(self.inventory.defaults.settle_s)
                if self.stopping:
                    break
        return records

    async def abort(self) -> None:
        """Stop the running trial and the batch it belongs to; what was measured is saved. Safe at any time."""
        self._stop.set()
        if self._trial is not None:
            self._trial.abort()

    @property
    def stopping(self) -> bool:
        """True once abort() was called in the running batch."""
        return self._stop.is_set()

    async def wait_stopping(self) -> None:
        """Return once abort() is called."""
        await self._stop.wait()

    def campaign(self, plan: Plan) -> Campaign:
        """An execution of a plan on this testbed, not begun yet. The plan is resolved for it (check_plan)."""
        return Campaign(plan, self)

    async def settle(self, seconds: float) -> None:
        """Let the UUT restabilise between trials (RFC 2544 section 23 e); abort() ends the wait."""
        if seconds <= 0:
            return
        self._emit(PhaseChanged(run_id="", phase=Phase.SETTLING, expected_s=seconds))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()

    @asynccontextmanager
    async def batch(self, request: TrialRequest) -> AsyncIterator[Callable[..., Any]]:
        """Hold the testbed for several trials: lease taken, platform kept set up between them, all undone at the end.

        Yields ``take(request, plan_ref, repetition, repetitions) -> RunRecord``. ``request`` is the first to come.
        """
        async with self.exclusive():
            leased: list[AgentLink] = []
            try:
                for link in self._fleet.require(self.nodes_of(request)).values():
                    await link.request("lease.take", {"owner": self.operator, "purpose": request.describe()})
                    leased.append(link)
                yield self._take
            finally:
                await self._restore_platform()
                for link in leased:
                    await self._quietly(link, "lease.release")

    async def wait_connected(self, nodes: Iterable[str], *, within_s: float) -> None:
        """Wait until these nodes are connected again. Raises NodeUnreachable with the reason when one is not in time.

        Returns at once when the session is aborted.
        """
        names = list(nodes)
        deadline = time.monotonic() + within_s
        while not self.stopping:
            try:
                self._fleet.require(names)
                return
            except NodeUnreachable:
                if time.monotonic() > deadline:
                    raise
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._stop.wait()

    def nodes_of(self, request: TrialRequest) -> list[str]:
        """The UUT, and the sources and sinks of the streams that a request uses."""
        names = [self.inventory.uut]
        for stream in self.inventory.streams[: request.sources]:
            names += [stream.source.node, stream.sink.node]
        return list(dict.fromkeys(names))

    async def _take(
        self,
        request: TrialRequest,
        plan: PlanRef | None = None,
        repetition: int = 1,
        repetitions: int = 1,
        settings: TrialSettings | None = None,
        tolerances: Tolerances | None = None,
    ) -> RunRecord:
        run_id = new_run_id(datetime.now(UTC))
        self._emit(TrialStarted(run_id=run_id, request=request, repetition=repetition, repetitions=repetitions))
        self._emit(PhaseChanged(run_id=run_id, phase=Phase.PREPARING))
        links = self._fleet.require(self.nodes_of(request))
        self._check_mtu(request)
        prepared = await self._prepare_platform(request, links, run_id)
        live = LiveStreams(self.telemetry, self.inventory)
        trial = Trial(
            run_id=run_id,
            inventory=self.inventory,
            request=request,
            links=links,
            prepared=prepared,
            settings=settings or self.settings(),
            live=live,
            emit=self._emit,
        )
        self._trial = trial
        if self.stopping:
            trial.abort()
        self._mark_quiet(request.observe == "quiet")
        try:
            seen = await trial.execute()
        finally:
            self._trial = None
            self._mark_quiet(False)
        record = build_record(
            seen,
            inventory=self.inventory,
            request=request,
            operator=self.operator,
            plan=plan,
            environment=self._environment(links, live),
            finished_at=utc_now(),
            tolerances=tolerances or self.tolerances,
        )
        live.settle(record)
        await self._save(record, live)
        return record

    def _check_mtu(self, request: TrialRequest) -> None:
        """Refuse a frame that an interface on its way would not carry."""
        for stream in self.inventory.streams[: request.sources]:
            ends = [
                (stream.source.node, stream.source.interface),
                (self.inventory.uut, stream.uut_in),
                (self.inventory.uut, stream.uut_out),
                (stream.sink.node, stream.sink.interface),
            ]
            for node, interface in ends:
                live = self.telemetry.interfaces.get((node, "", interface))
                mtu = live.link.get("mtu") if live is not None else None
                if mtu is not None and request.pkt_size_bytes - ETHERNET_HEADER_BYTES > mtu:
                    fcs = request.frame_size_bytes - request.pkt_size_bytes
                    raise ConfigError(
                        f"is above what {node}/{interface} carries (MTU {mtu})",
                        key="frame_size",
                        value=request.frame_size_bytes,
                        allowed=f"at most {mtu + ETHERNET_HEADER_BYTES + fcs}",
                    )

    def settings(self, *, drain_s: float | None = None) -> TrialSettings:
        """How trials are taken on this testbed unless a plan says otherwise."""
        defaults = self.inventory.defaults
        return TrialSettings(
            drain_s=defaults.drain_s if drain_s is None else drain_s,
            sample_interval_s=defaults.sample_interval_s,
            capture_buffer_kib=defaults.capture_buffer_kib,
            capture_directories={name: node.capture_dir for name, node in self.inventory.nodes.items()},
        )

    def _mark_quiet(self, quiet: bool) -> None:
        self.telemetry.nodes[self.inventory.uut].quiet = quiet
        self.telemetry.revision += 1

    async def _save(self, record: RunRecord, live: LiveStreams) -> None:
        """Store the run; a store that refuses is told, and the record still reaches every listener."""
        try:
            await asyncio.to_thread(self.store.save, record, live.series())
        except StoreError as exc:
            self._emit(Notice(severity="error", message=f"the run could not be saved: {exc}"))
            self._emit(TrialFinished(record=record, saved=False))
            raise
        self._emit(PhaseChanged(run_id=record.run_id, phase=Phase.SAVED))
        self._emit(TrialFinished(record=record, saved=True))

    def _environment(self, links: dict[str, AgentLink], live: LiveStreams) -> dict[str, Any]:
        return {
            "nodes": {
                name: {
                    "facts": self._fleet.facts.get(name, {}),
                    "round_trip_s": link.round_trip_s,
                    "clock_offset_ns": link.clock_offset_ns,
                    "clock_error_ns": link.clock_error_ns,
                }
                for name, link in links.items()
            },
            "learning": self._learning.to_json() if self._learning is not None else None,
            "series_interfaces": live.interface_names,
            "series_rows_not_kept": live.rows_not_kept,
        }

    # The platform on the UUT

    async def _prepare_platform(self, request: TrialRequest, links: dict[str, AgentLink], run_id: str) -> Prepared:
        """Set the platform up for all streams whose nodes are connected, unless it stands already."""
        wanted = {stream.name for stream in self.inventory.streams[: request.sources]}
        if self._prepared is not None:
            platform, standing, _ = self._prepared
            if platform == request.platform and wanted <= set(standing.paths):
                return standing
        await self._restore_platform()
        driver = self._driver_for(request.platform, self.inventory)
        streams = [
            s for s in self.inventory.streams if s.source.node in self._fleet.links and s.sink.node in self._fleet.links
        ]
        wirings = [self._wiring(stream) for stream in streams]
        uut = links[self.inventory.uut]
        prepared = await driver.prepare(uut, wirings)
        self._prepared = (request.platform, prepared, driver)
        self._emit(PhaseChanged(run_id=run_id, phase=Phase.LEARNING))
        try:
            self._learning = await wait_forwarding(
                self.inventory,
                self._fleet.links,
                prepared,
                streams,
                generator=request.generator,
                stopping=self._stop.is_set,
            )
        except BaseException:
            await self._restore_platform()
            raise
        return prepared

    async def _restore_platform(self) -> None:
        if self._prepared is None:
            return
        _, _, driver = self._prepared
        self._prepared = None
        link = self._fleet.links.get(self.inventory.uut)
        if link is None:
            return
        try:
            await driver.restore(link)
        except NodeError as exc:
            self._emit(Notice(severity="warning", message=f"restoring the platform: {exc.message}", node=link.name))

    def _wiring(self, stream: Stream) -> StreamWiring:
        """A stream with the MAC addresses of its interfaces. Raises ConfigError for an interface that is not there."""
        uut, place = self.inventory.uut, self.inventory.streams.index(stream)

        def mac(key: str, node: str, interface: str) -> str:
            live = self.telemetry.interfaces.get((node, "", interface))
            if live is None:
                there = ", ".join(sorted(k[2] for k in self.telemetry.interfaces if k[0] == node and not k[1]))
                location = ("streams", place, key)
                raise self.inventory.complaint(location, f"{node} has no such interface", interface, there)
            if not live.link.get("mac"):
                raise NodeError(node, f"interface {interface} has no MAC address: it is not an Ethernet interface")
            return str(live.link["mac"])

        mac("source", stream.source.node, stream.source.interface)
        return StreamWiring(
            name=stream.name,
            uut_in=stream.uut_in,
            uut_in_mac=mac("uut_in", uut, stream.uut_in),
            uut_out=stream.uut_out,
            uut_out_mac=mac("uut_out", uut, stream.uut_out),
            sink_mac=mac("sink", stream.sink.node, stream.sink.interface),
            source_ip=stream.source_ip,
            sink_ip=stream.sink_ip,
        )

    async def _quietly(self, link: AgentLink, op: str) -> None:
        try:
            await link.request(op, timeout_s=5)
        except NodeError as exc:
            log.info("%s on %s: %s", op, link.name, exc.message)
