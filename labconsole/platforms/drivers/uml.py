"""``uml``: a User-mode Linux that forwards: a kernel that runs as a process, with its NICs on taps of the UUT.

It is booted as ``qemu``'s guest is, and gone with its agent as that is, helper processes included: they share its
process group. What it writes (a file that is its memory, its sockets) goes into a file system of its own that only its
processes see, because a program that is killed can clean up nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from labconsole.contracts.driver import Attestation, DriverInfo, Prepared, SecondGuest, StreamPath, StreamWiring
from labconsole.contracts.ports import AgentLink
from labconsole.errors import NodeError
from labconsole.network.change import NetworkChange
from labconsole.platforms.base.forwarding import apply, restored_on_failure, shell_lines, undo
from labconsole.platforms.base.image import (
    FIRST,
    HEAVY_MIB,
    SECOND,
    BootedGuest,
    boot,
    booted_guests,
    end,
    look_at_guest,
)
from labconsole.platforms.base.inside import ask_on_console
from labconsole.platforms.base.options import Cpus, Word, read_options
from labconsole.wire.execution import Execute

TOKEN = "platform"
BOOT_S = 60.0
QUEUE_DEPTH = 128
"""Frames that a NIC takes or gives in one system call."""

SCRATCH = "/dev/shm"
IN_SCRATCH = f'mount -t tmpfs -o mode=0700,size=100% labconsole {SCRATCH} && exec "$@"'

ALL_REGISTERS_SINCE = (6, 13)
"""From this kernel on UML keeps as many registers as the processor has."""

_VERSION = re.compile(r"^(\d{1,3})\.(\d{1,3})\S{0,60}$", re.MULTILINE)
_COMMAND_LINE_CHARACTERS = 4000


class UmlOptions(BaseModel):
    """The kernel that is started as a program."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kernel: Word = Field(default="linux.uml", description="a program on the UUT")
    initrd: Word = Field(description="a file on the UUT")
    transport: Literal["tap", "raw"] = Field(default="tap", description="raw: sockets on the UUT's NICs")
    memory_mib: int = Field(default=128, strict=True, ge=64)
    cpu: Cpus | None = Field(default=None, description="pins the guest")
    second_memory_mib: int = Field(default=HEAVY_MIB, strict=True, ge=64)
    second_cpu: Cpus | None = Field(default=None, description="pins the second guest")
    preload: Word | None = Field(default=None, description="a shared library on the UUT")


