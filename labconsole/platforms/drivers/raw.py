"""``raw``: no virtualization. The UUT's own kernel forwards, by routing or by bridging.

There is no guest, so the "second guest" is the host itself: load runs on the kernel that forwards, and a second stream
is forwarded by it as the first one is.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from labconsole.contracts.crew import Crew, CrewOffer, CrewWanted, StandingMember
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
from labconsole.network.links import Bridge, LinkUp
from labconsole.network.routing import Address
from labconsole.platforms.base.crew_disks import CrewDisks
from labconsole.platforms.base.forwarding import (
    apply,
    read_state,
    restored_on_failure,
    route_changes,
    shell_lines,
    undo,
)
from labconsole.platforms.base.guest_shell import (
    CREW_LOOP,
    allowed_cpus,
    build_taskset_prefix,
    close_shell,
    open_shell,
    shell_as_guest,
)
from labconsole.platforms.base.options import DISK_PLACE, USUAL_DISK_PLACE, Cpus, DiskPlace, read_options
from labconsole.wire.guests import GuestStatus
from labconsole.wire.links import ReadLinks
from labconsole.wire.session import Ping

TOKEN = "platform"
SECOND = "host"


class RawOptions(BaseModel):
    """How the UUT itself forwards."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    forwarding: Literal["route", "bridge"] = "route"
    second_cpu: Cpus | None = Field(default=None, description="the CPUs that background load may run on")
    guest_disk: DiskPlace = Field(default=USUAL_DISK_PLACE, description=DISK_PLACE)


