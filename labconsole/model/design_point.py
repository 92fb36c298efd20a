"""A design point: the factors of one forwarding trial. No other module knows what they are.

Two conventions for the *frame size* s exist (docs/method.md, "Frame size, bandwidth and gap"; RFC 1242 section 3.5):

- the paper's: s is pktgen's ``pkt_size``, without the 4-byte frame check sequence; the wire adds 24 bytes;

- RFC 2544's: s includes the frame check sequence; the wire adds 20 bytes.

Bandwidth is always bandwidth on the wire (layer 1). Packets per second is canonical. Records, tables of the store, CSV
and JSON keep flat names for the factors: ``columns`` writes them and ``from_columns`` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from labconsole.units import format_target, format_target_within

Target = int | Literal["max"]
"""Bit/s on the wire per source; "max": no delay between packets."""

TargetWish = Target | Literal["1ns"]
"""A target as a person enters it. "1ns": a delay of 1 ns, the shortest; pktgen handles it on another path than no delay
(Schlosser et al. section 3.3).
"""

BACKGROUNDS = ("none", "idle", "light", "heavy", "forwarding-50", "forwarding-95")
FORWARDING_SHARES = {"forwarding-50": 0.5, "forwarding-95": 0.95}
"""The backgrounds that forward, and their share of the platform's maximum."""

BACKGROUND_FRAME_BYTES = 64
"""Frame size of the second guest's own stream, in the convention of the design point (docs/background.md)."""

INCLUDES_FCS = "frame_size_includes_fcs"
"""The flat name of the convention in records, plans and tables."""

OBSERVE = ("quiet", "live")
FCS_BYTES = 4
"""Frame check sequence."""

PREAMBLE_AND_GAP_BYTES = 20
"""Preamble and start delimiter (8) plus the inter-frame gap (12)."""

MIN_PKT_SIZE_BYTES = 60
"""Shortest Ethernet frame without its frame check sequence."""

MAX_DURATION_S = 86400.0


@dataclass(frozen=True, slots=True, order=True)
class FrameSize:
    """A frame size and the convention it was given in."""

    bytes: int
    includes_fcs: bool = False

    @property
    def pkt_size_bytes(self) -> int:
        """The size that pktgen and the kernel use: without the frame check sequence."""
        return self.bytes - (FCS_BYTES if self.includes_fcs else 0)

    @property
    def wire_bytes(self) -> int:
        """Bytes that one frame occupies on the wire: s + 24 (paper) or s + 20 (RFC 2544)."""
        return self.bytes + PREAMBLE_AND_GAP_BYTES + (0 if self.includes_fcs else FCS_BYTES)

    def delay_ns(self, bandwidth_bps: int) -> int:
        """Inter-packet delay for a bandwidth on the wire, rounded to the nearest nanosecond.

        The paper's formula (Schlosser et al. section 3.3): delay = 8000 (s + 24) / b with b in Mbit/s.
        """
        if bandwidth_bps <= 0:
            raise ValueError(f"bandwidth_bps must be positive, got {bandwidth_bps}")
        return round(Fraction(8 * 10**9 * self.wire_bytes, bandwidth_bps))

    def rate_bps(self, rate_pps: float) -> float:
        """Bandwidth on the wire of a packet rate."""
        return rate_pps * 8 * self.wire_bytes

    def rate_pps(self, bandwidth_bps: float) -> float:
        """Packet rate of a bandwidth on the wire. 64 bytes with FCS at 10 Gbit/s is 14 880 952 pps."""
        return bandwidth_bps / (8 * self.wire_bytes)

    @property
    def shortest_delay_bps(self) -> int:
        """The bandwidth that corresponds to a delay of 1 ns, which no link has: 8·10⁹ times the bytes on the wire."""
        return 8 * 10**9 * self.wire_bytes

    def target(self, wish: TargetWish) -> Target:
        """The requested target at this size, with "1ns" converted to its bandwidth."""
        return self.shortest_delay_bps if wish == "1ns" else wish

    def wish(self, target: Target) -> TargetWish:
        """A target as a person enters it: the reverse of ``target``."""
        return "1ns" if target == self.shortest_delay_bps else target

    @property
    def convention(self) -> str:
        """Whether the size includes the frame check sequence, as text."""
        return "with FCS" if self.includes_fcs else "without FCS"

    def words(self) -> str:
        """``64 B without FCS``."""
        return f"{self.bytes} B {self.convention}"

    def columns(self) -> dict[str, Any]:
        """The size and its convention under the flat names of records and files."""
        return {"frame_size_bytes": self.bytes, INCLUDES_FCS: self.includes_fcs}


