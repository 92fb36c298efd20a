"""Prepares guests for disk jobs: empties their disks and makes the files that the job needs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from labconsole.contracts.crew import StandingCrew, StandingMember
from labconsole.errors import MeasurementError
from labconsole.model.jobs import DiskWork
from labconsole.platforms.base.crew_disks import SLOWEST_MIB_PER_S
from labconsole.platforms.base.guest_shell import DONE
from labconsole.wire.execution import Execute
from labconsole.wire.guests import AskGuests, GuestLine

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
