"""``container``: a guest network stack on the UUT's kernel, its interfaces bridged to the UUT's NICs.

Operating-system-level virtualization as in OpenVZ and Linux-VServer, reduced to the parts that forward packets: a
network namespace with a veth pair per NIC. A process of the agent's keeps a guest alive, which ends with it. The second
guest is another one, and its load runs inside it; forwarding cannot be pinned, for the kernel does it on the processor
where a packet arrives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from labconsole.contracts.driver import (
    Attestation,
    DriverInfo,
    PathPoint,
    Prepared,
    SecondGuest,
    StreamPath,
    StreamWiring,
)
from labconsole.contracts.ports import AgentLink
from labconsole.network.change import NetworkChange
from labconsole.network.links import Bridge, Namespace, NamespaceNic, Veth
from labconsole.platforms.base.crew import TOKEN, CrewGuest, CrewMaking, RunningCrew, crew_bridges
from labconsole.platforms.base.forwarding import (
    apply,
    read_state,
    restored_on_failure,
    route_changes,
    shell_lines,
    undo,
)
from labconsole.platforms.base.guest_shell import (
    allowed_cpus,
    build_taskset_prefix,
    close_shell,
    marked_loop,
    shell_as_guest,
)
from labconsole.platforms.base.options import DISK_PLACE, USUAL_DISK_PLACE, Cpus, DiskPlace, read_options

INSIDE = ("eth0", "eth1")
"""A guest's NICs in a crew: the common one, and the inbound one."""

GUEST = "guest"
SECOND = "second"


class ContainerOptions(BaseModel):
    """The CPUs of the second guest's processes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    second_cpu: Cpus | None = Field(default=None, description="the CPUs that the second guest's load may run on")
    guest_disk: DiskPlace = Field(default=USUAL_DISK_PLACE, description=DISK_PLACE)


@dataclass(frozen=True, slots=True)
class _Nic:
    """One NIC of a guest: its name inside, the other end of its veth outside, the bridge, the UUT's NIC, the MAC."""

    inside: str
    veth: str
    bridge: str
    port: str
    mac: str
    veth_mac: str


@dataclass(frozen=True, slots=True)
class _Container:
    """One guest. ``after``: number of streams of other guests, whose names come before."""

    name: str
    wirings: tuple[StreamWiring, ...]
    after: int = 0

    def nics(self) -> list[tuple[_Nic, _Nic]]:
        """Inbound and outbound NIC of each stream."""
        pairs = []
        for place, wiring in enumerate(self.wirings):
            number = self.after + place + 1
            inbound, outbound = (
                _Nic(
                    inside=f"eth{2 * place + side - 1}",
                    veth=f"lcv{letter}{number}",
                    bridge=f"lcb{letter}{number}",
                    port=port,
                    # Never the MAC of a bridge port, or frames would be delivered on the host.
                    mac=f"02:6c:63:00:{number:02x}:{side:02x}",
                    veth_mac=f"02:6c:63:00:{number:02x}:{0x10 + side:02x}",
                )
                for side, letter, port in ((1, "i", wiring.uut_in), (2, "o", wiring.uut_out))
            )
            pairs.append((inbound, outbound))
        return pairs

    def changes(self) -> list[NetworkChange]:
        """The namespace, its NICs on their bridges, its routes."""
        changes: list[NetworkChange] = [Namespace(name=self.name)]
        for wiring, (inbound, outbound) in zip(self.wirings, self.nics(), strict=True):
            for nic in (inbound, outbound):
                changes.append(
                    Veth(name=nic.veth, mac=nic.veth_mac, peer=nic.inside, peer_mac=nic.mac, peer_namespace=self.name)
                )
                changes.append(Bridge(name=nic.bridge, ports=[nic.port, nic.veth]))
            changes += route_changes(
                inbound=inbound.inside,
                outbound=outbound.inside,
                source_ip=wiring.source_ip,
                sink_ip=wiring.sink_ip,
                sink_mac=wiring.sink_mac,
                namespace=self.name,
            )
        return changes

    def paths(self) -> dict[str, StreamPath]:
        """Each stream's path through the guest."""
        return {
            wiring.name: StreamPath(
                destination_mac=inbound.mac,
                points=(
                    PathPoint("uut_in", "", inbound.port, "rx_packets"),
                    PathPoint("to_guest", "", inbound.veth, "tx_packets"),
                    PathPoint("guest_in", self.name, inbound.inside, "rx_packets"),
                    PathPoint("guest_out", self.name, outbound.inside, "tx_packets"),
                    PathPoint("from_guest", "", outbound.veth, "rx_packets"),
                    PathPoint("uut_out", "", outbound.port, "tx_packets"),
                ),
            )
            for wiring, (inbound, outbound) in zip(self.wirings, self.nics(), strict=True)
        }