class UmlDriver:
    """See labconsole.contracts.driver.Driver."""

    about = DriverInfo(
        name="uml",
        summary="a User-mode Linux: a kernel that runs as a process",
        tried="yes: Debian's 6.1, in the test suite",
        Options=UmlOptions,
        boot_s=2.0,
        processes=(r"linux\.uml.*",),
    )

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        self.name = name
        self.options = read_options(UmlOptions, "uml", name, options)
        self.about = replace(self.about, tools=(self.options.kernel,))

    def refusal(self, background: str) -> str | None:
        """None: a second guest is made when there is to be one."""
        return None

    def argv(self, guest: BootedGuest) -> list[str]:
        """The program that is the guest. Each of these words starts the next in its own place: one process."""
        told = self.options
        first = guest.name == FIRST
        cpus = told.cpu if first else told.second_cpu
        nics = []
        for index, (wiring, pair) in enumerate(zip(guest.wirings, guest.nics, strict=True)):
            for side, (nic, port) in enumerate(zip(pair, (wiring.uut_in, wiring.uut_out), strict=True)):
                interface = nic.tap if told.transport == "tap" else port
                said = f"transport={told.transport},ifname={interface},depth={QUEUE_DEPTH},mac={nic.mac}"
                nics.append(f"vec{2 * index + side}:{said}")
        return [
            *([] if cpus is None else ["taskset", "-c", cpus]),
            *("unshare", "--mount", "sh", "-c", IN_SCRATCH, "sh"),
            *("env", f"TMPDIR={SCRATCH}", *([] if told.preload is None else [f"LD_PRELOAD={told.preload}"])),
            told.kernel,
            *(f"umid={guest.name}", f"uml_dir={SCRATCH}/"),
            f"mem={told.memory_mib if first else told.second_memory_mib}M",
            *(f"initrd={told.initrd}", "rdinit=/init"),
            *("con=null", "con0=fd:0,fd:1", "ssl=null", "quiet", "panic=-1"),
            *nics,
            *guest.words.split(),
        ]

    def commands(self, wirings: Sequence[StreamWiring], second: Sequence[StreamWiring] | None = None) -> list[str]:
        """What prepare() does on the UUT, as lines of a shell."""
        guests = booted_guests(wirings, second)
        return [line for guest in guests for line in (*shell_lines(self._changes(guest)), shlex.join(self.argv(guest)))]

    async def prepare(
        self, uut: AgentLink, wirings: Sequence[StreamWiring], *, second: Sequence[StreamWiring] | None = None
    ) -> Prepared:
        """Make taps and bridges, boot the guests side by side, wait until each says that it forwards."""
        await self._refuse_missing_files(uut)
        await self._refuse_too_many_registers(uut)
        guests = booted_guests(wirings, second)
        async with restored_on_failure(self.restore, uut):
            await apply(uut, TOKEN, [change for guest in guests for change in self._changes(guest)])
            pids = await boot(uut, {guest.name: self.argv(guest) for guest in guests}, timeout_s=BOOT_S)
            attestation = await self._attest(uut, pids)

        async def attest(link: AgentLink) -> Attestation:
            return await self._attest(link, pids)

        beside = None
        if SECOND in pids:
            cpus = self.options.second_cpu
            beside = SecondGuest(name=SECOND, cpus=cpus, ask=ask_on_console(SECOND), pid=pids[SECOND])
        paths = {name: self._path(path) for guest in guests for name, path in guest.paths().items()}
        return Prepared(paths=paths, second=beside, attestation=attestation, attest=attest)

    def _changes(self, guest: BootedGuest) -> list[NetworkChange]:
        return guest.changes() if self.options.transport == "tap" else []

    def _path(self, path: StreamPath) -> StreamPath:
        """Sockets on the UUT's NICs count nothing, so there is no hop between these."""
        if self.options.transport == "tap":
            return path
        points = tuple(point for point in path.points if point.hop in ("uut_in", "uut_out"))
        return StreamPath(destination_mac=path.destination_mac, points=points)

    async def _refuse_missing_files(self, uut: AgentLink) -> None:
        """A kernel without its image ends in a stack trace, and a library that is not there is left out silently."""
        files = [told for told in (self.options.initrd, self.options.preload) if told is not None]
        argv = ["sh", "-c", 'for file; do test -r "$file" || echo "$file"; done', "sh", *files]
        absent = (await uut.ask(Execute(argv=argv, timeout_s=5))).stdout.splitlines()
        if absent:
            raise NodeError(uut.name, f"platform {self.name}: cannot read {', '.join(absent)} on the UUT")

    async def _refuse_too_many_registers(self, uut: AgentLink) -> None:
        """Better said than seen: the guest's first process dies of it, with a kernel's stack as its last words."""
        if self.options.preload is not None:
            return
        looked = await uut.ask(Execute(argv=["grep", "-c", "-w", "amx_tile", "/proc/cpuinfo"], timeout_s=5))
        if looked.stdout.strip() in ("", "0"):
            return
        asked = await uut.ask(Execute(argv=[self.options.kernel, "--version"], timeout_s=5))
        version = _VERSION.search(asked.stdout)
        if version is None or (int(version[1]), int(version[2])) < ALL_REGISTERS_SINCE:
            raise NodeError(
                uut.name,
                f"platform {self.name}: this processor has more registers (AMX) than User-mode Linux "
                f"{version[0] if version else 'of this version'} can save; set `preload:` in hosts.yaml "
                "(docs/platforms.md, User-mode Linux)",
            )

    async def _attest(self, uut: AgentLink, pids: dict[str, int]) -> Attestation:
        """What runs now: the kernel's own word, and the command line of the process that it is."""
        machines = {name: await self._machine(uut, name, pid) for name, pid in pids.items()}
        beside = {name: machine for name, machine in machines.items() if name != FIRST}
        return {
            "driver": "uml",
            "guests": list(machines),
            **machines[FIRST],
            **{key: getattr(self.options, key) for key in ("transport", "memory_mib", "preload")},
            **({"machines": beside} if beside else {}),
        }

    async def _machine(self, uut: AgentLink, name: str, pid: int) -> Attestation:
        seen = await look_at_guest(uut, self.name, name, pid)
        # The words end in zero bytes, which no reply of an agent carries.
        argv = ["sh", "-c", 'tr "\\0" " " <"$0"', f"/proc/{pid}/cmdline"]
        read = await uut.ask(Execute(argv=argv, timeout_s=5))
        return {**seen, "command_line": read.stdout.strip()[:_COMMAND_LINE_CHARACTERS] or None}

    async def restore(self, uut: AgentLink) -> None:
        """End the guests, take their taps and bridges away."""
        try:
            await end(uut)
        finally:
            await undo(uut, TOKEN)


DRIVER = UmlDriver
