"""The UUT of a lab as a QEMU machine with a kernel, NICs and a disk of its own, and with Xen: the host's side."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labconsole.errors import LabSetupError
from labconsole.lab import control
from labconsole.lab.guests import domains
from labconsole.lab.images import DebianKernel, cache_directory, debian_kernel, unpacked_packages, write_initramfs
from labconsole.lab.machines.virtio_port import PORT_NAME, SERIAL_LOG, await_state, format_log_ends
from labconsole.lab.nodes import kernel, network
from labconsole.lab.nodes.node import CABLE_OPS, NodeSetup, home_directory, serve_ssh
from labconsole.lab.platforms import MACHINE_CPUS, may_have_disk
from labconsole.lab.prerequisites import SYSTEM_PATH, tool
from labconsole.lab.spec import LabNode, LabSpec, carriers_of
from labconsole.lab.state import lab_directory

# -- disk --------------------------------------------------------------------------------------------------------------
# The disk of a UUT that is a machine: a file on a disk of the lab's own machine, and the place of its guests' disks.
#
# The machine's root is in memory. Without this disk, jobs that need one are refused with a message.

DISK_FILE = "uut-disk.img"
DISK_SIZE_BYTES = 8 * 2**30
"""Size of the disk; the file takes only as much as is written to it."""

_BYTES_PER_FILE = 65536
_MAKE_S = 60.0


def write_disk(directory: Path, images: Mapping[str, int] | None = None) -> None:
    """Make the disk in the lab's directory, if allowed there. ``images``: names and sizes in bytes of guests' disks,
    which are files on it. Blocking. Raises LabSetupError.
    """
    path = directory / DISK_FILE
    if not may_have_disk(directory) or path.exists():
        return
    with tempfile.TemporaryDirectory(dir=directory, prefix="uut-disk-") as name:
        for image, size_bytes in (images or {}).items():
            _make(Path(name) / image, size_bytes)
        _make(path, DISK_SIZE_BYTES, "-d", name)


def _make(path: Path, size_bytes: int, *extra: str) -> None:
    with path.open("xb") as file:
        file.truncate(size_bytes)
    # Nothing is left for the machine to initialize later.
    options = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
    each = ["-b", "4096", "-m", "0", "-i", str(_BYTES_PER_FILE), "-E", options]
    argv = [tool("mkfs.ext4") or "mkfs.ext4", "-q", "-F", *each, *extra, str(path)]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_MAKE_S)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise LabSetupError(f"no file system could be made for the machine's disk: {exc}") from exc
    if done.returncode != 0:
        raise LabSetupError(f"no file system could be made for the machine's disk: {done.stderr.strip()[-200:]}")


def disk_options(directory: Path) -> list[str]:
    """Return QEMU's options for the disk, which bypass the page cache of the lab's machine."""
    path = directory / DISK_FILE
    if not path.exists():
        return []
    file = str(path).replace(",", ",,")
    return ["-drive", f"if=none,id=disk,format=raw,cache=none,file={file}", "-device", "virtio-blk-pci,drive=disk"]


# -- Xen ---------------------------------------------------------------------------------------------------------------
# Xen for the machine that is a lab's UUT: the hypervisor that it boots, its tools, and their dependencies.
#
# The tools are not installed anywhere: the unpacked packages are a layer over the machine's root file system.

XEN_META_PACKAGE = "xen-system-amd64"
XEN_WANTED = re.compile(r"(?:lib)?xen|lib(?:yajl|fdt|nl-|ncurses|tinfo)")
"""Dependencies that the tools cannot do without; not the machine's system (systemd, udev, GRUB)."""

XEN_MODULES = ("xenfs", "xen_evtchn", "xen_gntdev", "xen_gntalloc", "xen_privcmd", "xen_netback", "xen_blkback", "loop")
"""Modules of the first domain's kernel; the first domain is the UUT."""

DOM0_MIB = 1536
DOM0_CPUS = 1
_START_S = 60.0
_DIRECTORIES = ("/run/xen", "/run/xenstored", "/run/lock", "/var/lib/xen", "/var/lib/xenstored", "/var/log/xen/console")


@dataclass(frozen=True)
class Xen:
    """The hypervisor that the machine boots, and the directory that is laid over its root."""

    hypervisor: Path
    layer: Path


