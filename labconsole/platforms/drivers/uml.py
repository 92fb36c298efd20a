"""``uml``: a User-mode Linux that forwards: a kernel that runs as a process, with its NICs on taps of the UUT.

It boots like ``qemu``'s guest, and ends with its agent like it, including helper processes, which share its process
group. Its files (its memory, its sockets) are in a file system that only its processes see, because a killed program
cannot clean up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from labconsole.contracts.crew import CrewOffer, CrewWanted
from labconsole.contracts.driver import Attestation, DriverInfo, StreamPath
from labconsole.contracts.ports import AgentLink
from labconsole.errors import NodeError
from labconsole.network.change import NetworkChange
from labconsole.platforms.base.crew import CrewGuest, RunningCrew
from labconsole.platforms.base.guest_program import GuestProgramDriver, disk_cache
from labconsole.platforms.base.image import HEAVY_MIB, Bootable, BootedGuest
from labconsole.platforms.base.options import DISK_PLACE, USUAL_DISK_PLACE, Cpus, DiskPlace, Word, read_options
from labconsole.wire.execution import Execute

QUEUE_DEPTH = 128
"""Frames that a NIC receives or sends in one system call."""

LAB_IMAGE = "uml.cpio"
"""Name of the local lab's image, whose only programs are busybox."""

SCRATCH = "/dev/shm"
IN_SCRATCH = f'mount -t tmpfs -o mode=0700,size=100% labconsole {SCRATCH} && exec "$@"'

ALL_REGISTERS_SINCE = (6, 13)
"""From this kernel on UML stores as many registers as the processor has."""

_VERSION = re.compile(r"^(\d{1,3})\.(\d{1,3})\S{0,60}$", re.MULTILINE)
_COMMAND_LINE_CHARACTERS = 4000


