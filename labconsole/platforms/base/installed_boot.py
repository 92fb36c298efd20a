"""Timed starts of the operator's installed guests: all at once, each up when it has sent its mark.

A guest's shell is opened by the entry that jobs use, which is tried from the end of its start command on. The shell
finds its own NIC, sets it up and sends the mark, so that nothing crosses the network meanwhile; its first output comes
after that. The other parts of its boot time are stored with it (GuestEntry).
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
from labconsole.model.record.kind import GuestEntry
from labconsole.network.control_groups import Limits
from labconsole.platforms.base.guest import GuestNic, Settings, State
from labconsole.platforms.base.guest_shell import installed_loop, start_all
from labconsole.platforms.base.lifecycle import ResourceLimits
from labconsole.platforms.base.options import GUEST_PLACE, USUAL_DISK_PLACE
from labconsole.platforms.base.shell import Shell
from labconsole.wire.guests import MAX_WAIT_S, GuestStarted
from labconsole.wire.session import Ping

TRY_S = 0.1
"""Interval of attempts to enter a guest: ``ssh`` may take a hundredth of a second each time from the processors that
guests boot on.
"""

_MARKED = re.compile(r"^mark (\d{1,6})\r?$", re.MULTILINE)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InstalledGuest:
    """One guest of a crew: its request, and the installed guest."""

    member: CrewMember
    guest: str

    @property
    def limits(self) -> Limits:
        member = self.member
        return Limits(
            group=member.name,
            cpu_shares=member.cpu_shares,
            cpu_quota_ratio=member.cpu_quota_ratio,
            memory_mib=member.memory_mib,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedGuest:
    """A running guest, its NIC, the shell in it, its limits. ``started_ns``, ``way_in``: for a timed start;
    ``inbound``: the NIC at which its streams arrive, if it forwards.
    """

    nic: GuestNic
    shell: GuestStarted
    held: Settings
    inbound: GuestNic | None = None
    started_ns: int | None = None
    way_in: GuestEntry | None = None


class InstalledBoot(ResourceLimits):
    """Timed starts for crews of installed guests."""

    CREW_IN_NAMESPACES: ClassVar[bool] = False
    """See CrewMaking."""

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        super().__init__(name, options)
        self._shells: list[str] = []

    def crew_offer(self, wanted: CrewWanted) -> CrewOffer:
        """The guests' files are the operator's, named in hosts.yaml. Their other settings are unknown."""
        files: dict[str, str] = {}
        for number, file in enumerate(self.options.guest_files or ()):
            for guest in self.options.guests[: len(wanted.members)] if GUEST_PLACE in file else [""]:
                key = f"guest_files[{number}]" + (f" {guest}" if guest else "")
                files[key] = file.replace(GUEST_PLACE, guest)
        return CrewOffer(
            place=USUAL_DISK_PLACE,
            files=files,
            memory_mib=None,
            installed=True,
            in_namespaces=self.CREW_IN_NAMESPACES,
            # With ssh the interfaces are another machine's.
            own_interfaces=self.about.capabilities.statistics and self.options.ssh is None,
        )

    def _find_shell_command(self, guest: str) -> list[str] | None:
        lead = self.options.guest_shell
        return self.way_in(guest, None if lead is None else [word.replace(GUEST_PLACE, guest) for word in lead])

    @abstractmethod
    async def find_nic(self, shell: Shell, guest: str) -> GuestNic:
        """The NIC of a running guest."""

    @abstractmethod
    async def join(self, shell: Shell, interface: str) -> None:
        """Make the other end of a guest's NIC a port of labconsole's bridge."""

    async def start_timed(
        self, shell: Shell, crew: Sequence[InstalledGuest], nics: Sequence[GuestNic]
    ) -> list[StartedGuest]:
        """Start all of them at once; returns when each has sent its mark.

        ``nics``: their NICs, as far as they are known for stopped guests. Raises NodeError.
        """
        self.poll_s = TRY_S
        deadline = self.now() + self.options.start_s
        return await gather_all(
            self._await_start(shell, each, nic, deadline) for each, nic in zip(crew, nics, strict=True)
        )

    async def _await_start(
        self, shell: Shell, each: InstalledGuest, expected: GuestNic, deadline: float
    ) -> StartedGuest:
        started_ns, began = (await shell.uut.ask(Ping())).monotonic_ns, self.now()
        answer = await report_as_missing(self.begin(shell, each.guest))

        async def outside() -> tuple[GuestNic, float | None, Settings]:
            early = await self._join_early(shell, expected)
            joined_s = self.now() - began if early else None
            await report_as_missing(self._wait_until(shell, each.guest, State.RUNNING, self.options.start_s, answer))
            nic = await self.find_nic(shell, each.guest)
            if expected.mac not in (None, nic.mac) or (early and expected.host_interface != nic.host_interface):
                raise shell.error(
                    f"guest {each.guest} should have NIC {_format_nic(expected)}, but has {_format_nic(nic)}"
                )
            if self.options.bridges == "made" and not early:
                await self.join(shell, str(nic.host_interface))
                joined_s = self.now() - began
            return nic, joined_s, await self.hold(shell, each.guest, each.limits)

        if expected.mac is None:
            nic, joined_s, limits = await outside()
            opened, way_in = await self._enter(shell.uut, each, str(nic.mac), deadline)
        else:
            entering = self._enter(shell.uut, each, expected.mac, deadline)
            (nic, joined_s, limits), (opened, way_in) = await gather_both(outside(), entering)
        way_in = way_in.model_copy(update={"joined_s": joined_s})
        return StartedGuest(nic=nic, shell=opened, held=limits, started_ns=started_ns, way_in=way_in)

    async def _join_early(self, shell: Shell, expected: GuestNic) -> bool:
        """Whether its NIC is on the bridge already, because its name was known in advance."""
        if self.options.bridges == "found" or expected.host_interface is None:
            return False
        try:
            await self.join(shell, expected.host_interface)
        except AgentError as exc:
            if exc.code != "no_such_interface":
                raise
            return False
        return True

    async def _enter(
        self, uut: AgentLink, each: InstalledGuest, mac: str, deadline: float
    ) -> tuple[GuestStarted, GuestEntry]:
        """Try the entry until it leads inside and the mark is sent."""
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
    """Report a guest that its hypervisor does not start as missing, like one whose program ends."""
    try:
        return await work
    except (AgentError, NodeLost, CapabilityMissing):
        raise
    except NodeError as exc:
        raise AgentError(exc.node, exc.message, code="guest_ended") from exc


S = TypeVar("S")


async def gather_both(first: Coroutine[Any, Any, T], second: Coroutine[Any, Any, S]) -> tuple[T, S]:
    """Run both side by side. If one fails, the other is cancelled, and has ended before the error is raised."""
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
    """Run all side by side, each to its end; then raise the first failure."""
    done = await asyncio.gather(*work, return_exceptions=True)
    for each in done:
        if isinstance(each, BaseException):
            raise each
    return [each for each in done if not isinstance(each, BaseException)]
