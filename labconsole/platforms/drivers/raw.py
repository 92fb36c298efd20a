"""``raw``: no virtualization. The UUT's own kernel forwards, by routing or by bridging.

There is no guest, so the "second guest" is the host itself: load runs on the kernel that forwards, and a second stream
is forwarded by it as the first one is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

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
from labconsole.network.bridge import Bridge
from labconsole.network.change import NetworkChange
from labconsole.platforms.base.forwarding import (
    apply,
    read_state,
    restored_on_failure,
    route_changes,
    shell_lines,
    undo,
)
from labconsole.platforms.base.inside import allowed_cpus, close_shell, shell_as_guest
from labconsole.platforms.base.options import Cpus, read_options

TOKEN = "platform"
SECOND = "host"


class RawOptions(BaseModel):
    """How the UUT forwards by itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    forwarding: Literal["route", "bridge"] = "route"
    second_cpu: Cpus | None = Field(default=None, description="the CPUs that background load may run on")


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

    def refusal(self, background: str) -> str | None:
        """None: whatever a guest could do, the host can."""
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
        """What prepare() does on the UUT, as lines of a shell."""
        return shell_lines(self._changes([*wirings, *(second or ())]))

    async def prepare(
        self, uut: AgentLink, wirings: Sequence[StreamWiring], *, second: Sequence[StreamWiring] | None = None
    ) -> Prepared:
        """Switch forwarding on for the streams' interfaces; with a ``second``, open a shell for its load."""
        wirings = [*wirings, *(second or ())]
        paths = {
            wiring.name: StreamPath(
                # A router is addressed itself; through a bridge the frame is addressed to the sink.
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

    async def restore(self, uut: AgentLink) -> None:
        """Put back what prepare() changed."""
        try:
            await close_shell(uut, SECOND)
        finally:
            await undo(uut, TOKEN)


DRIVER = RawDriver
