"""The crew of guests that stands on the UUT, and the node outside that takes the time: the sink of the first stream.

A crew is set up for the first trial that needs it, kept for the next, then undone. The timekeeper gets an address of
its own, drawn anew for each crew, in a network that the guests share.
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
from labconsole.engine.deferred_cleanup import DeferredCleanup
from labconsole.engine.links import LinkPool
from labconsole.engine.live.events import Event, Notice, Phase, PhaseChanged
from labconsole.engine.trial.saving import node_facts
from labconsole.errors import Aborted, ConfigError, LabError, NodeError, NodeLost, NodeSilent, TooLittleMemory
from labconsole.model.cpus import cpu_set
from labconsole.model.identity import new_run_id, utc_now
from labconsole.model.inventory import Inventory, Stream
from labconsole.model.record.environment import Environment
from labconsole.model.record.run import SetUp
from labconsole.network.links import LinkUp
from labconsole.network.routing import Address
from labconsole.verdict.node_settings import add_settings
from labconsole.wire.changes import AnyChange, ApplyChanges, UndoChanges
from labconsole.wire.counters import CountersSampled, StartCounters
from labconsole.wire.execution import Execute
from labconsole.wire.marks import MarkSeen, TimeMark
from labconsole.wire.message import AgentEvent
from labconsole.wire.queues import RatesTaken
from labconsole.wire.settings import NodeSettings

NETWORK = ipaddress.ip_network("198.18.64.0/18")
"""Of the benchmark network (RFC 2544), what guests and timekeeper have their addresses in."""

FIRST_TIMEKEEPER, LAST_TIMEKEEPER = (int(ipaddress.ip_address(each)) for each in ("198.18.96.1", "198.18.126.254"))
TOKEN = "timekeeper"
ALLOWED = "Cpus_allowed_list:"
_AVAILABLE = re.compile(r"^MemAvailable:\s+(\d{1,15}) kB", re.MULTILINE)

SAMPLE_S_PER_GUEST = 0.01
"""How much each guest adds to the time between two samples of the UUT's counters, for each has interfaces of its own:
those of a hundred are read once a second, which costs the UUT a fifth of a percent of a processor."""

Undo = Callable[[], Awaitable[object]]
"""Undoes a part of what stands; safe to call twice."""


def guest_address(number: int) -> str:
    """The address of a guest, from 0, with its prefix length."""
    return f"{NETWORK.network_address + 1 + number}/{NETWORK.prefixlen}"


def guest_mac(number: int) -> str:
    """The MAC address of a guest's NIC, from 0."""
    return f"02:6c:77:00:{number >> 8:02x}:{number & 0xFF:02x}"


async def _take_back(timekeeper: AgentLink) -> None:
    """Its address. Raises NodeError naming what could not be undone."""
    if failed := (await timekeeper.ask(UndoChanges(token=TOKEN))).failed:
        raise NodeError(timekeeper.name, f"not undone: {'; '.join(failed)}")


