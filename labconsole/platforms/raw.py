"""``raw``: no virtualization. The UUT's own kernel forwards, by routing or by bridging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labconsole.engine.driver import PathPoint, Prepared, StreamPath, StreamWiring
from labconsole.engine.ports import AgentLink
from labconsole.errors import ConfigError
from labconsole.platforms.forwarding import read_state, restored_on_failure, route_changes, undo

TOKEN = "platform"


class RawDriver:
    """Options: ``forwarding: route`` (default) or ``bridge``."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        unknown = sorted(set(options) - {"forwarding"})
        if unknown:
            raise ConfigError(
                "is not an option of driver raw", key=f"platforms.{name}.{unknown[0]}", allowed="forwarding"
            )
        self.forwarding = options.get("forwarding", "route")
        if self.forwarding not in ("route", "bridge"):
            raise ConfigError(
                "is not a way to forward",
                key=f"platforms.{name}.forwarding",
                value=self.forwarding,
                allowed="route, bridge",
            )

    def _changes(self, wirings: Sequence[StreamWiring]) -> list[dict[str, Any]]:
        changes: list[dict[str, Any]] = []
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
                changes.append(
                    {"do": "bridge", "name": f"lcb{index}", "ports": [wiring.uut_in, wiring.uut_out], "namespace": ""}
                )
        return changes

    async def prepare(self, uut: AgentLink, wirings: Sequence[StreamWiring]) -> Prepared:
        """Switch forwarding on for the streams' interfaces."""
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

        async def attest(uut: AgentLink) -> dict[str, Any]:
            routed = self.forwarding == "route"
            interfaces = await read_state(uut, routing={"": nics} if routed else {}, ports=() if routed else nics)
            return {"driver": "raw", "forwarding": self.forwarding, "guests": [], "interfaces": interfaces}

        async with restored_on_failure(self.restore, uut):
            await uut.request("net.apply", {"token": TOKEN, "changes": self._changes(wirings)})
            return Prepared(paths=paths, attestation=await attest(uut), attest=attest)

    async def restore(self, uut: AgentLink) -> None:
        """Put back what prepare() changed."""
        await undo(uut, TOKEN)
