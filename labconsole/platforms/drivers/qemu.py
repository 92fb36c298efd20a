"""``qemu``: a QEMU machine that forwards, under KVM or by translation (TCG), with a chosen NIC model.

It needs no management daemon: the command line is ours (``guest_program.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from labconsole.contracts.driver import Attestation, DriverInfo
from labconsole.contracts.ports import AgentLink
from labconsole.platforms.base.crew import CrewGuest, RunningCrew
from labconsole.platforms.base.guest_program import GuestProgramDriver, disk_cache
from labconsole.platforms.base.image import HEAVY_MIB, SECOND, Bootable
from labconsole.platforms.base.options import DISK_PLACE, USUAL_DISK_PLACE, Cpus, DiskPlace, Word, read_options

DEVICES = {"virtio": "virtio-net-pci"}
"""QEMU's names of NIC models where they differ from ours."""

ACCELERATORS = {"kvm": ["-accel", "kvm", "-cpu", "host"], "tcg": ["-accel", "tcg", "-cpu", "max"]}


class QemuOptions(BaseModel):
    """The machine to start."""

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
    icount: int | None = Field(
        default=None, strict=True, ge=0, le=10, description="TCG: an instruction takes 2^N ns of the guest's time"
    )
    disk_cache: Literal["none", "writeback"] = Field(
        default="none", description="writeback: guests' disks go through the UUT's page cache"
    )
    program: Word = "qemu-system-x86_64"
    guest_disk: DiskPlace = Field(default=USUAL_DISK_PLACE, description=DISK_PLACE)


class QemuDriver(GuestProgramDriver[QemuOptions]):
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
        processes=(r"\.?qemu-system-.*", "qemu-kvm", "kvm"),
    )
    BOOT_S = CREW_BOOT_S = 120.0
    CREW_FILES = ("kernel", "initrd")
    ATTESTED = ("nic_model", "accel", "memory_mib")

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        checked = read_options(QemuOptions, "qemu", name, options)
        super().__init__(name, checked, program=checked.program)

    def argv(self, guest: Bootable) -> list[str]:
        options = self.options
        device = DEVICES.get(options.nic_model, options.nic_model)
        nics: list[str] = []
        for number, (nic, _) in enumerate(guest.ends):
            nics += ["-netdev", f"tap,id=n{number},ifname={nic.tap},script=no,downscript=no"]
            nics += ["-device", f"{device},netdev=n{number},mac={nic.mac}"]
        return [
            *self.pinned(guest),
            options.program,
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "pc"),
            *ACCELERATORS[options.accel],
            *([] if options.icount is None else ["-icount", f"shift={options.icount}"]),
            *("-smp", str(options.vcpus), "-m", str(self.memory_mib(guest))),
            *("-kernel", options.kernel, "-initrd", options.initrd),
            # quiet: writing to an emulated serial line costs boot time. panic=-1: a dead guest ends.
            *("-append", f"console=ttyS0 quiet panic=-1 mitigations=off {guest.image_arguments}".rstrip()),
            *("-serial", "stdio", "-monitor", "none"),
            *nics,
        ]

    def crew_argv(self, guest: CrewGuest, crew: RunningCrew) -> list[str]:
        if guest.disk is None:
            return self.argv(guest)
        drive = f"if=none,id=d0,format=raw,cache={self.options.disk_cache},file={guest.disk}"
        return [*self.argv(guest), "-drive", drive, "-device", "virtio-blk-pci,drive=d0"]

    async def machine(self, uut: AgentLink, name: str, pid: int) -> Attestation:
        """Adds the memory of the second guest; that of the first is among the options."""
        seen = await super().machine(uut, name, pid)
        return {**seen, **({"memory_mib": self.options.second_memory_mib} if name == SECOND else {}), **self._clock()}

    async def crew_facts(self, uut: AgentLink, guests: Sequence[CrewGuest]) -> Attestation:
        cached = disk_cache(self.options.disk_cache, guests)
        return {**await super().crew_facts(uut, guests), **self._clock(), **cached}

    def _clock(self) -> Attestation:
        """The guest's clock source, if it is not the host's clock."""
        return {} if self.options.icount is None else {"icount": self.options.icount}


DRIVER = QemuDriver
