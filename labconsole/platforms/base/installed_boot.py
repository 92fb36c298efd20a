"""Starts of guests that the operator has installed, timed: all at once, each up when it has sent its mark.

A guest's shell is opened by the way in that jobs use, which is tried from the end of its start command on. It finds
its own NIC, sets it up and sends the mark, so that nothing is asked across the network meanwhile; its first word comes
after that. What else its time holds is kept with it (WayIn).
"""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from labconsole.contracts.crew import CrewMember, CrewOffer, CrewWanted
from labconsole.contracts.ports import AgentLink
from labconsole.errors import AgentError, CapabilityMissing, NodeError, NodeLost
from labconsole.model.record.boot import GuestEntry
from labconsole.network.control_groups import Limits
from labconsole.platforms.base.guest import GuestNic, Settings, State
from labconsole.platforms.base.guest_shell import start_all
from labconsole.platforms.base.marks import installed_loop
from labconsole.platforms.base.options import GUEST_PLACE, USUAL_DISK_PLACE
from labconsole.platforms.base.resource_limits import ResourceLimits
from labconsole.platforms.base.shell import Shell
from labconsole.wire.guests import MAX_WAIT_S, GuestStarted
from labconsole.wire.session import Ping

TRY_S = 0.1
"""Between two tries of what leads into a guest: ``ssh`` may cost the processors that guests boot on a hundredth of a
second each time."""

