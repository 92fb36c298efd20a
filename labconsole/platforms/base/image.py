"""The interface of the forwarding image for drivers that boot it (``lab/guests/guest_image.py`` builds one).

It reads the streams to forward from its kernel command line, prints READY on its console, and then runs the lines it
receives there. So a guest needs no address, no SSH and no disk, and ends with the agent that started it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from labconsole.contracts.driver import Attestation, PathPoint, StreamPath, StreamWiring
from labconsole.contracts.ports import AgentLink
from labconsole.errors import NodeError
from labconsole.network.change import NetworkChange
from labconsole.network.links import Bridge, Tap
from labconsole.platforms.base.guest_shell import DONE, READY, close_shell
from labconsole.wire.execution import Execute
from labconsole.wire.guests import AskGuest, GuestStatus

ASK_S = 10.0
FIRST, SECOND = "first", "second"
HEAVY_MIB = 1536
"""Memory for ``stress --cpu 8 --vm 4``, four times 256 MiB, and the rest of a guest."""

_ALLOWED_CPUS = re.compile(r"^Cpus_allowed_list:\s*([\d,-]{1,200})$", re.MULTILINE)
_SEEN = re.compile(rf"{READY} (\S{{1,100}}) (\d{{1,5}})")


@dataclass(frozen=True, slots=True)
class TapNic:
    """One NIC of a guest: the tap on the UUT and the MAC inside."""

    tap: str
    mac: str


class Bootable(Protocol):
    """A guest that boots the image. ``ends``: its NICs, each with the UUT's NIC that it reaches.
    ``cpus``, ``memory_mib``: None means the platform's default.
    """

    @property
    def name(self) -> str: ...
    @property
    def ends(self) -> Sequence[tuple[TapNic, str]]: ...
    @property
    def image_arguments(self) -> str: ...
    @property
    def cpus(self) -> str | None: ...
    @property
    def memory_mib(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class BootedGuest:
    """A guest and the streams that pass it. ``after``: number of streams of other guests, whose NICs come before."""

    name: str
    wirings: tuple[StreamWiring, ...]
    after: int = 0
    cpus: ClassVar[None] = None
    memory_mib: ClassVar[None] = None

    @property
    def nics(self) -> list[tuple[TapNic, TapNic]]:
        return guest_nics(self.wirings, self.after)

    @property
    def ends(self) -> list[tuple[TapNic, str]]:
        return [
            end
            for wiring, (inbound, outbound) in zip(self.wirings, self.nics, strict=True)
            for end in ((inbound, wiring.uut_in), (outbound, wiring.uut_out))
        ]

    @property
    def image_arguments(self) -> str:
        return build_kernel_arguments(self.wirings, self.after)

    def changes(self) -> list[NetworkChange]:
        """A tap for each of its NICs, bridged to the UUT's NIC on that side."""
        changes: list[NetworkChange] = []
        for nic, port in self.ends:
            changes += [Tap(name=nic.tap), Bridge(name=f"lcb{nic.tap[3:]}", ports=[port, nic.tap])]
        return changes

    def paths(self) -> dict[str, StreamPath]:
        return {
            wiring.name: StreamPath(
                destination_mac=inbound.mac,
                points=(
                    PathPoint("uut_in", "", wiring.uut_in, "rx_packets"),
                    PathPoint("to_guest", "", inbound.tap, "tx_packets"),
                    PathPoint("from_guest", "", outbound.tap, "rx_packets"),
                    PathPoint("uut_out", "", wiring.uut_out, "tx_packets"),
                ),
            )
            for wiring, (inbound, outbound) in zip(self.wirings, self.nics, strict=True)
        }


def booted_guests(wirings: Sequence[StreamWiring], second: Sequence[StreamWiring] | None) -> list[BootedGuest]:
    """The guest under test, and the second one if requested."""
    guests = [BootedGuest(FIRST, tuple(wirings))]
    return guests if second is None else [*guests, BootedGuest(SECOND, tuple(second), after=len(wirings))]


def guest_nics(wirings: Sequence[StreamWiring], after: int = 0) -> list[tuple[TapNic, TapNic]]:
    """The inbound and outbound NIC for every stream. No MAC is that of a bridge port: such frames never arrive."""
    return [
        (
            TapNic(f"lcti{index}", f"02:6c:67:00:{index:02x}:01"),
            TapNic(f"lcto{index}", f"02:6c:67:00:{index:02x}:02"),
        )
        for index in range(after + 1, after + len(wirings) + 1)
    ]


def build_kernel_arguments(wirings: Sequence[StreamWiring], after: int = 0) -> str:
    """The image's arguments: per stream the two MACs, the two test addresses, the sink's MAC."""
    return " ".join(
        f"lc.stream={inbound.mac},{outbound.mac},{w.source_ip},{w.sink_ip},{w.sink_mac.lower()}"
        for w, (inbound, outbound) in zip(wirings, guest_nics(wirings, after), strict=True)
    )


async def read_guest_facts(uut: AgentLink, guest: str) -> tuple[str, int] | None:
    """The guest's own report of its kernel and its number of processors, or None without one."""
    ask = AskGuest(guest=guest, line=f"echo {READY} $(uname -r) $(nproc)", until=DONE, timeout_s=ASK_S)
    found = _SEEN.findall((await uut.ask(ask)).printed)
    return (found[-1][0], int(found[-1][1])) if found else None


async def attest_guest(uut: AgentLink, platform: str, name: str, pid: int) -> Attestation:
    """The facts that a guest, the process ``pid``, reports, and its allowed CPUs.

    Raises NodeError if it is another process, or none.
    """
    status = await uut.ask(GuestStatus(guest=name))
    if not status.running or status.pid != pid:
        raise NodeError(uut.name, f"the {name} guest of platform {platform} is no longer the one that was started")
    seen = await read_guest_facts(uut, name)
    read = await uut.ask(Execute(argv=["cat", f"/proc/{pid}/status"], timeout_s=5))
    allowed = _ALLOWED_CPUS.search(read.stdout)
    return {
        "guest_kernel": seen[0] if seen else None,
        "vcpus": seen[1] if seen else None,
        "host_cpus": allowed[1] if allowed else None,
    }


async def end(uut: AgentLink) -> None:
    """End the guests; does nothing if they have ended."""
    for name in (SECOND, FIRST):
        await close_shell(uut, name)
