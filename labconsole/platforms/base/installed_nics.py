"""The used NICs of the operator's guests: the one that shares the UUT's NIC, and for guests that forward the one at
which their streams arrive; and labconsole's bridges for both.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from labconsole.contracts.crew import CrewWanted
from labconsole.network.bridge import Bridge, BridgePort
from labconsole.network.change import NetworkChange
from labconsole.platforms.base.crew import BRIDGE, INBOUND_BRIDGE
from labconsole.platforms.base.guest import GuestNic, format_names
from labconsole.platforms.base.installed_boot import InstalledBoot, InstalledGuest
from labconsole.platforms.base.shell import Shell


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
