"""Disks of a crew's guests on the UUT, below one directory that its agent removes.

Guests that share the UUT's file systems have a directory each; machines have a file each as their disk, whose file
system is made on the UUT.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from labconsole.contracts.crew import CrewMember, DisksBelow
from labconsole.contracts.ports import AgentLink
from labconsole.errors import NodeError, NodeLost
from labconsole.network.guest_disks import GuestDisk, GuestDisks
from labconsole.platforms.base.guest_shell import ask_on_console
from labconsole.wire.execution import Execute

INSIDE = "/tmp/disk"
"""Mount point of the disk in a guest that does not share the UUT's file systems."""

_LOOK_S, _FORMAT_S = 10.0, 60.0
SLOWEST_MIB_PER_S = 20
"""Minimum speed of writing the files; a slower disk fails."""

_FOUND = re.compile(r"^(\d{1,9}:\d{1,9}) ([\w.-]{1,40}) (\S{1,400})$", re.MULTILINE)
_DEVICE = re.compile(r"^ *(\d{1,9}) +(\d{1,9}) +([\w!.-]{1,40}) ", re.MULTILINE)

# No work may be deferred into the measurement. So every file is written completely once, including tables and journal,
# because the file system has to record first writes. Blocks have a page's size, because smaller ones would make the UUT
# read before it writes.
_FORMAT = """\
for file; do
  mib=$(($(stat -c %s "$file") / 1048576))
  dd if=/dev/zero of="$file" bs=1M count=$mib oflag=direct conv=notrunc,fsync status=none || exit
  mkfs.ext4 -q -F -b 4096 -m 0 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard "$file" || exit
done"""


@dataclass(frozen=True, slots=True)
class CrewDisks:
    """The disks of these members. ``files``: a file each instead of a directory."""

    place: str
    members: Sequence[CrewMember]
    files: bool
    name: str = field(default_factory=lambda: f"labconsole-disks-{secrets.token_hex(4)}")

    @property
    def wanted(self) -> bool:
        return any(member.disk_mib for member in self.members)

    def path(self, guest: str) -> str:
        """A guest's disk on the UUT."""
        return f"{self.place.rstrip('/')}/{self.name}/{guest}"

    @property
    def _paths(self) -> list[str]:
        return [self.path(member.name) for member in self.members if member.disk_mib]

    def changes(self) -> list[GuestDisks]:
        """Changes that the agent makes."""
        disks = [GuestDisk(guest=member.name, mib=member.disk_mib) for member in self.members if member.disk_mib]
        return [GuestDisks(place=self.place, name=self.name, disks=disks, files=self.files)] if disks else []

    def commands(self) -> list[str]:
        """The disk commands as lines of a shell."""
        lines = [line for change in self.changes() for line in change.commands()]
        return [*lines, *(f"mkfs.ext4 {path}" for path in (self._paths if self.files else ()))]

    async def below(self, uut: AgentLink, platform: str) -> DisksBelow | None:
        """The device below the place, or None if no guest has a disk. Raises NodeError if it is no disk: data in memory
        reach no device.
        """
        if not self.wanted:
            return None
        return await disks_below(uut, platform, self.place, tuple(self._paths) if self.files else ())

    async def format(self, uut: AgentLink) -> None:
        """Make a file system in each file. Raises NodeError."""
        if not self.files or not self.wanted:
            return
        limit_s = _FORMAT_S + sum(member.disk_mib for member in self.members) / SLOWEST_MIB_PER_S
        done = await uut.ask(
            Execute(argv=["sh", "-c", _FORMAT, "sh", *self._paths], timeout_s=limit_s), timeout_s=limit_s + 10
        )
        if done.exit_status != 0:
            said = " ".join(done.stderr.split())[-200:]
            why = "it needs e2fsprogs" if done.exit_status == 127 else said or f"status {done.exit_status}"
            raise NodeError(uut.name, f"no file system could be made on a guest's disk (mkfs.ext4): {why}")


async def disks_below(uut: AgentLink, platform: str, place: str, files: tuple[str, ...] = ()) -> DisksBelow:
    """The device below this directory on the UUT. Raises NodeError if it is no disk."""
    argv = ["findmnt", "-n", "-r", "-o", "MAJ:MIN,FSTYPE,SOURCE", "--target", place]
    mount = await uut.ask(Execute(argv=argv, timeout_s=_LOOK_S))
    found = _FOUND.findall(mount.stdout)
    if not found:
        raise NodeError(uut.name, f"platform {platform}: there is no directory {place} on the UUT (guest_disk)")
    number, file_system, source = found[-1]
    devices = await read_block_devices(uut)
    # Some file systems (btrfs) have a number that belongs to no device; their source names the device.
    numbers = {f"/dev/{name}": each for each, name in devices.items()}
    number = number if number in devices else numbers.get(source.partition("[")[0], number)
    if number not in devices:
        raise NodeError(
            uut.name,
            f"platform {platform}: {place} on the UUT is on {file_system}, below which there is no disk; set "
            "`guest_disk:` in hosts.yaml to a directory on one",
        )
    return DisksBelow(place=place, file_system=file_system, device=devices[number], number=number, files=files)


async def read_block_devices(uut: AgentLink) -> dict[str, str]:
    """The block devices with counters in the UUT's kernel: number (``254:0``) to name."""
    listed = await uut.ask(Execute(argv=["cat", "/proc/diskstats"], timeout_s=_LOOK_S))
    return {f"{major}:{minor}": name for major, minor, name in _DEVICE.findall(listed.stdout)}


async def refuse_unmounted(uut: AgentLink, guests: Sequence[str]) -> None:
    """Raise NodeError for a guest without a disk at its place: it would write to its memory."""
    for guest in guests:
        try:
            await ask_on_console(guest)(uut, f"grep -q ' {INSIDE} ext4 ' /proc/mounts")
        except NodeLost:
            raise
        except NodeError as exc:
            raise NodeError(
                uut.name,
                f"guest {guest} did not mount its disk; its image is of an earlier version or lacks a driver",
            ) from exc
