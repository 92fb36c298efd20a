"""A lab inside one QEMU machine, for its kernel's pktgen. The host side: boot, hand over, pass requests on.

The machine's root is the host's own ``/``, read-only over 9p under a tmpfs, so interpreter, package and tools are there
and nothing is installed anywhere. QEMU's user network forwards the lab's management addresses: no interface on the
host, no root. QEMU dies with the supervisor, and everything in the machine with QEMU.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labconsole.lab import control
from labconsole.lab.files import user_name, write_client_files
from labconsole.lab.images import DebianKernel, debian_kernel, write_initramfs
from labconsole.lab.machines.virtio_port import MAX_MESSAGE_CHARACTERS, PORT_NAME, await_state, format_log_ends
from labconsole.lab.machines.whole_lab_init import GUEST_ADDRESS, guest_port
from labconsole.lab.nodes import kernel
from labconsole.lab.nodes.node import home_directory
from labconsole.lab.nodes.sshd import new_keys
from labconsole.lab.prerequisites import SYSTEM_PATH, tool
from labconsole.lab.spec import SSH_PORT, LabSpec, Layout, lay_out
from labconsole.text.sanitize import sanitize

BOOT_S = 150.0
BUILD_S = 120.0
_STOP_S = 10.0
_ANSWER_S = 30.0
_GRACE_S = 10.0
_MEMORY_MIB = 2048

MODULES = [
    *("virtio_pci", "virtio_net", "virtio_rng", "virtio_console"),
    *("9p", "9pnet_virtio", "overlay"),
    *("af_packet", "pktgen", "veth", "bridge", "dummy", "tun"),
    *("sch_tbf", "sch_netem"),
    # nf_tables needs libcrc32c, which looks for its algorithm by name and so does not depend on it in modinfo.
    *("crc32c_generic", "nf_tables", "nft_numgen"),
    # Named counters: a module of its own up to Linux 6.1, part of nf_tables since.
    "nft_objref?",
]


class Machine:
    """A QEMU process and the port that connects to its lab."""

    def __init__(self, spec: LabSpec, index: int, directory: Path) -> None:
        self._spec, self._index, self._directory = spec, index, directory
        self._layout: Layout = lay_out(spec, index)
        self._serial = directory / "serial.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.port: socket.socket | None = None
        self.kernel = ""

    def boot(self) -> None:
        """Boot and build the lab. Raises LabSetupError with the end of the serial log."""
        kernel_files = debian_kernel()
        initramfs = self._directory / "initramfs"
        busybox = tool("busybox")
        assert busybox is not None, "checked before the lab was built"
        write_initramfs(
            initramfs,
            busybox=Path(busybox),
            modules=kernel_files.modules,
            wanted=MODULES,
            settings={
                "ADDRESS": f"{GUEST_ADDRESS}/24",
                "HOME_DIRECTORY": home_directory(),
                "PROGRAM": "labconsole.lab.machines.whole_lab_init",
                "SEARCH_PATH": SYSTEM_PATH,
                "PYTHON_PATH": os.pathsep.join(path for path in sys.path if path),
                "PYTHON": sys.executable,
            },
        )
        self._serial.touch(mode=0o600)
        self.port, theirs = socket.socketpair()
        with theirs, (self._directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self._command(kernel_files, initramfs, theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                preexec_fn=lambda: kernel.die_with_parent(signal.SIGKILL),
            )
        keys = new_keys([node.name for node in self._layout.nodes])
        self.kernel = sanitize(str(self._await_state("hello", BOOT_S).get("kernel")))[:MAX_MESSAGE_CHARACTERS]
        control.send(
            self.port,
            {
                "spec": self._spec.to_json(),
                "index": self._index,
                "host_keys": keys.host_private,
                "client_key": keys.client_public,
                "user": user_name(),
            },
        )
        self._await_state("ready", BUILD_S)
        write_client_files(
            self._spec,
            self._layout,
            self._directory,
            private_key=keys.client_private,
            public_key=keys.client_public,
            host_keys=keys.host_public,
        )

    def _command(self, files: DebianKernel, initramfs: Path, port: int) -> list[str]:
        qemu = tool("qemu-system-x86_64")
        assert qemu is not None, "checked before the lab was built"
        forwards = ",".join(
            f"hostfwd=tcp:{node.address}:{SSH_PORT}-{GUEST_ADDRESS}:{guest_port(node.number)}"
            for node in self._layout.nodes
        )
        accel = ["-accel", "kvm", "-cpu", "host"] if self._spec.accel == "kvm" else ["-accel", "tcg", "-cpu", "max"]
        return [
            *(qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "pc", *accel),
            *("-smp", str(min(os.cpu_count() or 1, 4)), "-m", str(_MEMORY_MIB)),
            *("-kernel", str(files.image), "-initrd", str(initramfs)),
            # quiet: writing to an emulated serial line costs boot time. panic=-1: a dead process 1 ends the machine.
            *("-append", "console=ttyS0 quiet panic=-1 mitigations=off"),
            *("-serial", f"file:{self._serial}"),
            *("-netdev", f"user,id=management,restrict=on,{forwards}"),
            *("-device", "virtio-net-pci,netdev=management", "-device", "virtio-rng-pci"),
            *("-device", "virtio-serial-pci", "-chardev", f"socket,id=port,fd={port}"),
            *("-device", f"virtserialport,chardev=port,name={PORT_NAME}"),
            "-virtfs",
            "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
        ]

    def _await_state(self, state: str, limit_s: float) -> dict[str, Any]:
        assert self.port is not None
        return await_state(self.port, state, limit_s, self.log_ends)

    def log_ends(self) -> str:
        """Return the end of QEMU's messages and of the serial log."""
        return format_log_ends({"log": self._directory / "log", "serial log": self._serial})

    def kill(self) -> None:
        """End QEMU, and with it everything inside."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(_STOP_S)

    async def pass_requests(self, listener: socket.socket) -> None:
        """Serve the control socket from inside the machine, until the machine ends."""
        assert self.port is not None
        guest = await control.open_peer(self.port, None)

        async def answer(message: dict[str, Any]) -> dict[str, Any]:
            message.pop("id", None)
            op = str(message.pop("op"))
            if op == "stop":
                self.kill()
                return {}
            wait_s = float(message.get("timeout_s", _ANSWER_S)) + _GRACE_S
            return await guest.ask(op, wait_s, **message)

        server = await control.serve_socket(listener, answer)
        await guest.serve()  # until QEMU closes the port
        server.close()


def hold_machine(spec: LabSpec, index: int, directory: Path, is_up: Callable[[int, str], None]) -> int:
    """Run the supervisor's part for a lab in a machine. ``is_up`` is called with the id of QEMU's process and the
    release of its kernel.
    """
    machine = Machine(spec, index, directory)

    def end(*_: object) -> None:
        machine.kill()
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        machine.boot()
        listener = control.listen(directory)
        assert machine.process is not None
        is_up(machine.process.pid, machine.kernel)
        asyncio.run(machine.pass_requests(listener))
    finally:
        machine.kill()
    return 0
