"""The crew of guests on the UUT, and the external node that takes the time: the sink of the first stream.

A crew is set up for the first trial that needs it, kept for the next ones, then undone. The timekeeper gets an address
of its own, drawn again for each crew, in a network that it shares with the guests.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from labconsole.contracts.crew import (
    USUAL,
    CrewMember,
    CrewOffer,
    CrewWanted,
    Ground,
    HowMade,
    HypervisorWord,
    StandingCrew,
)
from labconsole.contracts.driver import Driver, DriverFor
from labconsole.contracts.ports import AgentLink
from labconsole.engine.links import DeferredCleanup, LinkPool
from labconsole.engine.live.events import Event, Notice, Phase, PhaseChanged
from labconsole.engine.trial.recorder import node_facts
from labconsole.errors import Aborted, ConfigError, LabError, NodeError, NodeLost, NodeSilent, TooLittleMemory
from labconsole.model.cpus import cpu_set
from labconsole.model.identity import new_run_id, utc_now
from labconsole.model.inventory import Inventory, Stream
from labconsole.model.record.run import Environment, SetUp
from labconsole.network.links import LinkUp
from labconsole.network.routing import Address
from labconsole.verdict.changes import add_settings
from labconsole.wire.changes import AnyChange, ApplyChanges, UndoChanges
from labconsole.wire.counters import CountersSampled, StartCounters
from labconsole.wire.execution import Execute
from labconsole.wire.marks import MarkSeen, TimeMark
from labconsole.wire.message import AgentEvent
from labconsole.wire.queues import RatesTaken
from labconsole.wire.settings import NodeSettings

NETWORK = ipaddress.ip_network("198.18.64.0/18")
"""Part of the benchmark network (RFC 2544) that contains the addresses of guests and timekeeper."""

FIRST_TIMEKEEPER, LAST_TIMEKEEPER = (int(ipaddress.ip_address(each)) for each in ("198.18.96.1", "198.18.126.254"))
TOKEN = "timekeeper"
ALLOWED = "Cpus_allowed_list:"
_AVAILABLE = re.compile(r"^MemAvailable:\s+(\d{1,15}) kB", re.MULTILINE)

SAMPLE_S_PER_GUEST = 0.01
"""Extension of the interval between two samples of the UUT's counters per guest, because each guest has its own
interfaces. With a hundred guests, samples are taken once a second, which costs the UUT 0.2 % of a processor."""

Undo = Callable[[], Awaitable[object]]
"""Undoes a part of the set-up; safe to call twice."""


def guest_address(number: int) -> str:
    """The address of a guest, from 0, with its prefix length."""
    return f"{NETWORK.network_address + 1 + number}/{NETWORK.prefixlen}"


def guest_mac(number: int) -> str:
    """The MAC address of a guest's NIC, from 0."""
    return f"02:6c:77:00:{number >> 8:02x}:{number & 0xFF:02x}"


def build_member(number: int, memory_mib: int | None, cpus: str | None = None) -> CrewMember:
    """A guest, from 0. ``cpus``: see CrewMember."""
    return CrewMember(
        name=f"g{number + 1}",
        address=guest_address(number),
        mac=guest_mac(number),
        memory_mib=memory_mib,
        cpus=cpus,
    )


async def _take_back(timekeeper: AgentLink) -> None:
    """Remove the timekeeper's address. Raises NodeError naming what could not be undone."""
    if failed := (await timekeeper.ask(UndoChanges(token=TOKEN))).failed:
        raise NodeError(timekeeper.name, f"not undone: {'; '.join(failed)}")