def fetch_xen(directory: Path) -> Xen:
    """Fetch Xen as files and unpack the hypervisor into the lab's directory. Blocking. Raises LabSetupError."""
    layer = unpacked_packages(cache_directory().parent / "packages", [XEN_META_PACKAGE], XEN_WANTED)
    images = sorted(layer.glob("boot/xen-*-amd64.gz")) or sorted(Path("/boot").glob("xen-*-amd64.gz"))
    if not images:
        raise LabSetupError(f"the package {XEN_META_PACKAGE} contains no hypervisor; remove {layer} and try again")
    hypervisor = directory / "xen"
    hypervisor.write_bytes(gzip.decompress(images[-1].read_bytes()))
    return Xen(hypervisor, layer)


def build_hypervisor_command_line() -> str:
    """Return the hypervisor's command line. The UUT gets the first CPU for itself; guests get the other."""
    return (
        f"com1=115200,8n1 console=com1 dom0_mem={DOM0_MIB}M,max:{DOM0_MIB}M dom0_max_vcpus={DOM0_CPUS} dom0_vcpus_pin"
    )


def start_tools() -> None:
    """In the machine, start the services that xl needs. Raises LabSetupError with the failed step."""
    for directory in _DIRECTORIES:
        Path(directory).mkdir(parents=True, exist_ok=True)
    programs = sorted(Path("/usr/lib").glob("xen-*/bin/xenstored"))
    if not programs:
        raise LabSetupError("Xen's tools are missing in the machine")
    bin_directory = programs[-1].parent
    _run(["mount", "-t", "xenfs", "xenfs", "/proc/xen"])
    _run(["mount", "-t", "debugfs", "debugfs", "/sys/kernel/debug"])  # back ends report their guests' limits there
    _run([str(programs[-1]), "--pid-file", "/run/xenstored.pid"])
    _run([str(bin_directory / "xen-init-dom0")])
    _run([str(bin_directory / "xenconsoled"), "--pid-file=/run/xenconsoled.pid"])


def _run(argv: list[str]) -> None:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_START_S)
    except subprocess.TimeoutExpired as exc:
        raise LabSetupError(f"{argv[0]} did not end within {_START_S:g} s") from exc
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())[:200] or f"status {done.returncode}"
        raise LabSetupError(f"{argv[0]} failed: {said}")


# -- the machine -------------------------------------------------------------------------------------------------------
# The UUT of a lab as a QEMU machine with a kernel and NICs of its own: the host's side, in the UUT's namespaces.
#
# The node that is the UUT in other labs is here the machine's case: it contains QEMU, a tap for each NIC, and for each
# a bridge of two ports to the link that the lab made. So links, rewiring and ends of nodes work as for any other node,
# and QEMU ends with the case's process 1. Sessions go through a tap of their own to the SSH server inside, which has
# the UUT's keys. The case is a node, too, the machine's host: its kernel drops packets that the machine does not take.

BOOT_S = 150.0
MEMORY_MIB = 3072
"""Enough for a guest and a background guest with a heavy load."""

CASE_ADDRESS, MACHINE_ADDRESS, MACHINE_PORT = "10.0.2.2", "10.0.2.15", 2222
MANAGEMENT = "management"
LAYER = "layer"
"""Xen's tools, over the root of the machine that boots it."""

MANAGEMENT_MAC = "02:1a:bc:01:00:01"
MODULES = (
    *("virtio_pci", "virtio_net", "virtio_rng", "virtio_console"),
    *("9p", "9pnet_virtio", "overlay"),
    *("af_packet", "pktgen", "veth", "bridge", "tun", "sch_tbf", "sch_netem"),
    *("crc32c_generic", "nf_tables", "nft_numgen", "nft_objref?"),
    *("virtio_blk", "ext4"),
    "e1000",
)
"""Modules for the disk, for the NICs it may have, and as in whole_lab.py."""

NIC_DEVICES = {"virtio": "virtio-net-pci", "e1000": "e1000"}

BOOTS = {"linux": (*MODULES, "kvm_amd"), "xen": (*MODULES, *XEN_MODULES)}
"""Modules to load, by the system that the machine boots. QEMU's TCG emulates AMD's virtualization."""

EMULATED_CPU = "max,-smap,-xsave"
"""With SMAP Xen's first domain dies at once. With XSAVE programs in two of Xen's guests on one processor died of faults
in one line of six, as if their registers were mixed up; without, in none of forty (QEMU 7.2). Linux gets the same CPU,
because platforms of both are compared.
"""

_ANSWER_S = 30.0
_GRACE_S = 10.0
_CHUNK_BYTES = 65536
_GATED = 0x06
"""First byte of the case's own MACs: with the NIC's MAC, a bridge would keep the frames for itself."""


