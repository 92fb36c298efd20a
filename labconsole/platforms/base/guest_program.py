"""A driver of guests that are programs started by it, which boot the forwarding image (``image.py``).

Taps bridge each guest to the UUT's NICs. A guest is a child of the agent, and ends with it. Its command line has its
settings; its number of processors and its allowed CPUs are read back and not assumed. A second guest is a second such
program, with NICs and a console of its own.
"""

from __future__ import annotations

import re
import shlex
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Generic, Protocol, TypeVar

from labconsole.contracts.driver import Attestation, DriverInfo, Prepared, SecondGuest, StreamPath, StreamWiring
from labconsole.contracts.ports import AgentLink
from labconsole.network.change import NetworkChange
from labconsole.network.links import Tap
from labconsole.platforms.base.crew import TOKEN, CrewGuest, CrewMaking, RunningCrew, crew_bridges
from labconsole.platforms.base.crew_disks import refuse_unmounted
from labconsole.platforms.base.forwarding import apply, restored_on_failure, shell_lines, undo
from labconsole.platforms.base.guest_shell import ask_on_console, build_taskset_prefix, start_all
from labconsole.platforms.base.image import (
    FIRST,
    SECOND,
    Bootable,
    BootedGuest,
    attest_guest,
    booted_guests,
    end,
    read_guest_facts,
)
from labconsole.wire.execution import Execute

_SUMS_S = 60
_MOST_VERSION = 20


_MADE_OF = """\
program=$1; shift
"$program" --version 2>&1 | grep -m 1 -E '(^|version )[0-9]+[.][0-9]' || echo
for file; do
  case $file in */*) ;; *) file=$(command -v "$file");; esac
  sha256sum -- "$file" 2>/dev/null || echo -
done"""
"""Prints a program's version in one line, then the checksum of each file, or program in the path; a directory has none.
"""

_VERSION = re.compile(r"(?:^|version )(\d+(?:\.\d+)+)")
"""``QEMU emulator version 7.2.22 (...)``, ``6.1.176`` of User-mode Linux; a loader's warnings may come before."""


class GuestProgramOptions(Protocol):
    """Common options of these drivers for their two guests."""

    @property
    def memory_mib(self) -> int: ...

    @property
    def cpu(self) -> str | None: ...

    @property
    def second_memory_mib(self) -> int: ...

    @property
    def second_cpu(self) -> str | None: ...

    @property
    def guest_disk(self) -> str: ...


GuestOptions = TypeVar("GuestOptions", bound=GuestProgramOptions)


