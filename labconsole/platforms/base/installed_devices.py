"""Disks and NICs of the operator's installed guests that a crew uses."""

from __future__ import annotations

import re
import secrets
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from labconsole.contracts.crew import CrewMember, CrewWanted, DisksBelow
from labconsole.contracts.driver import Ask
from labconsole.contracts.ports import AgentLink
from labconsole.errors import AgentError, NodeError, NodeLost
from labconsole.network.change import NetworkChange
from labconsole.network.guest_disks import SPARE_MIB
from labconsole.network.links import Bridge, BridgePort
from labconsole.platforms.base.crew import BRIDGE, INBOUND_BRIDGE
from labconsole.platforms.base.crew_disks import disks_below, read_block_devices
from labconsole.platforms.base.guest import GuestNic, format_names
from labconsole.platforms.base.installed_boot import InstalledBoot, InstalledGuest
from labconsole.platforms.base.options import ManagedOptions
from labconsole.platforms.base.shell import Shell
from labconsole.wire.execution import Execute

# -- disks -------------------------------------------------------------------------------------------------------------
# Disks of the operator's installed guests: in each a directory on its own disk, made through its shell.
#
# hosts.yaml names the parent directory (``guest_directory``), and the UUT's device below the guests' disks
# (``guest_disk``), whose counters show the data that reached it. The directory is removed with its contents; if both
# console and agent are killed, the next crew that works there removes it.

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


# -- NICs --------------------------------------------------------------------------------------------------------------
# The used NICs of the operator's guests: the one that shares the UUT's NIC, and for guests that forward the one at
# which their streams arrive; and labconsole's bridges for both.


@dataclass(frozen=True, slots=True)
class NicPair:
    """The used NICs of a guest. ``inbound`` is None if it does not forward."""

    own: GuestNic
    inbound: GuestNic | None = None


class InstalledNics(InstalledBoot):
    """Finds the NICs of a crew of installed guests."""

    @abstractmethod
    async def apply_changes(self, shell: Shell, changes: Sequence[NetworkChange]) -> None:
        """Have the agent make the changes; restore() undoes them."""

    def nics_refusal(self, wanted: CrewWanted) -> str | None:
        """Why these guests cannot forward as requested, or None if they can."""
        if not any(member.inbound for member in wanted.members):
            return None
        if self.options.guest_nic is None or self.options.guest_inbound_nic is None:
            return (
                f"platform {self.name} has no `guest_nic` and `guest_inbound_nic` in hosts.yaml: guests that forward "
                "send through the first and receive the streams at the second"
            )
        if self.options.bridges == "found":
            return (
                f"platform {self.name} has bridges of its own: guests that forward need bridges that labconsole makes, "
                "which know the port of each guest; set `bridges: made` in hosts.yaml"
            )
        return None

    def bridges_of_crew(self, wanted: CrewWanted, nics: Sequence[NicPair]) -> list[NetworkChange]:
        """Bridges that labconsole makes for the guests' NICs and the UUT's."""
        if self.options.bridges == "found":
            return []
        made: list[NetworkChange] = [Bridge(name=BRIDGE, ports=[wanted.port, *(_end(nic.own) for nic in nics)])]
        if wanted.inbound_port is not None:
            ends = [_end(nic.inbound) for nic in nics if nic.inbound is not None]
            made.append(Bridge(name=INBOUND_BRIDGE, ports=[wanted.inbound_port, *ends]))
        return made

    async def find_nic(self, shell: Shell, guest: str) -> GuestNic:
        """See InstalledBoot."""
        return await self._nic(shell, guest, "guest_nic")

    async def join(self, shell: Shell, interface: str) -> None:
        """See InstalledBoot."""
        await self.apply_changes(shell, [BridgePort(name=BRIDGE, port=interface)])

    async def nics_of_crew(
        self, shell: Shell, crew: Sequence[InstalledGuest], idle: Sequence[str] = ()
    ) -> list[NicPair]:
        """Each one's NICs. Raises NodeError if they are ambiguous, or if two could be confused with each other.

        ``idle``: guests that are off, so that their NICs need no other end yet.
        """
        found = []
        for each in crew:
            own = await self._nic(shell, each.guest, "guest_nic", idle=each.guest in idle)
            inbound = None
            if each.member.inbound is not None:
                inbound = await self._nic(shell, each.guest, "guest_inbound_nic", idle=each.guest in idle)
            found.append(NicPair(own, inbound))
        self.tell_apart(shell, crew, found)
        return found

    async def nic_to_be(self, shell: Shell, guest: str) -> GuestNic:
        """The NIC of a stopped guest, as far as known."""
        nics, number = list(await self.nics_to_be(shell, guest)), self.options.guest_nic
        known = number is not None or len(nics) == 1
        return nics[(number or 1) - 1] if known and (number or 1) <= len(nics) else GuestNic(mac=None)

    def tell_apart(self, shell: Shell, crew: Sequence[InstalledGuest], nics: Sequence[NicPair]) -> None:
        """Raise NodeError if two NICs have one MAC address."""
        owners: dict[str, str] = {}
        for each, found in zip(crew, nics, strict=True):
            for nic in (found.own, *([] if found.inbound is None else [found.inbound])):
                if (other := owners.get(str(nic.mac))) is not None:
                    whose = f"guests {other} and {each.guest} have" if other != each.guest else f"guest {other} has"
                    raise shell.error(f"{whose} NICs with the same MAC address, {nic.mac}")
                owners[str(nic.mac)] = each.guest

    async def _nic(self, shell: Shell, guest: str, option: str, *, idle: bool = False) -> GuestNic:
        nics, number = list(await self.nics(shell, guest)), getattr(self.options, option)
        has = f"guest {guest} has {len(nics)} NICs ({format_names(nic.mac or '?' for nic in nics)})"
        if number is None and len(nics) != 1:
            raise shell.error(f"{has}; expected: one, or its number as `{option}:` in hosts.yaml")
        if number is not None and number > len(nics):
            raise shell.error(f"{has}, but `{option}` in hosts.yaml is {number}")
        nic = nics[(number or 1) - 1]
        if nic.mac is None:
            raise shell.error(f"{self.about.name} does not report the MAC address of the NIC of guest {guest}")
        if self.options.bridges == "made" and nic.host_interface is None and not idle:
            raise shell.error(
                f"{self.about.name} does not report which interface of this node is the other end of the NIC "
                f"{nic.mac} of guest {guest}, so no bridge can be made"
            )
        return nic


def _end(nic: GuestNic) -> str:
    return str(nic.host_interface)
