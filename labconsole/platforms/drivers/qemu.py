"""``qemu``: a QEMU machine that forwards, under KVM or by translation (TCG), with a chosen NIC model.

No management daemon stands between: the command line is ours, taps bridge the guest to the UUT's NICs, and the guest is
a child of the agent, gone with it. How many processors it has, and where it may run, is read back and not assumed. A
second guest is a second such machine, with NICs and a console of its own.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from labconsole.contracts.driver import Attestation, DriverInfo, Prepared, SecondGuest, StreamWiring
from labconsole.contracts.ports import AgentLink
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

TOKEN = "platform"
BOOT_S = 120.0
DEVICES = {"virtio": "virtio-net-pci"}
"""Where QEMU's word for a NIC model is not ours."""

ACCELERATORS = {"kvm": ["-accel", "kvm", "-cpu", "host"], "tcg": ["-accel", "tcg", "-cpu", "max"]}


class QemuOptions(BaseModel):
    """The machine that is started."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kernel: Word = Field(description="a file on the UUT")
    initrd: Word = Field(description="a file on the UUT")
    nic_model: Literal["virtio", "e1000", "e1000e", "vmxnet3", "rtl8139", "pcnet"] = "virtio"
    accel: Literal["kvm", "tcg"] = "kvm"
    memory_mib: int = Field(default=256, strict=True, ge=64)
    vcpus: int = Field(default=1, strict=True, ge=1)
    cpu: Cpus | None = Field(default=None, description="pins the guest")
    second_memory_mib: int = Field(default=HEAVY_MIB, strict=True, ge=64)
    second_cpu: Cpus | None = Field(default=None, description="pins the second guest")
    program: Word = "qemu-system-x86_64"


class QemuDriver:
    """See labconsole.contracts.driver.Driver."""

    about = DriverInfo(
        name="qemu",
        summary="a QEMU machine, under KVM or by translation (TCG)",
        tried=(
            "yes: TCG with virtio, e1000 and vmxnet3, first and second guest, in the test suite; KVM on a "
            "processor that QEMU emulates (`lab up --uut machine`)"
        ),
        Options=QemuOptions,
        boot_s=5.0,
        processes=("qemu-.*", "kvm"),
    )

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        self.name = name
        self.options = read_options(QemuOptions, "qemu", name, options)
        self.about = replace(self.about, tools=(self.options.program,))

    def refusal(self, background: str) -> str | None:
        """None: a second guest is made when there is to be one."""
        return None

    def argv(self, guest: BootedGuest) -> list[str]:
        """The program that is the guest."""
        told = self.options
        first = guest.name == FIRST
        cpus = told.cpu if first else told.second_cpu
        device = DEVICES.get(told.nic_model, told.nic_model)
        nics: list[str] = []
        for number, nic in enumerate(nic for pair in guest.nics for nic in pair):
            nics += ["-netdev", f"tap,id=n{number},ifname={nic.tap},script=no,downscript=no"]
            nics += ["-device", f"{device},netdev=n{number},mac={nic.mac}"]
        return [
            *([] if cpus is None else ["taskset", "-c", cpus]),
            told.program,
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "pc"),
            *ACCELERATORS[told.accel],
            *("-smp", str(told.vcpus), "-m", str(told.memory_mib if first else told.second_memory_mib)),
            *("-kernel", told.kernel, "-initrd", told.initrd),
            # quiet: writing to an emulated serial line costs boot time. panic=-1: a dead guest ends.
            *("-append", f"console=ttyS0 quiet panic=-1 mitigations=off {guest.words}".rstrip()),
            *("-serial", "stdio", "-monitor", "none"),
            *nics,
        ]

    def commands(self, wirings: Sequence[StreamWiring], second: Sequence[StreamWiring] | None = None) -> list[str]:
        """What prepare() does on the UUT, as lines of a shell."""
        guests = booted_guests(wirings, second)
        return [line for guest in guests for line in (*shell_lines(guest.changes()), shlex.join(self.argv(guest)))]

    async def prepare(
        self, uut: AgentLink, wirings: Sequence[StreamWiring], *, second: Sequence[StreamWiring] | None = None
    ) -> Prepared:
        """Make taps and bridges, boot the guests side by side, wait until each says that it forwards."""
        guests = booted_guests(wirings, second)
        async with restored_on_failure(self.restore, uut):
            await apply(uut, TOKEN, [change for guest in guests for change in guest.changes()])
            pids = await boot(uut, {guest.name: self.argv(guest) for guest in guests}, timeout_s=BOOT_S)
            attestation = await self._attest(uut, pids)

        async def attest(link: AgentLink) -> Attestation:
            return await self._attest(link, pids)

        return Prepared(
            paths={name: path for guest in guests for name, path in guest.paths().items()},
            second=self._second(pids),
            attestation=attestation,
            attest=attest,
        )

    def _second(self, pids: dict[str, int]) -> SecondGuest | None:
        if SECOND not in pids:
            return None
        return SecondGuest(name=SECOND, cpus=self.options.second_cpu, ask=ask_on_console(SECOND), pid=pids[SECOND])

    async def _attest(self, uut: AgentLink, pids: dict[str, int]) -> Attestation:
        """What runs now. Model, accelerator and memory are the running command line's, which nobody can change."""
        machines = {name: await self._machine(uut, name, pid) for name, pid in pids.items()}
        beside = {name: machine for name, machine in machines.items() if name != FIRST}
        return {
            "driver": "qemu",
            "guests": list(machines),
            **machines[FIRST],
            **{key: getattr(self.options, key) for key in ("nic_model", "accel", "memory_mib")},
            **({"machines": beside} if beside else {}),
        }

    async def _machine(self, uut: AgentLink, name: str, pid: int) -> Attestation:
        seen = await look_at_guest(uut, self.name, name, pid)
        return {**seen, **({"memory_mib": self.options.second_memory_mib} if name == SECOND else {})}

    async def restore(self, uut: AgentLink) -> None:
        """End the guests, take their taps and bridges away."""
        try:
            await end(uut)
        finally:
            await undo(uut, TOKEN)


DRIVER = QemuDriver