class CrewStage:
    """At most one crew of a session stands at a time."""

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
        self._stands: tuple[Hashable, list[Undo], StandingCrew | None] | None = None
        self._changing = asyncio.Lock()
        self._owed = DeferredCleanup(inventory, pool, emit)
        self._cannot: dict[Hashable, NodeError] = {}

    async def guest_cpus(self, platform: str) -> Sequence[int]:
        """Those that its driver says, else those that the UUT's agent may run on, in their order. Raises NodeError."""
        driver: Any = self._driver_for(platform, self.inventory)
        told: Sequence[int] | None = getattr(driver, "crew_cpus", None)
        if told is not None:  # most do not say
            return told
        uut = self.uut
        said = (await uut.ask(Execute(argv=["cat", "/proc/self/status"], timeout_s=5))).stdout
        listed = next((line.partition(":")[2] for line in said.splitlines() if line.startswith(ALLOWED)), "")
        if (cpus := cpu_set(listed)) is None:
            raise NodeError(uut.name, f"does not say which CPUs it has: {listed[:80]!r}")
        return sorted(cpus)

    @property
    def guest_processes(self) -> Sequence[str]:
        return self._guest_processes()

    @property
    def uut(self) -> AgentLink:
        """The UUT, before anything stands on it. Raises NodeUnreachable."""
        return self._pool.require([self.inventory.uut])[self.inventory.uut]

    @property
    def timekeeper(self) -> AgentLink:
        """The node outside. Raises NodeUnreachable."""
        return self._pool.require([self._stream.sink.node])[self._stream.sink.node]

    @property
    def source(self) -> AgentLink:
        """The node that sends to guests. Raises NodeUnreachable."""
        return self._pool.require([self._stream.source.node])[self._stream.source.node]

    def offer(self, platform: str, members: Sequence[CrewMember]) -> CrewOffer:
        """What these guests start from and are given. Raises ConfigError for a platform that cannot have them."""
        self.refuse(platform, members)
        driver: Any = self._driver_for(platform, self.inventory)
        offer: CrewOffer = driver.crew_offer(self._wanted(members))
        return offer

    async def hypervisor_memory(self, platform: str, members: Sequence[CrewMember]) -> HypervisorWord | None:
        """Of guests that labconsole makes the UUT's own kernel says all that there is."""
        ask: Any = getattr(self._driver_for(platform, self.inventory), "hypervisor_memory", None)
        said: HypervisorWord | None = None if ask is None else await ask(self.uut, self._wanted(members))
        return said

    async def wait_stopping(self) -> None:
        await self._stop.wait()

    def hear(self, node: str, event: AgentEvent) -> None:
        """An agent says something: marks of the timekeeper's are passed on, the UUT's counters, and its new rates."""
        if isinstance(event, MarkSeen) and self.on_mark is not None and node == self._stream.sink.node:
            self.on_mark(event.mark)
        elif isinstance(event, CountersSampled) and self.on_counters is not None and node == self.inventory.uut:
            self.on_counters(event)
        elif isinstance(event, RatesTaken) and self.on_rates is not None and node == self.inventory.uut:
            self.on_rates(event)

    def environment(
        self, nodes: Iterable[AgentLink], settings: Mapping[str, NodeSettings | None] | None = None
    ) -> Environment:
        told = node_facts({link.name: link for link in nodes}, self._pool.facts)
        return {"uut": self.inventory.uut, "nodes": add_settings(told, settings or {}, self.inventory)}

    def refuse(self, platform: str, members: Sequence[CrewMember]) -> None:
        """Refuse what this platform cannot have, before anything is touched. Raises ConfigError."""
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
        """The crew of these members, which stands already if it was asked for with the same ``turn``.

        Raises ConfigError for what cannot be, NodeError when it cannot be made, or the one before it not removed. One
        that could not be made is not tried again in the same turn.
        """
        async with self._changing:
            key = (platform, tuple(members), turn, how.port)
            if self._stands is not None and self._stands[0] == key and self._stands[2] is not None:
                self._emit(PhaseChanged(run_id="", phase=Phase.MEASURING))
                return self._stands[2]
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
                with suppress(LabError):  # why it could not be made says more
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
        # To be undone from here on, however far it gets: an agent may have done what it had no time to answer.
        as_usual = partial(uut.ask, StartCounters(interval_s=usual_s))
        self._stands = (key, [as_usual, partial(self._restore, driver, uut)], None)
        await uut.ask(StartCounters(interval_s=max(usual_s, SAMPLE_S_PER_GUEST * len(members))))
        self._stands[1].append(partial(_take_back, timekeeper))
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
        self._stands = (key, self._stands[1], standing)
        self._emit(PhaseChanged(run_id="", phase=Phase.MEASURING))
        return standing

    async def refuse_memory(self, platform: str, members: Sequence[CrewMember]) -> None:
        """Raises TooLittleMemory where guests are given more than there is: their kernel would kill at random."""
        wanted_mib, guests = self.offer(platform, members).memory_mib, len(members)
        if wanted_mib is None:
            return
        said = (await self.uut.ask(Execute(argv=["cat", "/proc/meminfo"], timeout_s=5))).stdout
        available = _AVAILABLE.search(said)
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
        told = type(entry).model_validate({"driver": entry.driver, **entry.options, **how.options})
        changed = self.inventory.model_copy(update={"platforms": {**self.inventory.platforms, platform: told}})
        return self._driver_for(platform, changed)

    async def leave(self) -> None:
        """Undo what stands, for nobody needs it any more."""
        await self.restore()
        self._cannot.clear()

    async def restore(self) -> None:
        """Undo what stands. What cannot be undone is told, and tried again before the next crew stands."""
        async with self._changing:
            try:
                await self._remove()
            except LabError as exc:
                node = exc.node if isinstance(exc, NodeError) else None
                self._emit(Notice(severity="warning", message=f"removing the guests: {exc}", node=node))

    async def _remove(self) -> None:
        """All of it is tried, the last first; the first failure is raised, and its part is kept to be tried again.

        An agent that is gone has undone everything, but for what a hypervisor keeps: that is tried when it is back.
        """
        await self._owed.settle()
        if self._stands is None:
            return
        key, undoing, _ = self._stands
        self._stands = (key, undoing, None)
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
            undoing.pop()  # not before it is done: a cancellation leaves it to the next
        undoing += [undo for undo, _ in reversed(failed)]
        if failed:
            raise failed[0][1]
        self._stands = None

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