class UmlOptions(BaseModel):
    """The kernel to start as a program."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kernel: Word = Field(default="linux.uml", description="a program on the UUT")
    initrd: Word = Field(description="a file on the UUT")
    transport: Literal["tap", "raw"] = Field(default="tap", description="raw: sockets on the UUT's NICs")
    memory_mib: int = Field(default=128, strict=True, ge=64)
    cpu: Cpus | None = Field(default=None, description="pins the guest")
    second_memory_mib: int = Field(default=HEAVY_MIB, strict=True, ge=64)
    second_cpu: Cpus | None = Field(default=None, description="pins the second guest")
    crew_root: Word | None = Field(
        default=None, description="a directory on the UUT in which guests for jobs find programs"
    )
    preload: Word | None = Field(default=None, description="a shared library on the UUT")
    disk_cache: Literal["none", "writeback"] = Field(
        default="none", description="writeback: guests' disks do not wait for the UUT's page cache"
    )
    guest_disk: DiskPlace = Field(default=USUAL_DISK_PLACE, description=DISK_PLACE)


class UmlDriver(GuestProgramDriver[UmlOptions]):
    """See labconsole.contracts.driver.Driver."""

    about = DriverInfo(
        name="uml",
        summary="a User-mode Linux: a kernel that runs as a process",
        tried="yes: Debian's 6.1, in the test suite",
        Options=UmlOptions,
        boot_s=2.0,
        processes=(r"linux(?:\.uml.*)?",),
    )
    BOOT_S = CREW_BOOT_S = 60.0
    CREW_FILES = ("kernel", "initrd", "preload", "crew_root")
    ATTESTED = ("transport", "memory_mib", "preload")
    WHOLE_FRAMES = True

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        checked = read_options(UmlOptions, "uml", name, options)
        super().__init__(name, checked, program=checked.kernel)

    def argv(self, guest: Bootable) -> list[str]:
        """The kernel and its launchers. Each of these programs replaces itself with the next: one process."""
        options = self.options
        nics = []
        for number, (nic, port) in enumerate(guest.ends):
            interface = nic.tap if options.transport == "tap" else port
            said = f"transport={options.transport},ifname={interface},depth={QUEUE_DEPTH},mac={nic.mac}"
            nics.append(f"vec{number}:{said}")
        return [
            *self.pinned(guest),
            *("unshare", "--mount", "sh", "-c", IN_SCRATCH, "sh"),
            *("env", f"TMPDIR={SCRATCH}", *([] if options.preload is None else [f"LD_PRELOAD={options.preload}"])),
            options.kernel,
            *(f"umid={guest.name}", f"uml_dir={SCRATCH}/"),
            f"mem={self.memory_mib(guest)}M",
            *(f"initrd={options.initrd}", "rdinit=/init"),
            *("con=null", "con0=fd:0,fd:1", "ssl=null", "quiet", "panic=-1"),
            *nics,
            *guest.image_arguments.split(),
        ]

    def changes(self, guest: BootedGuest) -> list[NetworkChange]:
        """Empty for sockets, which need no tap."""
        return super().changes(guest) if self.options.transport == "tap" else []

    def paths(self, guest: BootedGuest) -> dict[str, StreamPath]:
        """Sockets on the UUT's NICs count nothing, so there is no hop between these."""
        paths = super().paths(guest)
        if self.options.transport == "tap":
            return paths
        ends = ("uut_in", "uut_out")
        return {
            name: replace(path, points=tuple(point for point in path.points if point.hop in ends))
            for name, path in paths.items()
        }

    def crew_cannot(self, wanted: CrewWanted) -> str | None:
        if self.options.transport == "tap":
            return None
        return f"platform {self.name} has no taps (transport: raw), so its guests cannot share a NIC of the UUT"

    def crew_offer(self, wanted: CrewWanted) -> CrewOffer:
        offer = super().crew_offer(wanted)
        if self.options.crew_root is not None or Path(self.options.initrd).name != LAB_IMAGE:
            return offer
        why = f"platform {self.name} has no `crew_root` in hosts.yaml, the directory in which its guests find programs"
        return replace(offer, no_programs=why)

    def crew_argv(self, guest: CrewGuest, crew: RunningCrew) -> list[str]:
        root = self.options.crew_root
        # Without s it reports data in the UUT's page cache as written to disk (as of 6.1).
        synchronous = "s" if self.options.disk_cache == "none" else ""
        disk = [] if guest.disk is None else [f"ubd0{synchronous}={guest.disk}"]
        return [*self.argv(guest), *([] if root is None else [f"lc.programs={root}"]), *disk]

    async def crew_facts(self, uut: AgentLink, guests: Sequence[CrewGuest]) -> Attestation:
        return {**await super().crew_facts(uut, guests), **disk_cache(self.options.disk_cache, guests)}

    async def refuse_node(self, uut: AgentLink) -> None:
        await self._refuse_missing_files(uut)
        await self._refuse_too_many_registers(uut)

    async def _refuse_missing_files(self, uut: AgentLink) -> None:
        """Refuse early: a kernel without its image ends in a stack trace, and a missing library goes unnoticed."""
        files = [
            path for path in (self.options.initrd, self.options.preload, self.options.crew_root) if path is not None
        ]
        argv = ["sh", "-c", 'for file; do test -r "$file" || echo "$file"; done', "sh", *files]
        absent = (await uut.ask(Execute(argv=argv, timeout_s=5))).stdout.splitlines()
        if absent:
            raise NodeError(uut.name, f"platform {self.name}: cannot read {', '.join(absent)} on the UUT")

    async def _refuse_too_many_registers(self, uut: AgentLink) -> None:
        """Refuse early: otherwise the guest's first process crashes with a kernel stack trace."""
        if self.options.preload is not None:
            return
        looked = await uut.ask(Execute(argv=["grep", "-c", "-w", "amx_tile", "/proc/cpuinfo"], timeout_s=5))
        if looked.stdout.strip() in ("", "0"):
            return
        answer = await uut.ask(Execute(argv=[self.options.kernel, "--version"], timeout_s=5))
        version = _VERSION.search(answer.stdout)
        if version is None or (int(version[1]), int(version[2])) < ALL_REGISTERS_SINCE:
            raise NodeError(
                uut.name,
                f"platform {self.name}: this processor has more registers (AMX) than User-mode Linux "
                f"{version[0] if version else 'of this version'} can save; set `preload:` in hosts.yaml "
                "(docs/platforms.md, User-mode Linux)",
            )

    async def machine(self, uut: AgentLink, name: str, pid: int) -> Attestation:
        """Adds the command line of the process."""
        seen = await super().machine(uut, name, pid)
        # The words end in zero bytes, which an agent's reply cannot carry.
        argv = ["sh", "-c", 'tr "\\0" " " <"$0"', f"/proc/{pid}/cmdline"]
        read = await uut.ask(Execute(argv=argv, timeout_s=5))
        return {**seen, "command_line": read.stdout.strip()[:_COMMAND_LINE_CHARACTERS] or None}


DRIVER = UmlDriver