def format_target_per_source(target_bps: Target | None, frame: FrameSize | None, *, cells: int | None = None) -> str:
    """A target per source as a person enters it, rounded if ``cells`` are too few. None is max; no ``frame``: a mix."""
    target = "max" if target_bps is None else target_bps
    wish = target if frame is None else frame.wish(target)
    return format_target(wish) if cells is None else format_target_within(wish, cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignPoint:
    """The requested factors of one trial."""

    platform: str
    frame: FrameSize
    sources: int
    target: Target
    duration_s: float
    background: str = "none"
    generator: str = "auto"
    observe: str = "quiet"

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> DesignPoint:
        """The design point of a record or row with the flat names; other keys are ignored."""
        return cls(
            platform=columns["platform"],
            frame=FrameSize(columns["frame_size_bytes"], columns[INCLUDES_FCS]),
            sources=columns["sources"],
            target=columns["target_bps"],
            duration_s=columns["duration_s"],
            background=columns["background"],
            generator=columns["generator"],
            observe=columns["observe"],
        )

    def columns(self) -> dict[str, Any]:
        """The factors under the flat names of records and files."""
        return {
            "platform": self.platform,
            "frame_size_bytes": self.frame.bytes,
            "sources": self.sources,
            "target_bps": self.target,
            "duration_s": self.duration_s,
            "background": self.background,
            INCLUDES_FCS: self.frame.includes_fcs,
            "generator": self.generator,
            "observe": self.observe,
        }

    def setting(self) -> DesignPoint:
        """All factors but the target: this point at target max."""
        return replace(self, target="max")

    def loadless(self) -> DesignPoint:
        """The configuration that a search finds loads for, without target and duration."""
        return replace(self, target="max", duration_s=1.0)

    def meaning(self) -> list[object]:
        """The values that the hash of a plan without a matrix covers."""
        return [
            self.platform,
            self.background,
            self.sources,
            self.frame.bytes,
            self.target,
            float(self.duration_s),
            self.frame.includes_fcs,
            self.generator,
            self.observe,
        ]

    @property
    def delay_ns(self) -> int:
        """Inter-packet delay, 0 for the target max (docs/method.md, "Frame size, bandwidth and gap")."""
        return 0 if self.target == "max" else self.frame.delay_ns(self.target)

    @property
    def wish(self) -> TargetWish:
        """The target as a person enters it: a delay of 1 ns by its name."""
        return self.frame.wish(self.target)

    @property
    def paced_bps(self) -> int | None:
        """The target of a paced source, or None if it sends as fast as it can: without a delay, or with one of 1 ns."""
        return None if self.target == "max" or self.wish == "1ns" else self.target

    @property
    def intended_pps(self) -> float | None:
        """Packets per second and source that the delay asks for, or None if the source sends as fast as it can, or at a
        pace that is impossible: others' leases and records may state any.
        """
        return None if self.paced_bps is None or not self.delay_ns else 1e9 / self.delay_ns

    @property
    def intended_packets(self) -> int | None:
        """Packets per source that the delay gives over the duration, or None where ``intended_pps`` is None."""
        return None if self.paced_bps is None or not self.delay_ns else round(self.duration_s * 1e9 / self.delay_ns)

    def words(self) -> str:
        """One line for people: platform, size with its convention, sources, target, background, duration."""
        return (
            f"{self.platform}, {self.frame.words()}, {self.sources_text} at {format_target(self.wish)} each, "
            f"background {self.background}, {self.duration_s:g} s"
        )

    def format_without_load(self) -> str:
        """One line for people, without target and duration."""
        return f"{self.platform}, {self.frame.words()}, {self.sources_text}, background {self.background}"

    @property
    def sources_text(self) -> str:
        """``1 source``, ``3 sources``."""
        return f"{self.sources} source" + ("" if self.sources == 1 else "s")
