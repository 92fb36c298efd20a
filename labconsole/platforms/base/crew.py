"""Common parts of drivers that make crews (contracts/crew.py): several guests, each with one NIC, side by side."""

from __future__ import annotations

import asyncio
import re
import secrets
import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from labconsole.contracts.crew import Crew, CrewMember, CrewOffer, CrewWanted, StandingMember
from labconsole.contracts.driver import Attestation, DriverInfo
from labconsole.contracts.ports import AgentLink
from labconsole.errors import NodeError
from labconsole.model.cpus import cpu_set
from labconsole.network.change import NetworkChange
from labconsole.network.control_groups import CONTROLLERS, ControlGroups, Limits
from labconsole.network.links import Bridge
from labconsole.platforms.base.crew_disks import INSIDE, CrewDisks
from labconsole.platforms.base.forwarding import apply, read_state, restored_on_failure, shell_lines
from labconsole.platforms.base.guest_shell import (
    ask_on_console,
    close_shell,
    format_mark_argument,
    guest_state,
    start_all,
)
from labconsole.platforms.base.image import TapNic
from labconsole.wire.execution import Execute
from labconsole.wire.guests import MAX_WAIT_S, GuestStarted
from labconsole.wire.links import ReadLinks

# -- limits ------------------------------------------------------------------------------------------------------------
# Limits of guests that the agent started: allowed CPUs and control group limits, from the UUT's kernel.

_ASK_S = 10.0
_SEEN = re.compile(r"^(\d{1,10}) ([a-z_.]{1,40}) ([\w ,-]{1,200})$", re.MULTILINE)

_LOOK = """\
for guest; do
  pid=$guest
  for child in $(cat "/proc/$guest/task/$guest/children" 2>/dev/null); do pid=$child; break; done
  while read -r key value; do
    case $key in Cpus_allowed_list:) echo "$guest cpus $value";; esac
  done <"/proc/$pid/status"
  while IFS=: read -r number controllers path; do
    case $number:$controllers in
      0:) group=/sys/fs/cgroup$path;;
      *:cpu|*:cpu,cpuacct|*:memory) group=/sys/fs/cgroup/$controllers$path;;
      *) continue;;
    esac
    for file in cpu.shares cpu.cfs_quota_us memory.limit_in_bytes cpu.weight cpu.max memory.max; do
      if read -r value 2>/dev/null <"$group/$file"; then echo "$guest $file $value"; fi
    done
  done <"/proc/$pid/cgroup"
done"""
"""Limits of a guest or of its first child: a container's first process is below the program that made it."""


async def read_limits(uut: AgentLink, pids: Sequence[str]) -> dict[str, dict[str, str]]:
    """Contents of each file by process (``cpus``: the allowed CPUs). Raises NodeError."""
    read = await uut.ask(Execute(argv=["sh", "-c", _LOOK, "sh", *pids], timeout_s=_ASK_S))
    seen: dict[str, dict[str, str]] = {pid: {} for pid in pids}
    for pid, key, value in _SEEN.findall(read.stdout):
        seen.setdefault(pid, {}).setdefault(key, value)
    return seen


# -- crews -------------------------------------------------------------------------------------------------------------
# Common parts of drivers that make crews (contracts/crew.py): several guests, each with one NIC, side by side on one
# bridge with one NIC of the UUT; guests that forward have a second NIC, on a second bridge. All are processes of the
# agent, started at once, and end with it.

TOKEN = "platform"
BRIDGE, INBOUND_BRIDGE = "lcbg", "lcbgi"
MOST = 250
"""The number of a guest, and so its address, fits one byte."""

ONE_MORE = 0.1
"""Share of one guest's time limit by which each further one may be later: all boot on the same processors."""

GONE_S, POLL_S = 5.0, 0.02
"""Maximum time for a NIC to disappear after its guest ended, and the polling interval."""


_ENTER = """\
entered=
for above in "" /cpu /memory; do
  group=/proc/$PPID/root/sys/fs/cgroup$above/$0
  if test -d "$group"; then echo $$ >"$group/cgroup.procs" && entered=yes || exit 1; fi
done
test "$entered" && exec "$@\""""
"""Enters a control group, of either version, and becomes the guest there. The path leads through the agent's root:
a namespace of the agent's has a /sys without any group.
"""