def _containers(wirings: Sequence[StreamWiring], second: Sequence[StreamWiring] | None) -> list[_Container]:
    guests = [_Container(GUEST, tuple(wirings))]
    if second is not None:
        guests.append(_Container(SECOND, tuple(second), after=len(wirings)))
    return guests


class ContainerDriver(CrewMaking):
    """See labconsole.contracts.driver.Driver, and CrewDriver for guests in number."""

    about = DriverInfo(
        name="container",
        summary="a network stack of its own on the UUT's kernel, bridged to its NICs",
        tried="yes",
        Options=ContainerOptions,
        load_inside=False,
    )
    CREW_NAMESPACED = CREW_IN_NAMESPACES = True
    CREW_MEMORY_IS_LIMIT = True

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        self.name = name
        self.options = read_options(ContainerOptions, "container", name, options)
        self.guest_disk = self.options.guest_disk

    def refusal(self, background: str) -> str | None:
        """Always None: a second guest is made on request."""
        return None

    def commands(self, wirings: Sequence[StreamWiring], second: Sequence[StreamWiring] | None = None) -> list[str]:
        """The commands of prepare() on the UUT, as lines of a shell."""
        return shell_lines(change for guest in _containers(wirings, second) for change in guest.changes())

    async def prepare(
        self, uut: AgentLink, wirings: Sequence[StreamWiring], *, second: Sequence[StreamWiring] | None = None
    ) -> Prepared:
        """Create the guests, bridge their interfaces to the NICs, and enable their forwarding."""
        guests = _containers(wirings, second)
        second_guest: SecondGuest | None = None

        async def attest(uut: AgentLink) -> Attestation:
            nics = {guest.name: [nic for pair in guest.nics() for nic in pair] for guest in guests}
            each = [nic for found in nics.values() for nic in found]
            interfaces = await read_state(
                uut,
                routing={name: [nic.inside for nic in found] for name, found in nics.items()},
                ports=[*(nic.port for nic in each), *(nic.veth for nic in each)],
            )
            found = {"driver": "container", "guests": [guest.name for guest in guests], "interfaces": interfaces}
            if second_guest is not None and second_guest.ask is not None:
                found["second"] = {"guest": SECOND, "cpus": await allowed_cpus(uut, second_guest.ask)}
            return found

        async with restored_on_failure(self.restore, uut):
            await apply(uut, TOKEN, [change for guest in guests for change in guest.changes()])
            if second is not None:
                second_guest = await shell_as_guest(uut, SECOND, self.options.second_cpu, namespace=SECOND)
            return Prepared(
                paths={name: path for guest in guests for name, path in guest.paths().items()},
                second=second_guest,
                attestation=await attest(uut),
                attest=attest,
            )

    def crew_nics(self, guests: Sequence[CrewGuest]) -> list[NetworkChange]:
        nics = (
            NamespaceNic(name=host, peer=inside, peer_mac=mac, peer_namespace=guest.name, address=address)
            for guest in guests
            for inside, (host, mac, address) in zip(INSIDE, guest.nics, strict=False)
        )
        # All namespaces first: their processes are forked from the agent, whose memory grows when it makes the NICs.
        return [*(Namespace(name=guest.name) for guest in guests), *nics, *crew_bridges(guests)]

    def crew_argv(self, guest: CrewGuest, crew: RunningCrew) -> list[str]:
        return [*build_taskset_prefix(guest.cpus), "sh", "-c", marked_loop(guest.member.boot_mark)]

    async def restore(self, uut: AgentLink) -> None:
        """Remove the guests and the bridges."""
        try:
            await self.end_crew(uut)
            await close_shell(uut, SECOND)
        finally:
            await undo(uut, TOKEN)
            await self.forget_crew(uut)


DRIVER = ContainerDriver