def write_boot_files(spec: LabSpec, directory: Path) -> None:
    """Write the files that the machine boots to the lab's directory. Blocking; may fetch kernel and Xen first.

    Raises LabSetupError saying what is missing.
    """
    files = debian_kernel()
    busybox = tool("busybox")
    assert busybox is not None, "checked before the lab was built"
    with_xen = "xen" in (spec.boot, *spec.platforms)
    write_disk(directory, domains.CREW_IMAGES if "xen" in spec.platforms else None)
    if with_xen:
        (directory / LAYER).symlink_to(fetch_xen(directory).layer)
    for boot, modules in BOOTS.items() if with_xen else [("linux", BOOTS["linux"])]:
        write_initramfs(
            directory / f"uut-{boot}.initramfs",
            busybox=Path(busybox),
            modules=files.modules,
            wanted=modules,
            settings={
                "LAYERS": LAYER if boot == "xen" else "",
                "ADDRESS": f"{MACHINE_ADDRESS}/24",
                "PROGRAM": "labconsole.lab.machines.uut_init",
                "SEARCH_PATH": SYSTEM_PATH,
                "PYTHON_PATH": os.pathsep.join(path for path in sys.path if path),
                "PYTHON": sys.executable,
                "HOME_DIRECTORY": home_directory(),
                "STATE_HOME": os.environ.get("XDG_STATE_HOME", ""),
                "CACHE_HOME": os.environ.get("XDG_CACHE_HOME", ""),
            },
        )


def command_line(spec: LabSpec, node: LabNode, files: DebianKernel, directory: Path, port: int) -> list[str]:
    """Return the command line of QEMU. ``port``: the descriptor of our end of its virtio port."""
    qemu = tool("qemu-system-x86_64")
    assert qemu is not None, "checked before the lab was built"
    accel = ["-accel", "kvm", "-cpu", "host"] if spec.accel == "kvm" else ["-accel", "tcg", "-cpu", EMULATED_CPU]
    nics: list[str] = []
    # The first device on the bus becomes eth0; the others are renamed by their MACs.
    for name, mac in ((MANAGEMENT, MANAGEMENT_MAC), *((_tap(i.name), i.mac) for i in node.interfaces)):
        nics += ["-netdev", f"tap,id={name},ifname={name},script=no,downscript=no"]
        model = spec.nic if name != MANAGEMENT else "virtio"
        nics += ["-device", f"{NIC_DEVICES[model]},netdev={name},mac={mac}"]
    return [
        *(qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "q35", *accel),
        *("-smp", str(MACHINE_CPUS), "-m", str(MEMORY_MIB)),
        *boot_options(spec.boot, files, directory),
        *("-serial", f"file:{directory / SERIAL_LOG}", *nics),
        *("-device", "virtio-rng-pci", "-device", "virtio-serial-pci", "-chardev", f"socket,id=port,fd={port}"),
        *("-device", f"virtserialport,chardev=port,name={PORT_NAME}"),
        *disk_options(directory),
        *_export(Path("/"), "host"),
        *(_export((directory / LAYER).resolve(), LAYER) if spec.boot == "xen" else []),
    ]


def _export(path: Path, tag: str) -> list[str]:
    """Return options that export a directory to the machine, read-only."""
    option = f"local,path={path},mount_tag={tag},security_model=none,readonly=on,multidevs=remap"
    return ["-virtfs", option]


def boot_options(boot: str, files: DebianKernel, directory: Path) -> list[str]:
    """Return QEMU's boot options: the kernel, or Xen and the kernel as its first domain."""
    initramfs = directory / f"uut-{boot}.initramfs"
    # quiet: writing to an emulated serial line costs boot time. panic=-1: a dead process 1 ends the machine.
    options = "quiet panic=-1 mitigations=off"
    if boot == "linux":
        return ["-kernel", str(files.image), "-initrd", str(initramfs), "-append", f"console=ttyS0 {options}"]
    # QEMU takes commas for the ends of multiboot modules unless they are doubled.
    domain, ram = (str(path).replace(",", ",,") for path in (files.image, initramfs))
    return [
        *("-kernel", str(directory / "xen"), "-append", build_hypervisor_command_line()),
        *("-initrd", f"{domain} console=hvc0 {options},{ram}"),
    ]