@dataclass(frozen=True, slots=True)
class CrewGuest:
    """One guest of a crew: its request, its number from 1, the UUT's NIC that it shares.

    ``disk``: the file or directory on the UUT that is its disk, or None; ``inbound_port``: the UUT's NIC that its
    inbound NIC reaches, or None if it has no inbound NIC.
    """

    member: CrewMember
    number: int
    port: str
    disk: str | None = None
    inbound_port: str | None = None

    @property
    def name(self) -> str:
        return self.member.name

    @property
    def host_interface(self) -> str:
        return f"lcg{self.number}"

    @property
    def inbound_interface(self) -> str | None:
        return None if self.member.inbound is None else f"lcgi{self.number}"

    @property
    def nics(self) -> list[tuple[str, str, str]]:
        """Each NIC's other end on the UUT, its MAC and its address with prefix length; the inbound one last."""
        own, inbound = [(self.host_interface, self.mac, self.member.address)], self.member.inbound
        return own if inbound is None else [*own, (f"lcgi{self.number}", inbound.mac.lower(), inbound.address)]

    @property
    def mac(self) -> str:
        return self.member.mac.lower()

    @property
    def cpus(self) -> str | None:
        return self.member.cpus

    @property
    def memory_mib(self) -> int | None:
        return self.member.memory_mib

    @property
    def ends(self) -> list[tuple[TapNic, str]]:
        ports = [self.port, self.inbound_port or self.port]
        return [(TapNic(host, mac), port) for (host, mac, _), port in zip(self.nics, ports, strict=False)]

    @property
    def image_arguments(self) -> str:
        """The image's arguments for its NICs, its disk and its mark."""
        disk = "" if self.disk is None else f" lc.disk={INSIDE}"
        nics = " ".join(f"lc.nic={mac},{address}" for _, mac, address in self.nics)
        return f"{nics}{disk}{format_mark_argument(self.member.boot_mark)}"

    def limits(self, *, memory: bool) -> Limits | None:
        """Limits of its control group, or None if it needs none. ``memory``: it has no memory of its own."""
        member = self.member
        limits = Limits(
            group=member.name,
            cpu_shares=member.cpu_shares,
            cpu_quota_ratio=member.cpu_quota_ratio,
            memory_mib=member.memory_mib if memory else None,
        )
        return None if limits == Limits(group=member.name) else limits


@dataclass(slots=True)
class RunningCrew:
    """A driver's state of a crew from its start to its end. ``group``: the parent of its control groups."""

    guests: Sequence[CrewGuest]
    group: str = field(default_factory=lambda: f"labconsole-{secrets.token_hex(4)}")

    @property
    def names(self) -> list[str]:
        return [guest.name for guest in self.guests]


def crew_guests(wanted: CrewWanted, disks: CrewDisks | None = None) -> list[CrewGuest]:
    return [
        CrewGuest(
            member,
            number,
            wanted.port,
            None if disks is None or not member.disk_mib else disks.path(member.name),
            wanted.inbound_port,
        )
        for number, member in enumerate(wanted.members, start=1)
    ]


