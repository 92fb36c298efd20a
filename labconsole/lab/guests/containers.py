"""Two containers for LXC's own tools on a lab's UUT: busybox, ``stress``, routes from NIC to NIC, and nothing more.

Written by hand and not from a template: this takes only files, and needs no network and no root until they are started.
Their NICs are in no bridge. The driver makes the bridges while a platform is measured (``bridges: made``), so that the
UUT's NICs are free for the other platforms.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labconsole.errors import LabSetupError
from labconsole.lab.guests.guest_image import LARGE_JOB_TOOLS, applets, guest_programs, load_with_libraries
from labconsole.lab.prerequisites import tool
from labconsole.lab.spec import LabStream, Layout

FIRST, SECOND = "first", "second"
DIRECTORY = "lxc"
CREW_ROOT = "lxc-root"
CONTROL_GROUPS = Path("/sys/fs/cgroup")

_EMPTY = ("dev", "etc", "proc", "root", "sys", "tmp", "var")

_INIT = """\
#!/bin/sh
trap 'exit 0' TERM PWR INT
ip link set lo up
{routes}
while :; do sleep 1000 & wait $!; done
"""

_CONFIG = """\
lxc.uts.name = {name}
lxc.rootfs.path = dir:{root}
lxc.init.cmd = /bin/start
lxc.mount.auto = proc:rw sys:ro
lxc.apparmor.profile = unconfined
lxc.sysctl.net.ipv4.ip_forward = 1
lxc.sysctl.net.ipv6.conf.all.disable_ipv6 = 1
lxc.sysctl.net.ipv6.conf.default.disable_ipv6 = 1
{nics}
"""


@dataclass(frozen=True)
class ContainerNic:
    """One NIC of a container: its name and MAC inside, and its other end on the UUT."""

    name: str
    mac: str
    host: str


def container(lab: str, guest: str) -> str:
    """Return a container's name: its control groups are the machine's, so two labs need two names."""
    return f"{lab}-{guest}"


def build_nics(guest: str, number: int) -> tuple[ContainerNic, ContainerNic]:
    """Return the inbound and outbound NIC for stream ``number``, from 1. Each guest has one pair for every stream."""
    which = 1 if guest == FIRST else 2
    inbound, outbound = (
        ContainerNic(
            f"eth{2 * number - 2 + side}", f"02:6c:78:00:{number:02x}:{which}{side}", f"lx{which}{letter}{number}"
        )
        for side, letter in enumerate("io")
    )
    return inbound, outbound


def write_containers(path: Path, lab: str, layout: Layout) -> None:
    """Write both containers below ``path``. Blocking. Raises LabSetupError if a program is missing."""
    busybox = tool("busybox")
    if busybox is None:
        raise LabSetupError("the lab needs busybox; run `apt-get install -y busybox-static`")
    files = _programs(Path(busybox), guest_programs(jobs=False))
    names = applets(Path(busybox))
    sinks = {node.name: node.interfaces[0].mac for node in layout.nodes if node.role == "sink"}
    for guest in (FIRST, SECOND):
        name = container(lab, guest)
        root = path / name / "rootfs"
        init = _INIT.format(routes="\n".join(_routes(guest, layout.streams, sinks)))
        _write_root(root, {**files, "bin/start": init.encode()}, names)
        nics = "\n".join(_nic_lines(guest, len(layout.streams)))
        (path / name / "config").write_text(_CONFIG.format(name=name, root=root, nics=nics))


def write_crew_root(path: Path, *, jobs: bool) -> None:
    """Write the root that all guests of a crew share. Blocking. Raises LabSetupError."""
    busybox = Path(tool("busybox") or "busybox")
    _write_root(
        path, _programs(busybox, (*guest_programs(jobs=jobs), *(LARGE_JOB_TOOLS if jobs else ()))), applets(busybox)
    )


def _programs(busybox: Path, names: Iterable[str]) -> dict[str, bytes]:
    files = {"bin/busybox": busybox.read_bytes()}
    for name in names:
        files |= load_with_libraries(name)
    return files


def _write_root(root: Path, files: Mapping[str, bytes], applet_names: Iterable[str]) -> None:
    for directory in _EMPTY:
        (root / directory).mkdir(parents=True)
    for place, content in files.items():
        file = root / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o755)
    for applet in applet_names:
        (root / "bin" / applet).symlink_to("busybox")


def remove_control_groups(lab: str) -> None:
    """Remove control groups that a killed LXC left. One with a process in it cannot be removed."""
    names = "|".join(re.escape(container(lab, guest)) for guest in (FIRST, SECOND))
    ours = re.compile(rf"lxc\.(?:payload|monitor)\.(?:{names})(?:-\d+)?")
    # LXC makes them below its own, which may be anywhere.
    for above, groups, _ in os.walk(CONTROL_GROUPS, topdown=False):
        for group in filter(ours.fullmatch, groups):
            with contextlib.suppress(OSError):
                Path(above, group).rmdir()


def _routes(guest: str, streams: Sequence[LabStream], sinks: dict[str, str]) -> list[str]:
    lines = []
    for number, stream in enumerate(streams, start=1):
        inbound, outbound = build_nics(guest, number)
        lines.append(f"ip route add {stream.source_ip}/32 dev {inbound.name}")
        lines.append(f"ip route add {stream.sink_ip}/32 dev {outbound.name}")
        lines.append(f"arp -i {outbound.name} -s {stream.sink_ip} {sinks[stream.sink.partition('/')[0]]}")
    return lines


def _nic_lines(guest: str, streams: int) -> list[str]:
    lines = []
    for index, nic in enumerate(nic for number in range(1, streams + 1) for nic in build_nics(guest, number)):
        for key, value in (("type", "veth"), ("veth.pair", nic.host), ("name", nic.name), ("hwaddr", nic.mac)):
            lines.append(f"lxc.net.{index}.{key} = {value}")
        lines.append(f"lxc.net.{index}.flags = up")
    return lines


def inventory_options(
    path: Path, crew_root: Path, lab: str, streams: Sequence[LabStream], second_cpu: int | None
) -> str:
    """Build the platform's options in hosts.yaml."""
    first, second = container(lab, FIRST), container(lab, SECOND)
    lines = [f"{{driver: lxc, guest: {first}, second_guest: {second}, bridges: made, graceful_s: 5,"]
    lines.append(f"     path: {_quoted(path)}," + ("" if second_cpu is None else f" second_cpu: {second_cpu},"))
    lines.append(f"     crew_root: {_quoted(crew_root)},")
    nics = [
        f"{{stream: {stream.name}, guest: {container(lab, guest)}, in_mac: '{inbound.mac}', out_mac: '{outbound.mac}'}}"
        for guest in (FIRST, SECOND)
        for number, stream in enumerate(streams, start=1)
        for inbound, outbound in [build_nics(guest, number)]
    ]
    return "\n".join(lines) + "\n     nics: [\n       " + ",\n       ".join(nics) + "]}"


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