class QemuMachineHost:
    """The machine's case: the processes in the UUT's namespaces around the machine."""

    def __init__(self, setup: NodeSetup) -> None:
        self._setup = setup
        self._directory = lab_directory(setup.spec.name)
        self._process: subprocess.Popen[bytes] | None = None
        self._port: socket.socket | None = None

    def configure(self, node: LabNode, spec: LabSpec, counted: object = None, /) -> None:
        """Connect the links that the lab made to the machine's NICs. Raises LabSetupError.

        The link's speed is enforced here, where that costs the machine nothing; loss is injected in the machine.
        """
        outside = replace(node, interfaces=tuple(replace(i, neighbours=()) for i in node.interfaces))
        lines = []
        for interface in node.interfaces:
            if self._process is None:
                lines += _nic_lines(interface.name, spec.mtu)
            own_mac = f"{_GATED:02x}{interface.mac[2:]}"
            lines.append(f"link set {interface.name} address {own_mac} master {_bridge(interface.name)}")
        if self._process is None:
            lines += [
                f"tuntap add dev {MANAGEMENT} mode tap",
                f"address add {CASE_ADDRESS}/24 dev {MANAGEMENT}",
                f"link set {MANAGEMENT} up",
            ]
        network.ip_batch(lines)
        network.configure(outside, replace(spec, loss={}))
        for name in ("iptables", "ip6tables", "arptables"):
            with contextlib.suppress(OSError):  # this machine has none
                Path(f"/proc/sys/net/bridge/bridge-nf-call-{name}").write_text("0")

    def start(self) -> None:
        """Switch the machine on."""
        spec, node = self._setup.spec, self._setup.node
        self._port, theirs = socket.socketpair()
        log = self._directory / "uut-qemu.log"
        with theirs, log.open("ab") as output:
            self._process = subprocess.Popen(
                command_line(spec, node, debian_kernel(), self._directory, theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs.fileno(),),
                preexec_fn=lambda: kernel.die_with_parent(signal.SIGKILL),
            )

    def await_boot(self) -> None:
        """Wait for the system inside, and make it the UUT. Raises LabSetupError with the end of the serial log."""
        assert self._port is not None
        setup = self._setup
        await_state(self._port, "hello", BOOT_S, self._format_log_ends)
        control.send(
            self._port,
            {
                "spec": setup.spec.to_json(),
                "index": int(setup.node.address.split(".")[2]),
                "node": setup.node.name,
                "host_key": setup.host_key,
                "client_key": setup.client_key,
                "user": setup.user,
            },
        )
        await_state(self._port, "ready", BOOT_S, self._format_log_ends)

    def _format_log_ends(self) -> str:
        return format_log_ends({"log": self._directory / "uut-qemu.log", "serial log": self._directory / SERIAL_LOG})

    async def serve(self, channel: socket.socket, cables: control.Handler) -> None:
        """Pass sessions and requests to the machine until it, or the lab, is gone. ``cables`` handles requests for the
        links.
        """
        assert self._port is not None
        machine = await control.open_peer(self._port, None)

        async def answer(message: dict[str, Any]) -> dict[str, Any]:
            message.pop("id", None)
            if message["op"] in CABLE_OPS:
                return await cables(message)
            op = str(message.pop("op"))
            return await machine.ask(op, float(message.get("timeout_s", _ANSWER_S)) + _GRACE_S, **message)

        assert self._setup.host is not None
        _, hosts_server = await serve_ssh(self._setup.host)
        server = await asyncio.start_server(_pass_session, sock=self._setup.listener)
        peer = await control.open_peer(channel, answer)
        peer.announce({"state": "ready"})
        both = [asyncio.ensure_future(peer.serve()), asyncio.ensure_future(machine.serve())]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not both[0].done():
            print(
                f"the machine {self._setup.node.name} has ended; {self._format_log_ends()}", file=sys.stderr, flush=True
            )
        server.close()
        hosts_server.close()


def _nic_lines(name: str, mtu: int) -> list[str]:
    """Return lines for ``ip -batch``: a NIC's tap, and the bridge that leads to it. With two ports it need not
    learn.
    """
    return [
        f"tuntap add dev {_tap(name)} mode tap",
        f"link add {_bridge(name)} type bridge mcast_snooping 0 ageing_time 0 forward_delay 0",
        f"link set {_tap(name)} mtu {mtu} master {_bridge(name)} up",
        f"link set {_bridge(name)} up",
    ]


def _tap(name: str) -> str:
    return carriers_of(name)[2]


def _bridge(name: str) -> str:
    return carriers_of(name)[1]


async def _pass_session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward one client's connection to the SSH server inside."""
    try:
        inner_reader, inner_writer = await asyncio.open_connection(MACHINE_ADDRESS, MACHINE_PORT)
    except OSError:
        writer.close()  # the machine is going down
        return
    await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))
    for each in (writer, inner_writer):
        each.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()  # one end is gone, so close the other
