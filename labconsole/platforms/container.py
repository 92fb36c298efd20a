"""``container``: a guest network stack on the UUT's kernel, its interfaces bridged to the UUT's NICs.

Operating-system-level virtualization as in OpenVZ and Linux-VServer, reduced to what forwards packets: a network
namespace with a veth pair per NIC. The guest is held by a process of the agent's and is gone with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labconsole.engine.driver import PathPoint, Prepared, StreamPath, StreamWiring
from labconsole.engine.ports import AgentLink
from labconsole.errors import ConfigError
from labconsole.platforms.forwarding import read_state, restored_on_failure, route_changes, undo

TOKEN = "platform"
GUEST = "guest"


def _guest_mac(index: int, side: int) -> str:
    """A locally administered address; never that of a bridge port, or frames would be delivered on the host."""
    return f"02:6c:63:00:{index:02x}:{side:02x}"


class ContainerDriver:
    """Options: none yet."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        unknown = sorted(options)
        if unknown:
            raise ConfigError(
                "is not an option of driver container", key=f"platforms.{name}.{unknown[0]}", allowed="(none)"
            )

    def _changes(self, wirings: Sequence[StreamWiring]) -> list[dict[str, Any]]:
        changes: list[dict[str, Any]] = [{"do": "namespace", "name": GUEST}]
        for index, wiring in enumerate(wirings, start=1):
            for side, letter, nic in ((1, "i", wiring.uut_in), (2, "o", wiring.uut_out)):
                veth = f"lcv{letter}{index}"
                changes.append(
                    {
                        "do": "veth",
                        "name": veth,
                        "peer": self._guest_nic(index, letter),
                        "peer_namespace": GUEST,
                        "mac": _guest_mac(index, 0x10 + side),
                        "peer_mac": _guest_mac(index, side),
                    }
                )
                changes.append({"do": "bridge", "name": f"lcb{letter}{index}", "ports": [nic, veth], "namespace": ""})
            changes += route_changes(
                inbound=self._guest_nic(index, "i"),
                outbound=self._guest_nic(index, "o"),
                source_ip=wiring.source_ip,
                sink_ip=wiring.sink_ip,
                sink_mac=wiring.sink_mac,
                namespace=GUEST,
            )
        return changes

    @staticmethod
    def _guest_nic(index: int, letter: str) -> str:
        return f"eth{2 * index - (2 if letter == 'i' else 1)}"

    async def prepare(self, uut: AgentLink, wirings: Sequence[StreamWiring]) -> Prepared:
        """Create the guest, bridge its interfaces to the NICs, switch its forwarding on."""
        paths = {}
        for index, wiring in enumerate(wirings, start=1):
            inbound, outbound = self._guest_nic(index, "i"), self._guest_nic(index, "o")
            paths[wiring.name] = StreamPath(
                destination_mac=_guest_mac(index, 1),
                points=(
                    PathPoint("uut_in", "", wiring.uut_in, "rx_packets"),
                    PathPoint("to_guest", "", f"lcvi{index}", "tx_packets"),
                    PathPoint("guest_in", GUEST, inbound, "rx_packets"),
                    PathPoint("guest_out", GUEST, outbound, "tx_packets"),
                    PathPoint("from_guest", "", f"lcvo{index}", "rx_packets"),
                    PathPoint("uut_out", "", wiring.uut_out, "tx_packets"),
                ),
            )

        async def attest(uut: AgentLink) -> dict[str, Any]:
            inside = [self._guest_nic(index, letter) for index in range(1, len(wirings) + 1) for letter in "io"]
            ports = [nic for wiring in wirings for nic in (wiring.uut_in, wiring.uut_out)]
            ports += [f"lcv{letter}{index}" for index in range(1, len(wirings) + 1) for letter in "io"]
            interfaces = await read_state(uut, routing={GUEST: inside}, ports=ports)
            return {"driver": "container", "guests": [GUEST], "interfaces": interfaces}

        async with restored_on_failure(self.restore, uut):
            await uut.request("net.apply", {"token": TOKEN, "changes": self._changes(wirings)})
            return Prepared(paths=paths, attestation=await attest(uut), attest=attest)

    async def restore(self, uut: AgentLink) -> None:
        """Remove the guest and the bridges."""
        await undo(uut, TOKEN)
