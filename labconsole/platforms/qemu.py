"""``qemu``: a QEMU machine that forwards, under KVM or by translation (TCG), with a chosen NIC model.

No management daemon stands between: the command line is ours, so the record knows exactly what ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from labconsole.engine.driver import StreamWiring
from labconsole.errors import ConfigError
from labconsole.platforms.image import ImageDriver, guest_nics, kernel_words

NIC_MODELS = {
    "virtio": "virtio-net-pci",
    "e1000": "e1000",
    "e1000e": "e1000e",
    "vmxnet3": "vmxnet3",
    "rtl8139": "rtl8139",
    "pcnet": "pcnet",
}
ACCELERATORS = {"kvm": ["-accel", "kvm", "-cpu", "host"], "tcg": ["-accel", "tcg", "-cpu", "max"]}


class QemuDriver(ImageDriver):
    """Options: ``kernel`` and ``initrd`` (files on the UUT), ``nic_model``, ``accel``, ``memory_mib``, ``vcpus``,
    ``cpu`` (the UUT's CPU that the guest is pinned to), ``program``."""

    DRIVER: ClassVar[str] = "qemu"
    OPTIONS: ClassVar[dict[str, tuple[type, Any]]] = {
        "kernel": (str, None),
        "initrd": (str, None),
        "nic_model": (str, "virtio"),
        "accel": (str, "kvm"),
        "memory_mib": (int, 256),
        "vcpus": (int, 1),
        "cpu": (int, None),
        "program": (str, "qemu-system-x86_64"),
    }

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        super().__init__(name, options)
        for key, allowed in (("nic_model", NIC_MODELS), ("accel", ACCELERATORS)):
            if self.options[key] not in allowed:
                raise ConfigError(
                    "is not known", key=f"platforms.{name}.{key}", value=self.options[key], allowed=", ".join(allowed)
                )
        for key, lowest in (("memory_mib", 64), ("vcpus", 1), ("cpu", 0)):
            value = self.options[key]
            if value is not None and value < lowest:
                raise ConfigError(
                    "is too small", key=f"platforms.{name}.{key}", value=value, allowed=f"{lowest} or more"
                )

    @classmethod
    def optional(cls) -> frozenset[str]:
        return frozenset({"cpu"})

    def argv(self, wirings: Sequence[StreamWiring]) -> list[str]:
        options = self.options
        pinned = [] if options["cpu"] is None else ["taskset", "-c", str(options["cpu"])]
        nics: list[str] = []
        for number, nic in enumerate(nic for pair in guest_nics(wirings) for nic in pair):
            nics += ["-netdev", f"tap,id=n{number},ifname={nic.tap},script=no,downscript=no"]
            nics += ["-device", f"{NIC_MODELS[options['nic_model']]},netdev=n{number},mac={nic.mac}"]
        return [
            *pinned,
            options["program"],
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "pc"),
            *ACCELERATORS[options["accel"]],
            *("-smp", str(options["vcpus"]), "-m", str(options["memory_mib"])),
            *("-kernel", options["kernel"], "-initrd", options["initrd"]),
            # quiet: writing to an emulated serial line costs boot time. panic=-1: a dead guest ends.
            *("-append", f"console=ttyS0 quiet panic=-1 mitigations=off {kernel_words(wirings)}"),
            *("-serial", "stdio", "-monitor", "none"),
            *nics,
        ]

    def attestation(self) -> dict[str, Any]:
        return {key: self.options[key] for key in ("nic_model", "accel", "memory_mib", "vcpus", "cpu")}
