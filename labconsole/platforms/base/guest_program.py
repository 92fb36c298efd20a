"""A driver of guests that are programs which it starts itself, booting the forwarding image (``image.py``).

Taps bridge each guest to the UUT's NICs. A guest is a child of the agent, and gone with it. What a guest is given is in
its command line; how many processors it has, and where it may run, is read back and not assumed. A second guest is a
second such program, with NICs and a console of its own.
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
"""Prints what a program says of its version, in one line, then of each file, or program in the path, its sum; a
directory has none.
"""

_VERSION = re.compile(r"(?:^|version )(\d+(?:\.\d+)+)")
"""``QEMU emulator version 7.2.22 (...)``, ``6.1.176`` of User-mode Linux; a loader's warnings may come before."""


class GuestProgramOptions(Protocol):
    """What every such driver is told of its two guests."""

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


Told = TypeVar("Told", bound=GuestProgramOptions)


class GuestProgramDriver(CrewMaking, Generic[Told]):
    """See labconsole.contracts.driver.Driver, and CrewDriver for guests in number."""

    about: DriverInfo
    CREW_DISK = "file"
    BOOT_S: ClassVar[float]
    """After this a guest that has not said that it forwards is given up."""

    WHOLE_FRAMES: ClassVar[bool] = False
    """Whether its guests take nothing longer than a frame, though they say so to their taps."""

    ATTESTED: ClassVar[tuple[str, ...]]
    """Options that are in the attestation: nobody can change them while the program runs."""

    def __init__(self, name: str, options: Told, *, program: str) -> None:
        self.name, self.options, self.guest_disk = name, options, options.guest_disk
        self.about = replace(self.about, tools=(program,))

    @abstractmethod
    def argv(self, guest: Bootable) -> list[str]:
        """The program that is the guest."""

    async def _versions(self, uut: AgentLink) -> dict[str, str]:
        """Of the program, and the beginning of the SHA-256 of each file that guests start from."""
        (program,) = self.about.tools
        files = {name: path for name in self.CREW_FILES if (path := getattr(self.options, name)) is not None}
        asked = Execute(argv=["sh", "-c", _MADE_OF, "sh", program, *files.values()], timeout_s=_SUMS_S)
        said, *sums = (await uut.ask(asked, timeout_s=_SUMS_S + 10)).stdout.splitlines() or [""]
        version = _VERSION.search(said)
        found = {self.about.name: version[1][:_MOST_VERSION]} if version else {}
        for name, line in zip(files, sums, strict=False):  # a node may say less
            if re.match(r"[0-9a-f]{64} ", line):
                found[name] = line[:12]
        return found

    def pinned(self, guest: Bootable) -> list[str]:
        """What its command line begins with."""
        cpus = self.options.second_cpu if guest.name == SECOND else self.options.cpu
        return build_taskset_prefix(guest.cpus or cpus)

    def memory_mib(self, guest: Bootable) -> int:
        told = self.options
        return guest.memory_mib or (told.second_memory_mib if guest.name == SECOND else told.memory_mib)

    def changes(self, guest: BootedGuest) -> list[NetworkChange]:
        """What the agent makes for its NICs."""
        return guest.changes()

    def paths(self, guest: BootedGuest) -> dict[str, StreamPath]:
        """The ways of the streams that pass it."""
        return guest.paths()

    async def refuse_node(self, uut: AgentLink) -> None:
        """Raise NodeError where no guest could boot, before anything is changed."""

    async def machine(self, uut: AgentLink, name: str, pid: int) -> Attestation:
        """What the attestation says of one guest, which is the process ``pid``."""
        return await attest_guest(uut, self.name, name, pid)

    def refusal(self, background: str) -> str | None:
        """None: a second guest is made when there is to be one."""
        return None

    def commands(self, wirings: Sequence[StreamWiring], second: Sequence[StreamWiring] | None = None) -> list[str]:
        """What prepare() does on the UUT, as lines of a shell."""
        guests = booted_guests(wirings, second)
        return [line for guest in guests for line in (*shell_lines(self.changes(guest)), shlex.join(self.argv(guest)))]

    async def prepare(
        self, uut: AgentLink, wirings: Sequence[StreamWiring], *, second: Sequence[StreamWiring] | None = None
    ) -> Prepared:
        """Make taps and bridges, boot the guests side by side, wait until each says that it forwards."""
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
        """What one of them says of itself: all boot the same image with the same options."""
        await refuse_unmounted(uut, [guest.name for guest in guests if guest.disk is not None])
        seen = await read_guest_facts(uut, guests[0].name)
        return {
            **{key: getattr(self.options, key) for key in self.ATTESTED},
            "guest_kernel": seen[0] if seen else None,
            "vcpus": seen[1] if seen else None,
            "versions": await self._versions(uut),
        }

    async def restore(self, uut: AgentLink) -> None:
        """End the guests, take their taps and bridges away."""
        try:
            await self.end_crew(uut)
            await end(uut)
        finally:
            await undo(uut, TOKEN)
            await self.forget_crew(uut)


def disk_cache(told: str, guests: Sequence[CrewGuest]) -> Attestation:
    """What an attestation says of it: nothing where no guest has a disk."""
    return {"disk_cache": told} if any(guest.disk is not None for guest in guests) else {}
