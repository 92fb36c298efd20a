"""Disks of a crew's guests on the UUT, and guests prepared for jobs on them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labconsole.contracts.crew import CrewMember, DisksBelow, StandingCrew, StandingMember
from labconsole.contracts.ports import AgentLink
from labconsole.errors import MeasurementError, NodeError, NodeLost
from labconsole.model.jobs import DiskWork
from labconsole.network.guest_disks import GuestDisk, GuestDisks
from labconsole.platforms.base.guest_shell import DONE, ask_on_console
from labconsole.wire.execution import Execute
from labconsole.wire.guests import AskGuests, GuestLine

# -- disks -------------------------------------------------------------------------------------------------------------
# Disks of a crew's guests on the UUT, below one directory that its agent removes.
#
# Guests that share the UUT's file systems have a directory each; machines have a file each as their disk, whose file
# system is made on the UUT.

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


# -- jobs on disks -----------------------------------------------------------------------------------------------------
# Prepares guests for disk jobs: empties their disks and makes the files that the job needs.

BLOCKS_PER_MIB = 2048
"""Blocks of a shell's ``ulimit -f`` per MiB."""

_ASK_S = 60.0
_OUTPUT_BYTES = 600
_SAID_CHARACTERS = 200

# The files made for the trial reach the device before its window begins, and leave the UUT's page cache.
_SETTLE = """\
if test -b "$0"; then sync "$0"; set -- "$0"; else sync -f "$0"; fi
for file; do dd if="$file" iflag=nocache count=0 2>/dev/null; done
:"""


async def prepare_disks(
    crew: StandingCrew, copies: Mapping[str, int], work: DiskWork, size: int, limit_s: float
) -> None:
    """Empty the disks of the working guests, and make the job's files in a directory for each copy. Raises
    MeasurementError with the guest's message, NodeError.
    """
    below = crew.crew.disks
    if below is None:
        raise MeasurementError("the job works on a disk, but the guests have no disks")
    standing = {member.name: member for member in crew.crew.members}
    lines = [
        GuestLine(guest=guest, line=_ready_line(standing[guest], count, work, size)) for guest, count in copies.items()
    ]
    made_mib = sum(copies.values()) * (work.files_mib * size + work.more_files_mib) if work.make else 0
    limit_s = max(limit_s, made_mib / SLOWEST_MIB_PER_S)  # one guest makes them all in sequence
    answers = await crew.uut.ask(AskGuests(asked=lines, until=DONE, timeout_s=limit_s), timeout_s=limit_s + 30)
    for each in answers.guests:
        printed = " ".join((each.printed or each.message or "").split())
        if not re.search(r"LCREADY 0\b", printed):
            raise MeasurementError(
                f"{each.guest}: the files that the job needs could not be made: {printed[-_SAID_CHARACTERS:]}"
            )
    settle = Execute(argv=["sh", "-c", _SETTLE, below.place, *below.files], timeout_s=_ASK_S)
    await crew.uut.ask(settle, timeout_s=_ASK_S + 10)


def find_disk(crew: StandingCrew, guest: str) -> tuple[str, int] | None:
    """The disk's mount point in this guest, and its size in MiB."""
    place = next((each.disk for each in crew.crew.members if each.name == guest), None)
    wanted = next((each.disk_mib for each in crew.members if each.name == guest), 0)
    return None if place is None else (place, wanted)


def build_disk_command(disk: tuple[str, int], copy: int, command: str) -> str:
    """The command, started in a copy's directory with a limit on file sizes."""
    place, mib = disk
    return f"cd {place}/{copy} && ulimit -f {mib * BLOCKS_PER_MIB} || exit 1; {command}"


def _ready_line(member: StandingMember, copies: int, work: DiskWork, size: int) -> str:
    place = member.disk
    if place is None:
        raise MeasurementError(f"{member.name}: the job works on a disk, but this guest has none")
    steps = [f"cd {place}", "rm -rf -- *"]
    for number in range(1, copies + 1):
        made = f" && {{ {work.make.format(size=size)}; }}" if work.make else ""
        steps.append(f"mkdir {number} && ( cd {number}{made} )")
    return f'{{ ( {" && ".join(steps)} && busybox sync -f . ); echo "LCREADY $?"; }} 2>&1 | tail -c {_OUTPUT_BYTES}'