class CrewMaking(ABC):
    """See labconsole.contracts.crew.CrewDriver, except for the driver's restore(), which begins with end_crew()."""

    name: str
    about: DriverInfo
    options: Any
    CREW_BOOT_S: ClassVar[float] = 20.0
    """Boot time limit of one guest; with many guests, each may be later."""

    CREW_NAMESPACED: ClassVar[bool] = False
    """Whether each guest runs in a namespace of the agent's, of the guest's name."""

    CREW_IN_NAMESPACES: ClassVar[bool] = False
    """Whether each guest has a network namespace of the UUT's kernel, that of its first process."""

    CREW_MEMORY_IS_LIMIT: ClassVar[bool] = False
    """Whether ``memory_mib`` limits its processes, instead of being a machine's memory."""

    CREW_DISK: ClassVar[Literal["directory", "seen inside", "file"]] = "directory"
    """A guest's disk: a directory on the UUT, that directory as seen inside, or a file that is a machine's disk."""

    guest_disk: str
    """Location of the guests' disks on the UUT."""

    CREW_FILES: ClassVar[tuple[str, ...]] = ()
    """The options that name the guests' files or directories on the UUT."""

    _standing: RunningCrew | None = None
    _checked = False

    # For drivers to override ------------------------------------------------------------------------------------------

    @abstractmethod
    def crew_argv(self, guest: CrewGuest, crew: RunningCrew) -> list[str]:
        """The program that is the guest, or starts it."""

    @abstractmethod
    def crew_nics(self, guests: Sequence[CrewGuest]) -> list[NetworkChange]:
        """Changes that the agent makes for their NICs, including the bridge."""

    def crew_cannot(self, wanted: CrewWanted) -> str | None:
        """Why the driver cannot run this crew, in a sentence, in addition to the common reasons."""
        return None

    async def crew_facts(self, uut: AgentLink, guests: Sequence[CrewGuest]) -> Attestation:
        """The attestation's facts that cannot change while the guests run."""
        return {}

    async def refuse_node(self, uut: AgentLink) -> None:
        """Query the facts that the command lines depend on. Raises NodeError if no guest can run, before any change."""
        return

    async def check_node(self, uut: AgentLink) -> None:
        """Run refuse_node() once: it must not read the guests' files again before they start."""
        if not self._checked:
            await self.refuse_node(uut)
            self._checked = True

    # The contract ---------------------------------------------------------------------------------------------------

    def crew_refusal(self, wanted: CrewWanted) -> str | None:
        if not 1 <= len(wanted.members) <= MOST:
            return f"platform {self.name} can have 1 to {MOST} guests for jobs, not {len(wanted.members)}"
        return self.crew_cannot(wanted)

    def crew_offer(self, wanted: CrewWanted) -> CrewOffer:
        options = {name: getattr(self.options, name) for name in self.CREW_FILES}
        each_mib = [self.crew_memory_mib(guest) for guest in crew_guests(wanted)]
        own = [mib for mib in each_mib if mib is not None and not self.CREW_MEMORY_IS_LIMIT]
        return CrewOffer(
            place=self.guest_disk,
            files={name: path for name, path in options.items() if path is not None},
            memory_mib=sum(own) if own else None,
            in_namespaces=self.CREW_IN_NAMESPACES,
        )

    def crew_commands(self, wanted: CrewWanted) -> list[str]:
        disks = CrewDisks(self.guest_disk, wanted.members, self.CREW_DISK == "file", "labconsole-disks-00000000")
        crew = RunningCrew(crew_guests(wanted, disks), group="labconsole-guests")
        programs = [shlex.join(self._crew_argv(guest, crew)) for guest in crew.guests]
        return [*disks.commands(), *shell_lines(self._crew_changes(crew)), *programs]

    async def prepare_crew(self, uut: AgentLink, wanted: CrewWanted) -> Crew:
        disks = CrewDisks(self.guest_disk, wanted.members, self.CREW_DISK == "file")
        crew = self._standing = RunningCrew(crew_guests(wanted, disks))
        await self.check_node(uut)
        below = await disks.below(uut, self.name)
        timeout_s = min(MAX_WAIT_S, wanted.limit_s or self.CREW_BOOT_S * (1 + ONE_MORE * len(crew.guests)))
        async with restored_on_failure(self.restore, uut):
            await apply(uut, TOKEN, [*disks.changes(), *self._crew_changes(crew)])
            await disks.format(uut)
            argvs = {guest.name: self._crew_argv(guest, crew) for guest in crew.guests}
            started = await start_all(uut, argvs, timeout_s=timeout_s, namespaced=self.CREW_NAMESPACED)
            facts = await self.crew_facts(uut, crew.guests)

            async def attest(link: AgentLink) -> Attestation:
                return {**await self._attest_crew(link, crew, started), **facts}

            return Crew(
                members=tuple(
                    StandingMember(
                        name=guest.name,
                        ask=ask_on_console(guest.name),
                        pid=started[guest.name].pid,
                        host_interface=guest.host_interface,
                        started_ns=started[guest.name].started_ns,
                        ready_ns=started[guest.name].ready_ns,
                        disk=self._guest_disk_path(guest),
                        inbound_interface=guest.inbound_interface,
                        in_namespace=self.CREW_IN_NAMESPACES,
                    )
                    for guest in crew.guests
                ),
                started_ns=min(each.started_ns for each in started.values()),
                attestation=await attest(uut),
                attest=attest,
                disks=below,
            )

    @abstractmethod
    async def restore(self, uut: AgentLink) -> None:
        """The driver's own restore, which begins with end_crew() and ends with forget_crew()."""

    async def end_crew(self, uut: AgentLink) -> None:
        """End any running guests. Their changes are undone with all others of the platform."""
        if self._standing is not None:
            outcomes = await asyncio.gather(
                *(close_shell(uut, name) for name in self._standing.names), return_exceptions=True
            )
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome

    async def forget_crew(self, uut: AgentLink) -> None:
        """Clear the state after everything was undone."""
        if self._standing is not None:
            await self._wait_gone(uut, self._standing)
            self._standing = None

    async def _wait_gone(self, uut: AgentLink, crew: RunningCrew) -> None:
        """Wait for the NICs to disappear: the kernel removes them some time after a namespace's last process."""
        ours = {host for guest in crew.guests for host, _, _ in guest.nics}
        deadline = asyncio.get_running_loop().time() + GONE_S
        while ours & {link.name for link in (await uut.ask(ReadLinks())).links if not link.namespace}:
            if asyncio.get_running_loop().time() > deadline:
                raise NodeError(uut.name, f"guests of platform {self.name} were ended, but their NICs still exist")
            await asyncio.sleep(POLL_S)

    # Implementation
    # ----------------------------------------------------------------------------------------------------

    def _crew_changes(self, crew: RunningCrew) -> list[NetworkChange]:
        return [*self.crew_groups(crew), *self.crew_nics(crew.guests)]

    def _guest_disk_path(self, guest: CrewGuest) -> str | None:
        """Location of its disk, or None without a disk."""
        return guest.disk if self.CREW_DISK == "directory" or guest.disk is None else INSIDE

    def _crew_limits(self, guest: CrewGuest) -> Limits | None:
        return guest.limits(memory=self.CREW_MEMORY_IS_LIMIT)

    def crew_groups(self, crew: RunningCrew) -> list[NetworkChange]:
        """The control groups of guests with limits."""
        groups = [limits for guest in crew.guests if (limits := self._crew_limits(guest)) is not None]
        return [ControlGroups(name=crew.group, groups=groups)] if groups else []

    def _crew_argv(self, guest: CrewGuest, crew: RunningCrew) -> list[str]:
        return [*self.entering(guest, crew), *self.crew_argv(guest, crew)]

    def entering(self, guest: CrewGuest, crew: RunningCrew) -> list[str]:
        """Beginning of its command line, which enters its control group, if it has one."""
        return [] if self._crew_limits(guest) is None else ["sh", "-c", _ENTER, f"{crew.group}/{guest.name}"]

    async def _attest_crew(self, uut: AgentLink, crew: RunningCrew, started: dict[str, GuestStarted]) -> Attestation:
        """Raises NodeError for the first guest that is not the started one."""
        states = await asyncio.gather(*(guest_state(uut, name) for name in crew.names))
        for name, state in zip(crew.names, states, strict=True):
            if state is None or not state.running or state.pid != started[name].pid:
                raise NodeError(uut.name, f"guest {name} of platform {self.name} is no longer the one that was started")
        first = crew.guests[0]
        ports = [first.port, *([] if first.inbound_port is None else [first.inbound_port])]
        hosts = [host for guest in crew.guests for host, _, _ in guest.nics]
        pids = [str(started[name].pid) for name in crew.names]
        seen = await read_limits(uut, pids)
        return {
            "driver": self.about.name,
            "guests": crew.names,
            "machines": {
                guest.name: self.crew_machine(uut, guest, seen[pid])
                for guest, pid in zip(crew.guests, pids, strict=True)
            },
            "interfaces": await read_state(uut, routing={}, ports=[*ports, *hosts]),
        }

    def crew_machine(self, uut: AgentLink, guest: CrewGuest, seen: dict[str, str]) -> Attestation:
        """Limits of one guest, read back. Raises NodeError if they differ from the requested ones."""
        found: Attestation = {"host_cpus": seen.get("cpus"), "memory_mib": self.crew_memory_mib(guest)}
        if guest.member.cpus is not None and cpu_set(seen.get("cpus", "")) != cpu_set(guest.member.cpus):
            raise NodeError(
                uut.name,
                f"guest {guest.name} of platform {self.name} may run on CPUs {seen.get('cpus')}, but should run on "
                f"{guest.member.cpus}",
            )
        limits = self._crew_limits(guest)
        if limits is not None:
            files = [
                {file: value for each in CONTROLLERS for file, value in limits.files(each, second=second).items()}
                for second in (False, True)
            ]
            matching = next((wanted for wanted in files if wanted.items() <= seen.items()), None)
            if matching is None:
                raise NodeError(
                    uut.name,
                    f"guest {guest.name} of platform {self.name} does not have its limits: {_format_files(files[0])}",
                )
            found["limits"] = matching
        return {key: value for key, value in found.items() if value is not None or key == "host_cpus"}

    def crew_memory_mib(self, guest: CrewGuest) -> int | None:
        return guest.memory_mib


def _format_files(files: dict[str, str]) -> str:
    return ", ".join(f"{file} {value}" for file, value in files.items())


def crew_bridges(guests: Sequence[CrewGuest], *, bridged: bool = True) -> list[Bridge]:
    """The bridge of the shared NIC and the guests' ends, and that of their inbound ends if they have any. Without
    ``bridged``, another program adds those ports.
    """
    ends = [guest.host_interface for guest in guests] if bridged else []
    bridges = [Bridge(name=BRIDGE, ports=[guests[0].port, *ends])]
    if (port := guests[0].inbound_port) is not None:
        inbound = [guest.inbound_interface for guest in guests if guest.inbound_interface is not None]
        bridges.append(Bridge(name=INBOUND_BRIDGE, ports=[port, *(inbound if bridged else [])]))
    return bridges
