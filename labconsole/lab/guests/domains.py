"""Domains for Xen's own tools on a lab's UUT, each with the forwarding image as its kernel. Two have a pair of NICs per
stream. Others are for jobs, with a NIC, another NIC that receives the traffic they forward, and a disk.

Their NICs are in no bridge: the driver makes the bridges while a platform is measured (``bridges: made``). So the
script that Xen runs for a NIC only names it, sets it up and reports that; the one for a disk makes a device of its
file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labconsole.errors import ConfigError
from labconsole.lab.spec import LabStream, Layout

FIRST, SECOND = "first", "second"
DIRECTORY = "xen-domains"
MAX_STREAMS = 4
"""A paravirtualized kernel's command line ends after 1024 characters."""

MEMORY_MIB = {FIRST: 256, SECOND: 1152}
"""The second has room for a heavy load: four times 256 MiB."""

CREW = ("crew1", "crew2", "crew3", "crew4")
CREW_IMAGES = {f"{guest}.img": 2**30 for guest in CREW}
"""Disks of the domains for jobs: files on the machine's disk, and their sizes in bytes."""

CREW_MEMORY_MIB = 256
"""With the programs of jobs the image alone takes 42, and twice as much while it is unpacked; a guest of 192 dies."""

_SCRIPT = """\
#!/bin/sh
case $1 in
  online)
    name=$(xenstore-read "$XENBUS_PATH/vifname")
    ip link set "$vif" name "$name"
    echo 1 > "/proc/sys/net/ipv6/conf/$name/disable_ipv6"
    ip link set "$name" up
    xenstore-write "$XENBUS_PATH/hotplug-status" connected;;
esac
"""

_DISK_SCRIPT = """\
#!/bin/sh
case $1 in
  add)
    device=$(losetup --find --show --direct-io=on "$(xenstore-read "$XENBUS_PATH/params")")
    xenstore-write "$XENBUS_PATH/node" "$device" \
      "$XENBUS_PATH/physical-device" "$(stat -c %t:%T "$device")" "$XENBUS_PATH/hotplug-status" connected || {
      losetup --detach "$device"
      exit 1
    };;
  remove)
    losetup --detach "$(xenstore-read "$XENBUS_PATH/node")";;
esac
"""

_CONFIG = """\
name = "{name}"
type = "pv"
kernel = "{kernel}"
ramdisk = "{initrd}"
extra = "console=hvc0 quiet panic=-1 {extra}"
memory = {memory_mib}
vcpus = 1
vif = [ {vifs} ]
disk = [ {disks} ]
on_poweroff = "destroy"
on_reboot = "destroy"
on_crash = "destroy"
"""

CREW_DIRECTORY = "/tmp/disk"
"""Directory where they mount their disk."""

_CONSOLE = 'exec /usr/lib/xen-*/bin/xenconsole --interactive "$(xl domid {})"'
"""Not ``xl console``, which passes no input on unless it comes from a terminal."""


@dataclass(frozen=True)
class DomainNic:
    """One NIC of a domain: its MAC, and its other end on the UUT."""

    mac: str
    host: str


def build_nics(guest: str, number: int) -> tuple[DomainNic, DomainNic]:
    """Return the inbound and outbound NIC for stream ``number``, from 1."""
    which = 1 if guest == FIRST else 2
    inbound, outbound = (
        DomainNic(f"02:6c:78:01:{number:02x}:{which}{side}", f"xn{which}{letter}{number}")
        for side, letter in enumerate("io")
    )
    return inbound, outbound


def crew_nics(number: int) -> tuple[DomainNic, DomainNic]:
    """Return the NIC of a guest for jobs, from 1, and the one that receives the traffic it forwards."""
    own, inbound = (
        DomainNic(f"02:6c:78:02:{side:02x}:{number:02x}", f"xnc{letter}{number}")
        for side, letter in enumerate(("", "i"))
    )
    return own, inbound


