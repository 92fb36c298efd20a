"""The guest NICs that a stream passes, and its counters on this node.

The operator names them (``nics``), or they follow the order of a guest's NICs, two for each stream. The bridges between
them and the UUT's NICs are the operator's, or labconsole's with ``bridges: made``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labconsole.contracts.driver import PathPoint, StreamPath, StreamWiring
from labconsole.errors import ConfigError
from labconsole.network.change import NetworkChange
from labconsole.network.links import Bridge
from labconsole.platforms.base.guest import GuestNic, Wires, format_names
from labconsole.platforms.base.hypervisor import Hypervisor
from labconsole.platforms.base.options import mac_address
from labconsole.platforms.base.shell import Shell
from labconsole.wire.links import ReadLinks

Streams = Mapping[str, Sequence[StreamWiring]]
"""The streams that pass each guest."""


def flatten_wirings(streams: Streams) -> list[StreamWiring]:
    """All wirings, the first guest's before the second's."""
    return [wiring for passing in streams.values() for wiring in passing]


class GuestStreams(Hypervisor):
    """Streams through guests whose NICs the hypervisor reports."""

    async def wires(self, shell: Shell, streams: Streams) -> Wires:
        """The inbound and outbound NIC of every stream. Raises NodeError or ConfigError if they cannot be matched."""
        wires: Wires = {}
        for guest, passing in streams.items():
            nics = list(await self.nics(shell, guest))
            configured = {
                entry.stream: (entry.in_mac, entry.out_mac)
                for entry in self.options.nics
                if (entry.guest or self.options.guest) == guest
            }
            found = (
                self._find_configured_nics(shell, guest, nics, configured, passing)
                if configured
                else _pair_in_order(shell, guest, nics, passing)
            )
            for wiring in passing:
                self._check_mac(shell, wiring, found[wiring.name][0])
            wires |= found
        return wires

    def _find_configured_nics(
        self,
        shell: Shell,
        guest: str,
        nics: Sequence[GuestNic],
        configured: Mapping[str, tuple[str, str]],
        passing: Sequence[StreamWiring],
    ) -> Wires:
        wires: Wires = {}
        for wiring in passing:
            if wiring.name not in configured:
                of_guest = "" if guest == self.options.guest else f" through guest {guest}"
                raise ConfigError(
                    f"names no NICs for this stream{of_guest}", key=f"platforms.{self.name}.nics", value=wiring.name
                )
            in_mac, out_mac = configured[wiring.name]
            wires[wiring.name] = (_find_by_mac(shell, guest, nics, in_mac), _find_by_mac(shell, guest, nics, out_mac))
        return wires

    def _check_mac(self, shell: Shell, wiring: StreamWiring, nic: GuestNic) -> None:
        if nic.mac is None:
            raise shell.error(
                f"{self.about.name} does not report the MAC address of the NIC that receives stream {wiring.name}"
            )
        if shell.ssh is None and nic.mac == mac_address(wiring.uut_in_mac):
            raise shell.error(
                f"the guest's NIC has the MAC of {wiring.uut_in} ({nic.mac}): such frames end at the host; give the "
                f"guest another MAC address"
            )

    def changes(self, streams: Streams, wires: Wires) -> Sequence[NetworkChange]:
        """Changes by the agent so that every stream reaches its guest; empty if the operator made them."""
        if self.options.bridges == "found":
            return []
        return [
            Bridge(name=f"lcb{letter}{index}", ports=[port, nic.host_interface or ""])
            for index, wiring in enumerate(flatten_wirings(streams), start=1)
            for letter, port, nic in zip("io", (wiring.uut_in, wiring.uut_out), wires[wiring.name], strict=True)
        ]

    def foretold(self, streams: Streams) -> Wires:
        """The expected result of ``wires``, as far as hosts.yaml defines it, with a placeholder for each host
        interface.
        """
        configured = {(entry.guest or self.options.guest, entry.stream): entry for entry in self.options.nics}
        wires: Wires = {}
        for guest, passing in streams.items():
            for index, wiring in enumerate(passing):
                entry = configured.get((guest, wiring.name))
                called = (entry.in_mac, entry.out_mac) if entry else (f"number-{2 * index}", f"number-{2 * index + 1}")
                inbound, outbound = (GuestNic(mac=None, host_interface=f"{guest}:NIC-{name}") for name in called)
                wires[wiring.name] = (inbound, outbound)
        return wires

    async def paths(self, shell: Shell, streams: Streams) -> dict[str, StreamPath]:
        """The paths of the streams, with a counter for every interface that this node really has."""
        wires = await self.wires(shell, streams)
        there: set[str] = set()
        if self.about.capabilities.statistics and shell.ssh is None:
            there = {link.name for link in (await shell.uut.ask(ReadLinks())).links if not link.namespace}
        paths = {}
        for wiring in flatten_wirings(streams):
            inbound, outbound = wires[wiring.name]
            for nic in (inbound, outbound):
                if self.options.bridges == "made" and nic.host_interface is None:
                    raise shell.error(
                        f"{self.about.name} does not report which interface of this node is the other end of the "
                        f"guest's NIC {nic.mac}, so no bridge can be made"
                    )
            points = [PathPoint("uut_in", "", wiring.uut_in, "rx_packets")]
            # Both or none: with only one, the guest's loss would be counted at the wrong place.
            if inbound.host_interface in there and outbound.host_interface in there:
                points.append(PathPoint("to_guest", "", str(inbound.host_interface), "tx_packets"))
                points.append(PathPoint("from_guest", "", str(outbound.host_interface), "rx_packets"))
            points.append(PathPoint("uut_out", "", wiring.uut_out, "tx_packets"))
            assert inbound.mac is not None
            paths[wiring.name] = StreamPath(destination_mac=inbound.mac, points=tuple(points))
        return paths


def _pair_in_order(shell: Shell, guest: str, nics: Sequence[GuestNic], passing: Sequence[StreamWiring]) -> Wires:
    if len(nics) < 2 * len(passing):
        raise shell.error(
            f"guest {guest} has {len(nics)} NICs ({format_names(n.mac or '?' for n in nics)}); expected: two for each "
            f"of {len(passing)} streams, in their order, or given as `nics:` in hosts.yaml"
        )
    return {wiring.name: (nics[2 * index], nics[2 * index + 1]) for index, wiring in enumerate(passing)}


def _find_by_mac(shell: Shell, guest: str, nics: Sequence[GuestNic], mac: str) -> GuestNic:
    for nic in nics:
        if nic.mac == mac:
            return nic
    raise shell.error(f"guest {guest} has no NIC {mac}; it has: {format_names(n.mac or '?' for n in nics)}")