class CrewStage:
    """Manages the crew of a session, which has at most one at a time."""

    def __init__(
        self,
        inventory: Inventory,
        pool: LinkPool,
        *,
        driver_for: DriverFor,
        emit: Callable[[Event], None],
        stop: asyncio.Event,
        guest_processes: Callable[[], Sequence[str]],
    ) -> None:
        self.inventory, self._pool = inventory, pool
        self._driver_for, self._emit, self._stop = driver_for, emit, stop
        self._guest_processes = guest_processes
        self.on_mark: Callable[[TimeMark], None] | None = None
        self.on_counters: Callable[[CountersSampled], None] | None = None
        self.on_rates: Callable[[RatesTaken], None] | None = None
        self._current: tuple[Hashable, list[Undo], StandingCrew | None] | None = None
        self._changing = asyncio.Lock()
        self._owed = DeferredCleanup(inventory, pool, emit)
        self._cannot: dict[Hashable, NodeError] = {}

    async def guest_cpus(self, platform: str) -> Sequence[int]:
        """The driver's CPUs for guests, else those on which the UUT's agent may run, in order. Raises NodeError."""
        driver: Any = self._driver_for(platform, self.inventory)
        cpus_of_driver: Sequence[int] | None = getattr(driver, "crew_cpus", None)
        if cpus_of_driver is not None:  # most drivers specify none
            return cpus_of_driver
        uut = self.uut
        status = (await uut.ask(Execute(argv=["cat", "/proc/self/status"], timeout_s=5))).stdout
        listed = next((line.partition(":")[2] for line in status.splitlines() if line.startswith(ALLOWED)), "")
        if (cpus := cpu_set(listed)) is None:
            raise NodeError(uut.name, f"does not say which CPUs it has: {listed[:80]!r}")
        return sorted(cpus)

    @property
    def guest_processes(self) -> Sequence[str]:
        return self._guest_processes()

    @property
    def uut(self) -> AgentLink:
        """The UUT's link, before anything is set up. Raises NodeUnreachable."""
        return self._pool.require([self.inventory.uut])[self.inventory.uut]

    @property
    def timekeeper(self) -> AgentLink:
        """The external node's link. Raises NodeUnreachable."""
        return self._pool.require([self._stream.sink.node])[self._stream.sink.node]

    @property
    def source(self) -> AgentLink:
        """The link of the node that sends to guests. Raises NodeUnreachable."""
        return self._pool.require([self._stream.source.node])[self._stream.source.node]

    def offer(self, platform: str, members: Sequence[CrewMember]) -> CrewOffer:
        """The image and resources of these guests. Raises ConfigError for a platform that cannot provide them."""
        self.refuse(platform, members)
        driver: Any = self._driver_for(platform, self.inventory)
        offer: CrewOffer = driver.crew_offer(self._wanted(members))
        return offer

    async def hypervisor_memory(self, platform: str, members: Sequence[CrewMember]) -> HypervisorWord | None:
        """The hypervisor's memory report, or None for labconsole's own guests, which the UUT's kernel reports."""
        ask: Any = getattr(self._driver_for(platform, self.inventory), "hypervisor_memory", None)
        report: HypervisorWord | None = None if ask is None else await ask(self.uut, self._wanted(members))
        return report

    async def wait_stopping(self) -> None:
        await self._stop.wait()

    def hear(self, node: str, event: AgentEvent) -> None:
        """Pass on an agent's event: the timekeeper's marks, the UUT's counters, and its new rates."""
        if isinstance(event, MarkSeen) and self.on_mark is not None and node == self._stream.sink.node:
            self.on_mark(event.mark)
        elif isinstance(event, CountersSampled) and self.on_counters is not None and node == self.inventory.uut:
            self.on_counters(event)
        elif isinstance(event, RatesTaken) and self.on_rates is not None and node == self.inventory.uut:
            self.on_rates(event)

    def environment(
        self, nodes: Iterable[AgentLink], settings: Mapping[str, NodeSettings | None] | None = None
    ) -> Environment:
        facts = node_facts({link.name: link for link in nodes}, self._pool.facts)
        return {"uut": self.inventory.uut, "nodes": add_settings(facts, settings or {}, self.inventory)}

    def refuse(self, platform: str, members: Sequence[CrewMember]) -> None:
        """Refuse what this platform cannot provide, before anything is changed. Raises ConfigError."""
        driver: Any = self._driver_for(platform, self.inventory)
        if not hasattr(driver, "prepare_crew"):
            raise ConfigError(
                f"driver {driver.about.name} cannot make several guests for jobs", key="platforms", value=platform
            )
        refusal = driver.crew_refusal(self._wanted(members))
        if refusal is not None:
            raise ConfigError(refusal, key="platforms", value=platform)
        for index, stream in enumerate(self.inventory.streams):
            for key, address in (("source_ip", stream.source_ip), ("sink_ip", stream.sink_ip)):
                if ipaddress.ip_address(address) in NETWORK:
                    raise self.inventory.complaint(
                        ("streams", index, key),
                        "lies where the guests of jobs have their addresses",
                        address,
                        f"an address outside of {NETWORK}",
                    )

    async def stand(
        self, platform: str, members: Sequence[CrewMember], turn: Hashable, how: HowMade = USUAL
    ) -> StandingCrew:
        """The crew of these members, reused if it is up and was requested with the same ``turn``.

        Raises ConfigError for an impossible crew, and NodeError if the crew cannot be created or the previous one not
        removed. A crew that could not be created is not retried in the same turn.
        """
        async with self._changing:
            key = (platform, tuple(members), turn, how.port)
            if self._current is not None and self._current[0] == key and self._current[2] is not None:
                self._emit(PhaseChanged(run_id="", phase=Phase.MEASURING))
                return self._current[2]
            self.refuse(platform, members)
            if key in self._cannot:
                raise self._cannot[key]
            await self._remove()
            if self._stop.is_set():
                raise Aborted("the plan was ended")
            try:
                return await self._make(key, platform, members, how)
            except BaseException as exc:
                if isinstance(exc, NodeError) and not isinstance(exc, NodeLost):
                    self._cannot[key] = exc
                with suppress(LabError):  # the reason why it could not be created matters more
                    await self._remove()
                raise

    async def _make(self, key: Hashable, platform: str, members: Sequence[CrewMember], how: HowMade) -> StandingCrew:
        begun, started_at, stream = time.monotonic(), utc_now(), self._stream
        uut, timekeeper = self.uut, self.timekeeper
        await self.refuse_memory(platform, members)
        driver: Any = self._driver(platform, how)
        self._emit(PhaseChanged(run_id="", phase=Phase.PREPARING, detail=f"{len(members)} guests on {platform}"))
        number = FIRST_TIMEKEEPER + secrets.randbelow(LAST_TIMEKEEPER - FIRST_TIMEKEEPER + 1)
        address = str(ipaddress.ip_address(number))
        usual_s = self.inventory.defaults.sample_interval_s
        # From here on all must be undone, however far it gets: an agent may have acted without having had time to
        # answer.
        as_usual = partial(uut.ask, StartCounters(interval_s=usual_s))
        self._current = (key, [as_usual, partial(self._restore, driver, uut)], None)
        await uut.ask(StartCounters(interval_s=max(usual_s, SAMPLE_S_PER_GUEST * len(members))))
        self._current[1].append(partial(_take_back, timekeeper))
        changes: list[AnyChange] = [
            LinkUp(interface=stream.sink.interface),
            Address(interface=stream.sink.interface, address=f"{address}/{NETWORK.prefixlen}"),
        ]
        await timekeeper.ask(ApplyChanges(token=TOKEN, changes=changes))
        if how.before is not None:
            await driver.check_node(uut)
            members = await how.before(Ground(uut=uut, timekeeper=timekeeper, stream=stream, address=address))
        wanted = replace(self._wanted(members), limit_s=how.limit_s, anew=how.anew)
        crew = await driver.prepare_crew(uut, wanted if how.port is None else replace(wanted, port=how.port))
        setup_s = time.monotonic() - begun
        standing = StandingCrew(
            crew=crew,
            members=tuple(members),
            uut=uut,
            timekeeper=timekeeper,
            stream=stream,
            address=address,
            set_up=SetUp(id=new_run_id(datetime.now(UTC)), started_at=started_at, setup_s=setup_s, trial=0),
        )
        self._current = (key, self._current[1], standing)
        self._emit(PhaseChanged(run_id="", phase=Phase.MEASURING))
        return standing

    async def refuse_memory(self, platform: str, members: Sequence[CrewMember]) -> None:
        """Raises TooLittleMemory if guests get more than is available, since the kernel would kill processes."""
        wanted_mib, guests = self.offer(platform, members).memory_mib, len(members)
        if wanted_mib is None:
            return
        meminfo = (await self.uut.ask(Execute(argv=["cat", "/proc/meminfo"], timeout_s=5))).stdout
        available = _AVAILABLE.search(meminfo)
        if available is not None and (available_mib := int(available[1]) // 1024) < wanted_mib:
            raise TooLittleMemory(
                self.uut.name,
                f"platform {platform}: {guests} guests are given {wanted_mib} MiB of memory, and {available_mib} MiB "
                "are available; give them less (memory_mib), or start fewer",
            )

    def _driver(self, platform: str, how: HowMade) -> Driver:
        if not how.options:
            return self._driver_for(platform, self.inventory)
        entry = self.inventory.platforms[platform]
        customized = type(entry).model_validate({"driver": entry.driver, **entry.options, **how.options})
        changed = self.inventory.model_copy(update={"platforms": {**self.inventory.platforms, platform: customized}})
        return self._driver_for(platform, changed)

    async def leave(self) -> None:
        """Remove the crew, which is no longer needed."""
        await self.restore()
        self._cannot.clear()

    async def restore(self) -> None:
        """Remove the crew. What cannot be undone is reported, and retried before the next crew is set up."""
        async with self._changing:
            try:
                await self._remove()
            except LabError as exc:
                node = exc.node if isinstance(exc, NodeError) else None
                self._emit(Notice(severity="warning", message=f"removing the guests: {exc}", node=node))

    async def _remove(self) -> None:
        """Undo every part, the last one first. Raises the first failure; failed parts are kept and retried later.

        A lost agent has undone everything except a hypervisor's guests, which are removed when it is back.
        """
        await self._owed.settle()
        if self._current is None:
            return
        key, undoing, _ = self._current
        self._current = (key, undoing, None)
        failed: list[tuple[Undo, LabError]] = []
        while undoing:
            undo = undoing[-1]
            try:
                await undo()
            except NodeSilent as exc:
                failed.append((undo, exc))
            except NodeLost:
                pass
            except LabError as exc:
                failed.append((undo, exc))
            undoing.pop()  # not before it is done: after a cancellation the next call retries it
        undoing += [undo for undo, _ in reversed(failed)]
        if failed:
            raise failed[0][1]
        self._current = None

    async def _restore(self, driver: Any, uut: AgentLink) -> None:
        try:
            await driver.restore(uut)
        except NodeLost:
            self._owed.defer(driver)
            raise

    @property
    def _stream(self) -> Stream:
        return self.inventory.streams[0]

    def _wanted(self, members: Sequence[CrewMember]) -> CrewWanted:
        inbound = any(member.inbound is not None for member in members)
        return CrewWanted(
            members=tuple(members),
            port=self._stream.uut_out,
            inbound_port=self._stream.uut_in if inbound else None,
        )