def write_domains(path: Path, layout: Layout, *, kernel: Path, initrd: Path, disks: Path | None) -> None:
    """Write all domains' files below ``path``. ``disks``: directory of disk images on the UUT, or None if guests have
    no disks. Raises ConfigError for more streams than the domains support.
    """
    if len(layout.streams) > MAX_STREAMS:
        raise ConfigError(
            "is too many for platform xen", key="sources", value=len(layout.streams), allowed=f"1 to {MAX_STREAMS}"
        )
    path.mkdir(mode=0o755)
    script, disk_script = path / "vif", path / "block"
    for each, lines in ((script, _SCRIPT), (disk_script, _DISK_SCRIPT)):
        each.write_text(lines)
        each.chmod(0o755)

    def write(name: str, *, extra: str, memory_mib: int, nics: Sequence[DomainNic], disk: Path | None = None) -> None:
        vifs = ", ".join(f"'mac={nic.mac},vifname={nic.host},script={script}'" for nic in nics)
        text = _CONFIG.format(
            name=name,
            kernel=kernel,
            initrd=initrd,
            extra=extra,
            memory_mib=memory_mib,
            vifs=vifs,
            disks="" if disk is None else f"'vdev=xvda,access=rw,script={disk_script},target={disk}'",
        )
        (path / f"{name}.cfg").write_text(text)

    sinks = {node.name: node.interfaces[0].mac for node in layout.nodes if node.role == "sink"}
    for guest in (FIRST, SECOND):
        pairs = [build_nics(guest, number) for number in range(1, len(layout.streams) + 1)]
        streams = [
            f"lc.stream={inbound.mac},{outbound.mac},{s.source_ip},{s.sink_ip},{sinks[s.sink.partition('/')[0]]}"
            for s, (inbound, outbound) in zip(layout.streams, pairs, strict=True)
        ]
        nics = [nic for pair in pairs for nic in pair]
        write(guest, extra=" ".join(streams), memory_mib=MEMORY_MIB[guest], nics=nics)
    for number, (guest, image) in enumerate(zip(CREW, CREW_IMAGES, strict=True), start=1):
        extra, disk = ("", None) if disks is None else (f"lc.disk={CREW_DIRECTORY}", disks / image)
        write(guest, extra=extra, memory_mib=CREW_MEMORY_MIB, nics=crew_nics(number), disk=disk)


def inventory_options(path: Path, streams: Sequence[LabStream], second_cpu: int, disks: Path) -> str:
    """Build the platform's options in hosts.yaml. ``disks``: directory of the guests' disks on the UUT, if they have
    any.
    """
    lines = [
        f"{{driver: xl, boot: xen, guest: {FIRST}, second_guest: {SECOND}, bridges: made, graceful_s: 0,",
        f"     config: {_quoted(path / f'{FIRST}.cfg')}, second_config: {_quoted(path / f'{SECOND}.cfg')},",
        f"     second_cpu: {second_cpu}, second_shell: [sh, -c, '{_CONSOLE.format(SECOND)}'],",
        f"     guests: [{', '.join(CREW)}], guest_config: {_quoted(path / '{guest}.cfg')}, guest_cpus: {second_cpu},",
        f"     guest_shell: [sh, -c, '{_CONSOLE.format('{guest}')}'], guest_nic: 1, guest_inbound_nic: 2,",
        f"     guest_directory: {CREW_DIRECTORY}, guest_disk: {_quoted(disks)},",
    ]
    nics = [
        f"{{stream: {stream.name}, guest: {guest}, in_mac: '{inbound.mac}', out_mac: '{outbound.mac}'}}"
        for guest in (FIRST, SECOND)
        for number, stream in enumerate(streams, start=1)
        for inbound, outbound in [build_nics(guest, number)]
    ]
    return "\n".join(lines) + "\n     nics: [\n       " + ",\n       ".join(nics) + "]}"


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
