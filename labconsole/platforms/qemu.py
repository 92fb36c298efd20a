"""``qemu``: a QEMU machine that forwards, under KVM or by translation (TCG), with a chosen NIC model.

No management daemon stands between: the command line is ours, taps bridge the guest to the UUT's NICs, and the guest is
a child of the agent, gone with it. How many processors it has, and where it may run, is read back and not assumed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from labconsole.engine.driver import PathPoint, Prepared, StreamPath, StreamWiring
from labconsole.engine.ports import AgentLink
from labconsole.errors import NodeError
from labconsole.platforms.forwarding import restored_on_failure, undo
from labconsole.platforms.image import guest_nics, kernel_words, look_inside
from labconsole.platforms.inside import READY
from labconsole.platforms.options import Cpus, Word, read_options

TOKEN = "platform"
GUEST = "first"
BOOT_S = 120.0
DEVICES = {"virtio": "virtio-net-pci"}
"""Where QEMU's word for a NIC model is not ours."""

ACCELERATORS = {"kvm": ["-accel", "kvm", "-cpu", "host"], "tcg": ["-accel", "tcg", "-cpu", "max"]}
_ALLOWED_CPUS = re.compile(r"^Cpus_allowed_list:\s*([\d,-]{1,200})$", re.MULTILINE)


class QemuOptions(BaseModel):
    """``kernel`` and ``initrd`` are files on the UUT; ``cpu``: the UUT's CPUs that the guest may run on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kernel: Word
    initrd: Word
    nic_model: Literal["virtio", "e1000", "e1000e", "vmxnet3", "rtl8139", "pcnet"] = "virtio"
    accel: Literal["kvm", "tcg"] = "kvm"
    memory_mib: int = Field(default=256, strict=True, ge=64)
    vcpus: int = Field(default=1, strict=True, ge=1)
    cpu: Cpus | None = None
    program: Word = "qemu-system-x86_64"


class QemuDriver:
    """See labconsole.engine.driver.Driver."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name = name
        self.options = read_options(QemuOptions, "qemu", name, options)

    def argv(self, wirings: Sequence[StreamWiring]) -> list[str]:
        """The program that is the guest."""
        told = self.options
        device = DEVICES.get(told.nic_model, told.nic_model)
        nics: list[str] = []
        for number, nic in enumerate(nic for pair in guest_nics(wirings) for nic in pair):
            nics += ["-netdev", f"tap,id=n{number},ifname={nic.tap},script=no,downscript=no"]
            nics += ["-device", f"{device},netdev=n{number},mac={nic.mac}"]
        return [
            *([] if told.cpu is None else ["taskset", "-c", told.cpu]),
            told.program,
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "pc"),
            *ACCELERATORS[told.accel],
            *("-smp", str(told.vcpus), "-m", str(told.memory_mib)),
            *("-kernel", told.kernel, "-initrd", told.initrd),
            # quiet: writing to an emulated serial line costs boot time. panic=-1: a dead guest ends.
            *("-append", f"console=ttyS0 quiet panic=-1 mitigations=off {kernel_words(wirings)}"),
            *("-serial", "stdio", "-monitor", "none"),
            *nics,
        ]

    async def prepare(self, uut: AgentLink, wirings: Sequence[StreamWiring]) -> Prepared:
        """Make taps and bridges, boot the guest, wait until it says that it forwards."""
        changes: list[dict[str, Any]] = []
        for wiring, (inbound, outbound) in zip(wirings, guest_nics(wirings), strict=True):
            for nic, port in ((inbound, wiring.uut_in), (outbound, wiring.uut_out)):
                changes.append({"do": "tap", "name": nic.tap})
                changes.append({"do": "bridge", "name": f"lcb{nic.tap[3:]}", "ports": [port, nic.tap]})
        async with restored_on_failure(self.restore, uut):
            await uut.request("net.apply", {"token": TOKEN, "changes": changes})
            start = {"guest": GUEST, "argv": self.argv(wirings), "ready": READY, "timeout_s": BOOT_S}
            pid = (await uut.request("guest.start", start, timeout_s=BOOT_S + 10))["pid"]
            attestation = await self._attest(uut, pid)

        async def attest(link: AgentLink) -> dict[str, Any]:
            return await self._attest(link, pid)

        return Prepared(paths=_paths(wirings), attestation=attestation, attest=attest)

    async def _attest(self, uut: AgentLink, pid: int) -> dict[str, Any]:
        """What runs now. Model, accelerator and memory are the running command line's, which nobody can change."""
        status = await uut.request("guest.status", {"guest": GUEST})
        if not status["running"] or status["pid"] != pid:
            raise NodeError(uut.name, f"the guest of platform {self.name} is not the one that was started")
        seen = await look_inside(uut, GUEST)
        read = await uut.request("exec", {"argv": ["cat", f"/proc/{pid}/status"], "timeout_s": 5})
        allowed = _ALLOWED_CPUS.search(read["stdout"])
        return {
            "driver": "qemu",
            "guests": [GUEST],
            "guest_kernel": seen[0] if seen else None,
            "vcpus": seen[1] if seen else None,
            "host_cpus": allowed[1] if allowed else None,
            **{key: getattr(self.options, key) for key in ("nic_model", "accel", "memory_mib")},
        }

    async def restore(self, uut: AgentLink) -> None:
        """End the guest, take its taps and bridges away."""
        try:
            await uut.request("guest.stop", {"guest": GUEST})
        except NodeError as exc:
            if getattr(exc, "code", "") != "no_such_guest":
                raise
        finally:
            await undo(uut, TOKEN)


def _paths(wirings: Sequence[StreamWiring]) -> dict[str, StreamPath]:
    return {
        wiring.name: StreamPath(
            destination_mac=inbound.mac,
            points=(
                PathPoint("uut_in", "", wiring.uut_in, "rx_packets"),
                PathPoint("to_guest", "", inbound.tap, "tx_packets"),
                PathPoint("from_guest", "", outbound.tap, "rx_packets"),
                PathPoint("uut_out", "", wiring.uut_out, "tx_packets"),
            ),
        )
        for wiring, (inbound, outbound) in zip(wirings, guest_nics(wirings), strict=True)
    }