class GuestProgramDriver(CrewMaking, Generic[GuestOptions]):
    """See labconsole.contracts.driver.Driver, and CrewDriver for guests in number."""

    about: DriverInfo
    CREW_DISK = "file"
    BOOT_S: ClassVar[float]
    """Boot time limit of a guest."""

    WHOLE_FRAMES: ClassVar[bool] = False
    """Whether its guests accept nothing longer than a frame, although they tell their taps otherwise."""

    ATTESTED: ClassVar[tuple[str, ...]]
    """Attested options, which cannot change while the program runs."""

    def __init__(self, name: str, options: GuestOptions, *, program: str) -> None:
        self.name, self.options, self.guest_disk = name, options, options.guest_disk
        self.about = replace(self.about, tools=(program,))

    @abstractmethod
    def argv(self, guest: Bootable) -> list[str]:
        """The program that is the guest."""

    async def _versions(self, uut: AgentLink) -> dict[str, str]:
        """The program's version, and the beginning of the SHA-256 of each guest file."""
        (program,) = self.about.tools
        files = {name: path for name in self.CREW_FILES if (path := getattr(self.options, name)) is not None}
        request = Execute(argv=["sh", "-c", _MADE_OF, "sh", program, *files.values()], timeout_s=_SUMS_S)
        said, *sums = (await uut.ask(request, timeout_s=_SUMS_S + 10)).stdout.splitlines() or [""]
        version = _VERSION.search(said)
        found = {self.about.name: version[1][:_MOST_VERSION]} if version else {}
        for name, line in zip(files, sums, strict=False):  # a node may return fewer lines
            if re.match(r"[0-9a-f]{64} ", line):
                found[name] = line[:12]
        return found

    def pinned(self, guest: Bootable) -> list[str]:
        """Beginning of its command line."""
        cpus = self.options.second_cpu if guest.name == SECOND else self.options.cpu
        return build_taskset_prefix(guest.cpus or cpus)

    def memory_mib(self, guest: Bootable) -> int:
        options = self.options
        return guest.memory_mib or (options.second_memory_mib if guest.name == SECOND else options.memory_mib)

    def changes(self, guest: BootedGuest) -> list[NetworkChange]:
        """Changes that the agent makes for its NICs."""
        return guest.changes()

    def paths(self, guest: BootedGuest) -> dict[str, StreamPath]:
        """The paths of the streams that pass it."""
        return guest.paths()

    async def refuse_node(self, uut: AgentLink) -> None:
        """Raise NodeError if no guest can boot, before any change."""

    async def machine(self, uut: AgentLink, name: str, pid: int) -> Attestation:
        """The attestation of one guest, which is the process ``pid``."""
        return await attest_guest(uut, self.name, name, pid)

    def refusal(self, background: str) -> str | None:
        """Always None: a second guest is made on request."""
        return None

    def commands(self, wirings: Sequence[StreamWiring], second: Sequence[StreamWiring] | None = None) -> list[str]:
        """The commands of prepare() on the UUT, as lines of a shell."""
        guests = booted_guests(wirings, second)
        return [line for guest in guests for line in (*shell_lines(self.changes(guest)), shlex.join(self.argv(guest)))]

    async def prepare(
        self, uut: AgentLink, wirings: Sequence[StreamWiring], *, second: Sequence[StreamWiring] | None = None
    ) -> Prepared:
        """Make taps and bridges, boot the guests side by side, wait until each reports that it forwards."""
        await self.refuse_node(uut)
        guests = booted_guests(wirings, second)
        async with restored_on_failure(self.restore, uut):
            await apply(uut, TOKEN, [change for guest in guests for change in self.changes(guest)])
            argvs = {guest.name: self.argv(guest) for guest in guests}
            started = await start_all(uut, argvs, timeout_s=self.BOOT_S)
            pids = {name: guest.pid for name, guest in started.items()}
            versions = await self._versions(uut)

            async def attest(link: AgentLink) -> Attestation:
                return {**await self._attest(link, pids), "versions": versions}

            attestation = await attest(uut)

        second_guest = None
        if SECOND in pids:
            cpus = self.options.second_cpu
            second_guest = SecondGuest(name=SECOND, cpus=cpus, ask=ask_on_console(SECOND), pid=pids[SECOND])
        paths = {name: path for guest in guests for name, path in self.paths(guest).items()}
        return Prepared(paths=paths, second=second_guest, attestation=attestation, attest=attest)

    async def _attest(self, uut: AgentLink, pids: dict[str, int]) -> Attestation:
        machines = {name: await self.machine(uut, name, pid) for name, pid in pids.items()}
        others = {name: machine for name, machine in machines.items() if name != FIRST}
        return {
            "driver": self.about.name,
            "guests": list(machines),
            **machines[FIRST],
            **{key: getattr(self.options, key) for key in self.ATTESTED},
            **({"machines": others} if others else {}),
        }

    def crew_nics(self, guests: Sequence[CrewGuest]) -> list[NetworkChange]:
        cut = self.WHOLE_FRAMES
        taps = (Tap(name=host, whole_frames=cut) for guest in guests for host, _, _ in guest.nics)
        return [*taps, *crew_bridges(guests)]

    def crew_argv(self, guest: CrewGuest, crew: RunningCrew) -> list[str]:
        return self.argv(guest)

    def crew_memory_mib(self, guest: CrewGuest) -> int:
        return self.memory_mib(guest)

    async def crew_facts(self, uut: AgentLink, guests: Sequence[CrewGuest]) -> Attestation:
        """One guest's own facts: all boot the same image with the same options."""
        await refuse_unmounted(uut, [guest.name for guest in guests if guest.disk is not None])
        seen = await read_guest_facts(uut, guests[0].name)
        return {
            **{key: getattr(self.options, key) for key in self.ATTESTED},
            "guest_kernel": seen[0] if seen else None,
            "vcpus": seen[1] if seen else None,
            "versions": await self._versions(uut),
        }

    async def restore(self, uut: AgentLink) -> None:
        """End the guests, and remove their taps and bridges."""
        try:
            await self.end_crew(uut)
            await end(uut)
        finally:
            await undo(uut, TOKEN)
            await self.forget_crew(uut)


def disk_cache(setting: str, guests: Sequence[CrewGuest]) -> Attestation:
    """The attested disk cache, empty if no guest has a disk."""
    return {"disk_cache": setting} if any(guest.disk is not None for guest in guests) else {}
