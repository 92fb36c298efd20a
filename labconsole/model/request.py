"""What is asked of one trial, checked against a testbed before anything is touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from labconsole.errors import ConfigError
from labconsole.model.inventory import Inventory, Stream
from labconsole.units import bps_to_pps, delay_ns, format_rate_bps, format_target, pkt_size_bytes

Target = int | Literal["max"]
BACKGROUNDS = ("none", "idle", "light", "heavy", "forwarding-50", "forwarding-95")
FORWARDING_SHARES = {"forwarding-50": 0.5, "forwarding-95": 0.95}
"""The backgrounds that forward, and at which share of the platform's maximum."""

BACKGROUND_FRAME_BYTES = 64
"""Frames of the second guest's own stream, in the request's convention (method.md section 3)."""

GENERATORS = ("auto", "pktgen", "afpacket")
OBSERVE = ("quiet", "live")
MIN_PKT_SIZE_BYTES = 60
"""Shortest Ethernet frame without its frame check sequence."""

MAX_DURATION_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequest:
    """One design point. ``target_bps`` is bandwidth on the wire per source; "max" means no delay between packets."""

    platform: str
    frame_size_bytes: int
    sources: int
    target_bps: Target
    duration_s: float
    background: str = "none"
    frame_size_includes_fcs: bool = False
    generator: str = "auto"
    observe: str = "quiet"

    @property
    def pkt_size_bytes(self) -> int:
        """Frame size without the frame check sequence, as pktgen takes it."""
        return pkt_size_bytes(self.frame_size_bytes, includes_fcs=self.frame_size_includes_fcs)

    @property
    def delay_ns(self) -> int:
        """Inter-packet delay, 0 for the target max (method.md section 2)."""
        if self.target_bps == "max":
            return 0
        return delay_ns(self.frame_size_bytes, self.target_bps, includes_fcs=self.frame_size_includes_fcs)

    @property
    def intended_pps(self) -> float | None:
        """Packets per second and source that the delay asks for; None for the target max."""
        return None if self.delay_ns == 0 else 1e9 / self.delay_ns

    @property
    def intended_packets(self) -> int | None:
        """Packets per source that the delay asks for over the duration; None for the target max."""
        return None if self.delay_ns == 0 else round(self.duration_s * 1e9 / self.delay_ns)

    def line_rate_pps(self, stream: Stream) -> float:
        """Packets per second that fill the stream's link."""
        return bps_to_pps(stream.link_speed_bps, self.frame_size_bytes, includes_fcs=self.frame_size_includes_fcs)

    def describe(self) -> str:
        """One line for people: platform, size with its convention, sources, target, background, duration."""
        fcs = "with FCS" if self.frame_size_includes_fcs else "without FCS"
        plural = "source" if self.sources == 1 else "sources"
        return (
            f"{self.platform}, {self.frame_size_bytes} B {fcs}, {self.sources} {plural} at "
            f"{format_target(self.target_bps)} each, background {self.background}, {self.duration_s:g} s"
        )


def nodes_of(request: TrialRequest, inventory: Inventory) -> list[str]:
    """The UUT, and the sources and sinks of the streams that a request uses, a second guest's own included."""
    streams = list(inventory.streams[: request.sources])
    own = inventory.second_stream(request.sources) if request.background != "none" else None
    names = [inventory.uut]
    for stream in [*streams, own] if own is not None else streams:
        names += [stream.source.node, stream.sink.node]
    return list(dict.fromkeys(names))


def check_request(request: TrialRequest, inventory: Inventory, *, where: str = "") -> None:
    """Refuse what this testbed cannot be asked. Raises ConfigError with the value and what is allowed."""

    def refuse(key: str, message: str, value: object, allowed: str) -> None:
        raise ConfigError(message, key=where + (key.replace("_", "-") if where else key), value=value, allowed=allowed)

    if request.platform not in inventory.platforms:
        refuse("platform", "is not in the inventory", request.platform, ", ".join(inventory.platforms))
    if request.background not in BACKGROUNDS:
        refuse("background", "is not a background load", request.background, ", ".join(BACKGROUNDS))
    if request.generator not in GENERATORS:
        refuse("generator", "is not a generator", request.generator, ", ".join(GENERATORS))
    if request.observe not in OBSERVE:
        refuse("observe", "is not a way to observe", request.observe, ", ".join(OBSERVE))
    if not 1 <= request.sources <= len(inventory.streams):
        refuse(
            "sources", "the testbed has no such number of streams", request.sources, f"1 to {len(inventory.streams)}"
        )
    if request.background in FORWARDING_SHARES and inventory.second_stream(request.sources) is None:
        refuse(
            "background",
            "needs a stream for the second guest, and the trial takes all that the testbed has",
            request.background,
            ", ".join(kind for kind in BACKGROUNDS if kind not in FORWARDING_SHARES)
            + (", or fewer sources" if request.sources > 1 else ""),
        )
    if not 0 < request.duration_s <= MAX_DURATION_S:
        refuse("duration", "is out of range", request.duration_s, f"more than 0, at most {MAX_DURATION_S:g} s")
    if request.pkt_size_bytes < MIN_PKT_SIZE_BYTES:
        minimum = MIN_PKT_SIZE_BYTES + (request.frame_size_bytes - request.pkt_size_bytes)
        refuse("frame_size", "is shorter than an Ethernet frame can be", request.frame_size_bytes, f"{minimum} or more")
    for stream in inventory.streams[: request.sources]:
        if request.target_bps != "max" and request.target_bps > stream.link_speed_bps:
            refuse(
                "target",
                f"is above the line rate of stream {stream.name}",
                format_target(request.target_bps),
                f"at most {format_rate_bps(stream.link_speed_bps)} "
                f"({request.line_rate_pps(stream):.0f} packets/s at this frame size), or max",
            )
    if request.target_bps != "max" and (request.target_bps < 1 or not request.intended_packets):
        # A count of 0 is pktgen's word for "without end".
        refuse(
            "target",
            f"sends no packet of {request.frame_size_bytes} B in {request.duration_s:g} s",
            format_target(request.target_bps),
            "one packet or more; a longer duration makes room for it",
        )