class RawDriver:
    """See labconsole.contracts.driver.Driver."""

    about = DriverInfo(
        name="raw",
        summary="the UUT's own kernel",
        tried="yes",
        Options=RawOptions,
        load_inside=False,
    )

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        self.options = read_options(RawOptions, "raw", name, options)
        self.forwarding = self.options.forwarding
        self._crew: list[str] = []

    def refusal(self, background: str) -> str | None:
        """Always None: the host can do anything that a guest can."""
        return None

    def _changes(self, wirings: Sequence[StreamWiring]) -> list[NetworkChange]:
        changes: list[NetworkChange] = []
        for index, wiring in enumerate(wirings, start=1):
            if self.forwarding == "route":
                changes += route_changes(
                    inbound=wiring.uut_in,
                    outbound=wiring.uut_out,
                    source_ip=wiring.source_ip,
                    sink_ip=wiring.sink_ip,
                    sink_mac=wiring.sink_mac,
                )
            else:
                changes.append(Bridge(name=f"lcb{index}", ports=[wiring.uut_in, wiring.uut_out]))
        return changes

    def commands(self, wirings: Sequence[StreamWiring], second: Sequence[StreamWiring] | None = None) -> list[str]:
        """The commands of prepare() on the UUT, as lines of a shell."""
        return shell_lines(self._changes([*wirings, *(second or ())]))

    async def prepare(
        self, uut: AgentLink, wirings: Sequence[StreamWiring], *, second: Sequence[StreamWiring] | None = None
    ) -> Prepared:
        """Enable forwarding on the streams' interfaces; with a ``second``, open a shell for its load."""
        wirings = [*wirings, *(second or ())]
        paths = {
            wiring.name: StreamPath(
                # Frames are addressed to a router itself, but to the sink through a bridge.
                destination_mac=wiring.uut_in_mac if self.forwarding == "route" else wiring.sink_mac,
                points=(
                    PathPoint("uut_in", "", wiring.uut_in, "rx_packets"),
                    PathPoint("uut_out", "", wiring.uut_out, "tx_packets"),
                ),
            )
            for wiring in wirings
        }
        nics = [nic for wiring in wirings for nic in (wiring.uut_in, wiring.uut_out)]

        second_guest: SecondGuest | None = None

        async def attest(uut: AgentLink) -> Attestation:
            routed = self.forwarding == "route"
            interfaces = await read_state(uut, routing={"": nics} if routed else {}, ports=() if routed else nics)
            found: Attestation = {
                "driver": "raw",
                "forwarding": self.forwarding,
                "guests": [],
                "interfaces": interfaces,
            }
            if second_guest is not None and second_guest.ask is not None:
                found["second"] = {"guest": SECOND, "cpus": await allowed_cpus(uut, second_guest.ask)}
            return found

        async with restored_on_failure(self.restore, uut):
            await apply(uut, TOKEN, self._changes(wirings))
            if second is not None:
                second_guest = await shell_as_guest(uut, SECOND, self.options.second_cpu)
            return Prepared(paths=paths, second=second_guest, attestation=await attest(uut), attest=attest)

    # A crew: processes of the host's own, side by side

    def crew_refusal(self, wanted: CrewWanted) -> str | None:
        """Processes have no weight and no quota of their own here. Their memory is the host's, without any limit per
        guest.
        """
        if any(member.inbound for member in wanted.members):
            return (
                "the bare host has no guests that forward: it is a single router, and labconsole adds no routes or "
                "filter rules to its kernel; measure what it forwards by a plan of frames to forward (frame_sizes, "
                "targets)"
            )
        for member in wanted.members:
            if member.cpu_shares is not None or member.cpu_quota_ratio is not None:
                return "on the bare host, processes have no weight or quota of their own"
        return None

    def crew_offer(self, wanted: CrewWanted) -> CrewOffer:
        why = "has no guests to start: its guests are processes of the bare host"
        return CrewOffer(
            place=self.options.guest_disk, files={}, memory_mib=None, never_started=why, own_interfaces=False
        )

    def _crew_changes(self, wanted: CrewWanted) -> list[NetworkChange]:
        return [LinkUp(interface=wanted.port), Address(interface=wanted.port, address=wanted.members[0].address)]

    def crew_commands(self, wanted: CrewWanted) -> list[str]:
        """The commands of prepare_crew() on the UUT, as lines of a shell."""
        shells = [shlex.join([*build_taskset_prefix(member.cpus), "sh"]) for member in wanted.members]
        disks = CrewDisks(self.options.guest_disk, wanted.members, files=False, name="labconsole-disks-00000000")
        return [*disks.commands(), *shell_lines(self._crew_changes(wanted)), *shells]

    async def check_node(self, uut: AgentLink) -> None:
        """Does nothing: processes have no requirements."""

    async def prepare_crew(self, uut: AgentLink, wanted: CrewWanted) -> Crew:
        """Open a shell for each, all in one session like one user's processes, with the address of the UUT's NIC."""
        started_ns = (await uut.ask(Ping())).monotonic_ns
        disks = CrewDisks(self.options.guest_disk, wanted.members, files=False)
        below = await disks.below(uut, "raw")
        async with restored_on_failure(self.restore, uut):
            await apply(uut, TOKEN, [*disks.changes(), *self._crew_changes(wanted)])
            self._crew = [member.name for member in wanted.members]
            asks = [
                await open_shell(uut, member.name, build_taskset_prefix(member.cpus), loop=CREW_LOOP, own_session=False)
                for member in wanted.members
            ]
            macs = {link.name: link.mac for link in (await uut.ask(ReadLinks())).links if not link.namespace}
            pids = [(await uut.ask(GuestStatus(guest=member.name))).pid for member in wanted.members]
            address, mac = wanted.members[0].address, macs.get(wanted.port)
            members = tuple(
                StandingMember(
                    name=member.name,
                    ask=ask,
                    pid=pid,
                    address=address,
                    mac=mac,
                    disk=disks.path(member.name) if member.disk_mib else None,
                )
                for member, ask, pid in zip(wanted.members, asks, pids, strict=True)
            )

            async def attest(uut: AgentLink) -> Attestation:
                cpus = {member.name: await allowed_cpus(uut, member.ask) for member in members}
                return {"driver": "raw", "guests": [], "cpus": cpus}

            return Crew(
                members=members,
                started_ns=started_ns,
                attestation=await attest(uut),
                attest=attest,
                disks=below,
                own_stacks=False,
            )

    async def restore(self, uut: AgentLink) -> None:
        """Restore the changes of prepare() or prepare_crew()."""
        try:
            for name in (SECOND, *self._crew):
                await close_shell(uut, name)
            self._crew = []
        finally:
            await undo(uut, TOKEN)


DRIVER = RawDriver
