"""Disks of the operator's installed guests: in each a directory on its own disk, made through its shell.

hosts.yaml names the parent directory (``guest_directory``), and the UUT's device below the guests' disks
(``guest_disk``), whose counters show the data that reached it. The directory is removed with its contents; if both
console and agent are killed, the next crew that works there removes it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from labconsole.contracts.crew import CrewMember, DisksBelow
from labconsole.contracts.driver import Ask
from labconsole.contracts.ports import AgentLink
from labconsole.errors import AgentError, NodeError, NodeLost
from labconsole.network.guest_disks import SPARE_MIB
from labconsole.platforms.base.crew_disks import disks_below, read_block_devices
from labconsole.platforms.base.installed_boot import InstalledGuest
from labconsole.platforms.base.options import ManagedOptions
from labconsole.wire.execution import Execute

_IN_MEMORY = ("rootfs", "tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
"""File systems whose data reach no disk."""

_NAME = "labconsole-disk"
_LOOK_S = 10.0
_KIB_PER_MIB = 1024

_FOUND = re.compile(r"LCDISK (\S{1,40}) \S{1,400} +\d{1,18} +\d{1,18} +(\d{1,18}) +\d{1,3}% (\S{1,400})$", re.MULTILINE)
_BLOCK_DEVICE = re.compile(r"^block special file ([0-9a-f]{1,8}) ([0-9a-f]{1,8})$", re.MULTILINE)


def disks_refusal(platform: str, options: ManagedOptions) -> str | None:
    """Why its guests cannot work on disks, or None if they can."""
    if options.ssh is not None:
        return (
            f"platform {platform} is commanded by ssh: the disks of its guests are on another node, so it cannot be "
            "checked whether what jobs write reaches them"
        )
    missing = {
        "guest_directory": "the directory in each guest, on its disk, in which jobs may work",
        "guest_disk": "the directory or block device on the UUT that holds the guests' disks",
    }
    for key, what in missing.items():
        if getattr(options, key) is None or key not in options.model_fields_set:
            return f"platform {platform} has no `{key}` in hosts.yaml, {what}"
    return None


@dataclass(frozen=True, slots=True)
class InstalledDisks:
    """The directories of one crew, below ``place`` in each guest, which guests of one UUT may share; ``crew``: a word
    unique to the crew.
    """

    place: str
    crew: str = field(default_factory=lambda: secrets.token_hex(4))

    def path(self, member: CrewMember) -> str:
        return f"{self.place.rstrip('/')}/{_NAME}-{self.crew}-{member.name}"

    def making(self, member: CrewMember) -> str:
        """A line that removes other crews' leftovers, makes the directory, prints its file system and free space."""
        others = f'for d in {_NAME}-*; do case $d in {_NAME}-{self.crew}-*) ;; *) rm -rf -- "$d" ;; esac; done'
        kind = 'while read -r d p t r; do [ "$p" = "${m##* }" ] && f=$t; done </proc/mounts'
        return (
            f"cd {self.place} && {others} && mkdir -m 700 {self.path(member)} && "
            f'm=$(busybox df -Pk . | busybox tail -n 1) && {{ {kind}; echo "LCDISK $f $m"; }}'
        )

    def removing(self, member: CrewMember) -> str:
        """A line that removes it, even if the guest is about to end. Twice: a job may still write as it ends."""
        path = self.path(member)
        return f"rm -rf -- {path} || rm -rf -- {path}; busybox sync -f {self.place} && ! test -e {path}"

    async def make(self, uut: AgentLink, ask: Ask, guest: str, member: CrewMember) -> None:
        """Make the directory in this ``guest``, as messages name it. Raises NodeError if it is impossible, would be in
        memory, or has no space.
        """
        try:
            found = _FOUND.search(await ask(uut, self.making(member)))
        except NodeLost:
            raise
        except NodeError as exc:
            why = f"{guest}: nothing can be made in {self.place} (guest_directory in hosts.yaml): {exc.message}"
            raise NodeError(uut.name, why) from exc
        if found is None:
            raise NodeError(
                uut.name, f"{guest}: the file system of {self.place} (guest_directory) could not be determined"
            )
        file_system, free_mib = found[1], int(found[2]) // _KIB_PER_MIB
        if file_system in _IN_MEMORY:
            raise NodeError(
                uut.name,
                f"{guest}: {self.place} is on {file_system}, which is memory: nothing that is written there "
                "reaches a disk; set `guest_directory:` in hosts.yaml to a directory on its disk",
            )
        if free_mib < member.disk_mib + SPARE_MIB:
            raise AgentError(
                uut.name,
                f"no room on disk: {guest}: {self.place} has {free_mib} MiB left; its job needs "
                f"{member.disk_mib} MiB, and {SPARE_MIB} MiB must stay free",
                code="no_space",
            )


async def find_installed_disks(
    uut: AgentLink, platform: str, options: ManagedOptions, crew: Sequence[InstalledGuest]
) -> DisksBelow | None:
    """The device below the disks of these guests on the UUT, or None if no guest needs one. Raises NodeError if it is
    no device.
    """
    place = options.guest_disk
    if place is None or not any(each.member.disk_mib for each in crew):
        return None
    look = Execute(argv=["stat", "-L", "-c", "%F %t %T", place], timeout_s=_LOOK_S)
    device = _BLOCK_DEVICE.search((await uut.ask(look)).stdout)
    if device is None:
        return await disks_below(uut, platform, place)
    number, devices = f"{int(device[1], 16)}:{int(device[2], 16)}", await read_block_devices(uut)
    if number not in devices:
        raise NodeError(uut.name, f"platform {platform}: the kernel of the UUT counts nothing for {place} (guest_disk)")
    return DisksBelow(place=place, file_system="block device", device=devices[number], number=number)
