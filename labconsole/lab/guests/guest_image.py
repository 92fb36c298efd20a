"""A forwarding guest as a kernel and an initial RAM file system: the image that ``platforms/base/image.py`` boots.

It forwards as its kernel command line says (``lc.stream=IN_MAC,OUT_MAC,SOURCE_IP,SINK_IP,SINK_MAC``, one per stream),
or has one NIC with an address (``lc.nic=MAC,ADDRESS/PREFIX``), mounts its disk (``lc.disk=PATH``), and uses programs of
a directory that User-mode Linux sees of its host (``lc.programs=PATH``). After that it sends a ping if one is specified
(``lc.mark=ADDRESS,BYTES,HEX``) and prints a line. Then it runs each line that arrives over its console, and prints a
mark after it. It has the real ``stress``, so that a background guest can be loaded, and the programs of jobs if the
lab's options include them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

from labconsole.lab.guests.programs import applets, load_with_libraries, parents
from labconsole.lab.images.initramfs import Archive, load_modules

INIT = r"""#!/bin/sh
export PATH=/bin
mkdir -p /proc /sys /dev /tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mount -t tmpfs tmpfs /tmp
# Pages of one size: how much memory a load writes to is counted by the pages that it was given.
echo never > /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null
. /guest.env
for module in $MODULES; do insmod /modules/$module || echo "guest: module $module failed"; done
for which in all default; do echo 1 > /proc/sys/net/ipv6/conf/$which/disable_ipv6; done 2>/dev/null
ip link set lo up
nic() {
  for link in /sys/class/net/*; do
    [ "$(cat $link/address)" = "$1" ] && { echo "${link##*/}"; return; }
  done
  echo "guest: no NIC $1" >&2
}
stream() {
  in=$(nic "$1"); out=$(nic "$2")
  for link in "$in" "$out"; do
    ip link set "$link" up
    echo 1 > "/proc/sys/net/ipv4/conf/$link/forwarding"
  done
  ip route add "$3/32" dev "$in"
  ip route add "$4/32" dev "$out"
  arp -s "$4" "$5" -i "$out"
}
programs() {
  mkdir -p /host
  mount -t hostfs -o "ro,$1" host /host || return
  for directory in lib lib64 usr; do
    [ -d /host/$directory ] && mkdir -p /$directory && mount --bind /host/$directory /$directory
  done
  export PATH=/bin:/host/bin
}
member() {
  link=$(nic "$1")
  ip address add "$2" dev "$link"
  ip link set "$link" up
}
disk() {
  mkdir -p "$1"
  for device in /dev/vda /dev/ubda /dev/xvda; do [ -b $device ] && mount -t ext4 -o nodev,nosuid $device "$1"; done
}
for word in $(cat /proc/cmdline); do
  case $word in
    lc.stream=*) stream $(echo "${word#lc.stream=}" | tr , ' ');;
    lc.programs=*) programs "${word#lc.programs=}";;
    lc.disk=*) disk "${word#lc.disk=}";;
    lc.mark=*) mark=${word#lc.mark=};;
    lc.nic=*) member $(echo "${word#lc.nic=}" | tr , ' ');;
  esac
done
stty -echo 2>/dev/null
marked() {
  # A lost address request is repeated at once: a bridge may not have noticed yet that the NIC is up.
  for each in /proc/sys/net/ipv4/neigh/*; do echo 20 >$each/retrans_time_ms; echo 50 >$each/mcast_solicit; done
  ping -q -c 1 -W 1 -s "$2" -p "$3" "$1"
}
[ "$mark" ] && marked $(echo "$mark" | tr , ' ') >/dev/null 2>&1
echo "LABCONSOLE-GUEST-READY $(uname -r)"
while read -r line; do
  sh -c "$line" 3<&0
  echo "LABCONSOLE-DONE $?"
done
"""

NICS = ("virtio_pci", "virtio_net", "e1000", "e1000e", "vmxnet3", "8139cp", "pcnet32", "xen_netfront", "af_packet")
MODULES = (*NICS, "virtio_blk", "xen_blkfront", "crc32c_generic", "ext4")


def write_guest_image(
    path: Path, *, busybox: Path, modules: Path, programs: Iterable[str], wanted: Iterable[str] = MODULES
) -> None:
    """Write the archive for a kernel whose modules are at ``modules``, with ``programs`` of this machine in addition to
    all of busybox. Raises LabSetupError if one is missing.
    """
    ordered = load_modules(modules, wanted)
    files = {"bin/busybox": busybox.read_bytes()}
    for program in programs:
        files |= load_with_libraries(program)
    archive = Archive()
    for directory in parents(files):
        archive.directory(directory)
    for name, content in files.items():
        archive.file(name, content, executable=True)
    for applet in applets(busybox):
        archive.link(f"bin/{applet}", "busybox")
    archive.directory("modules")
    for name, content in ordered:
        archive.file(f"modules/{name}.ko", content)
    names = shlex.quote(" ".join(f"{name}.ko" for name, _ in ordered))
    archive.file("guest.env", f"MODULES={names}\n".encode())
    archive.file("init", INIT.encode(), executable=True)
    path.write_bytes(archive.finish())