_MARKED = re.compile(r"^mark (\d{1,6})\r?$", re.MULTILINE)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InstalledGuest:
    """One of a crew: what was wanted, and the guest that it is."""

    member: CrewMember
    guest: str

    @property
    def limits(self) -> Limits:
        told = self.member
        return Limits(
            group=told.name,
            cpu_shares=told.cpu_shares,
            cpu_quota_ratio=told.cpu_quota_ratio,
            memory_mib=told.memory_mib,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedGuest:
    """One that stands, its NIC, the shell in it, what it is held to. ``started_ns``, ``way_in``: of a start that was
    timed; ``inbound``: the NIC at which its streams come in, if it forwards.
    """

    nic: GuestNic
    shell: GuestStarted
    held: Settings
    inbound: GuestNic | None = None
    started_ns: int | None = None
    way_in: GuestEntry | None = None


class InstalledBoot(ResourceLimits):
    """What a crew of named guests needs beside when its start is timed."""

    CREW_IN_NAMESPACES: ClassVar[bool] = False
    """As CrewMaking has it."""

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        super().__init__(name, options)
        self._shells: list[str] = []

    def crew_offer(self, wanted: CrewWanted) -> CrewOffer:
        """What they start from is the operator's, and told in hosts.yaml. What they are given nobody knows."""
        files: dict[str, str] = {}
        for number, told in enumerate(self.options.guest_files or ()):
            for guest in self.options.guests[: len(wanted.members)] if GUEST_PLACE in told else [""]:
                key = f"guest_files[{number}]" + (f" {guest}" if guest else "")
                files[key] = told.replace(GUEST_PLACE, guest)
        return CrewOffer(
            place=USUAL_DISK_PLACE,
            files=files,
            memory_mib=None,
            installed=True,
            in_namespaces=self.CREW_IN_NAMESPACES,
            # With ssh they are another machine's.
            own_interfaces=self.about.capabilities.statistics and self.options.ssh is None,
        )

    def _find_shell_command(self, guest: str) -> list[str] | None:
        told = self.options.guest_shell
        return self.way_in(guest, None if told is None else [word.replace(GUEST_PLACE, guest) for word in told])

    @abstractmethod
    async def find_nic(self, shell: Shell, guest: str) -> GuestNic:
        """The NIC of a guest that runs."""

    @abstractmethod
    async def join(self, shell: Shell, interface: str) -> None:
        """Make the other end of a guest's NIC a port of the bridge that labconsole has made."""

    async def start_timed(
        self, shell: Shell, crew: Sequence[InstalledGuest], nics: Sequence[GuestNic]
    ) -> list[StartedGuest]:
        """Start all of them at once; returns when each has sent its mark.

        ``nics``: theirs, as far as that is known of guests that are off. Raises NodeError.
        """
        self.poll_s = TRY_S
        deadline = self.now() + self.options.start_s
        return await gather_all(
            self._await_start(shell, each, nic, deadline) for each, nic in zip(crew, nics, strict=True)
        )

    async def _await_start(self, shell: Shell, each: InstalledGuest, told: GuestNic, deadline: float) -> StartedGuest:
        started_ns, began = (await shell.uut.ask(Ping())).monotonic_ns, self.now()
        answer = await report_as_missing(self.begin(shell, each.guest))

        async def outside() -> tuple[GuestNic, float | None, Settings]:
            early = await self._join_early(shell, told)
            joined_s = self.now() - began if early else None
            await report_as_missing(self._wait_until(shell, each.guest, State.RUNNING, self.options.start_s, answer))
            nic = await self.find_nic(shell, each.guest)
            if told.mac not in (None, nic.mac) or (early and told.host_interface != nic.host_interface):
                raise shell.error(f"guest {each.guest} was to have NIC {_format_nic(told)}, and has {_format_nic(nic)}")
            if self.options.bridges == "made" and not early:
                await self.join(shell, str(nic.host_interface))
                joined_s = self.now() - began
            return nic, joined_s, await self.hold(shell, each.guest, each.limits)

        if told.mac is None:
            nic, joined_s, held = await outside()
            opened, way_in = await self._enter(shell.uut, each, str(nic.mac), deadline)
        else:
            entering = self._enter(shell.uut, each, told.mac, deadline)
            (nic, joined_s, held), (opened, way_in) = await gather_both(outside(), entering)
        way_in = way_in.model_copy(update={"joined_s": joined_s})
        return StartedGuest(nic=nic, shell=opened, held=held, started_ns=started_ns, way_in=way_in)

    async def _join_early(self, shell: Shell, told: GuestNic) -> bool:
        """Whether its NIC is on the bridge already, because what it is called was known beforehand."""
        if self.options.bridges == "found" or told.host_interface is None:
            return False
        try:
            await self.join(shell, told.host_interface)
        except AgentError as exc:
            if exc.code != "no_such_interface":
                raise
            return False
        return True

    async def _enter(
        self, uut: AgentLink, each: InstalledGuest, mac: str, deadline: float
    ) -> tuple[GuestStarted, GuestEntry]:
        """Try what leads inside until it does, and the mark is sent."""
        name, lead, mark = each.member.name, self._find_shell_command(each.guest), each.member.boot_mark
        assert lead is not None and mark is not None
        argv = [*lead, "sh", "-c", installed_loop(mark, mac, each.member.address)]
        self._shells.append(name)
        began: list[float] = []
        while True:
            began.append(self.now())
            limit_s = min(MAX_WAIT_S, max(1.0, deadline - began[-1]))
            try:
                started = (await start_all(uut, {name: argv}, timeout_s=limit_s))[name]
                break
            except AgentError as exc:
                if exc.code != "guest_ended" or self.now() >= deadline:
                    message = f"platform {self.name}: no shell inside guest {each.guest}: {exc.message}"
                    raise AgentError(uut.name, message, code=exc.code) from exc
            await self.pause(TRY_S)
        marked = _MARKED.search(started.console)
        return started, GuestEntry(
            tries=len(began),
            gap_s=began[-1] - began[-2] if len(began) > 1 else None,
            mark_tries=max(1, int(marked[1])) if marked else None,
            joined_s=None,
        )


def _format_nic(nic: GuestNic) -> str:
    return f"{nic.mac}, {nic.host_interface} on this node"


async def report_as_missing(work: Awaitable[T]) -> T:
    """A guest that its hypervisor does not bring up is one that did not come, as one whose program ends."""
    try:
        return await work
    except (AgentError, NodeLost, CapabilityMissing):
        raise
    except NodeError as exc:
        raise AgentError(exc.node, exc.message, code="guest_ended") from exc


S = TypeVar("S")


async def gather_both(first: Coroutine[Any, Any, T], second: Coroutine[Any, Any, S]) -> tuple[T, S]:
    """Side by side. When one fails, the other is given up, and has ended before that is raised."""
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task.done():
                task.result()
        return tasks[0].result(), tasks[1].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def gather_all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All of it side by side, each to its end; then the first failure is raised."""
    done = await asyncio.gather(*work, return_exceptions=True)
    for each in done:
        if isinstance(each, BaseException):
            raise each
    return [each for each in done if not isinstance(each, BaseException)]
