"""The calibrated envelope of a testbed, format 1: the limits of its generators, sinks and captures.

It is measured with the unit under test bypassed, so that none of it is the UUT's (docs/calibration.md explains every
field). The non-obvious decision: bounds are measured trials, the highest rate without loss and the lowest with loss,
never a value between two trials. None means "not known" or "not reached", and each field says which.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ValidationError

from labconsole.errors import StoreError
from labconsole.model.design_point import FrameSize
from labconsole.model.strict_model import StrictModel
from labconsole.wire.facts import NodeFacts

FORMAT = 1
"""Incremented when an older reader would misread a newer envelope."""

PEAK_WINDOWS_MS = (1, 10, 100)

TargetBps = int | Literal["max"]


class Gaps(StrictModel):
    """Time between neighbouring arrivals at the sink."""

    min: int
    mean: float
    p50: int
    p99: int
    max: int


class Spacing(StrictModel):
    """How evenly frames arrived. ``burst_packets``: the longest sequence of frames less than 0.9 of the intended gap
    apart.

    ``peak_pps``: the highest rate in any window of 1, 10 and 100 ms, or None if the traffic was shorter. ``packets``:
    frames examined, from the first on. ``verdict`` is None if there is no pace to keep (target max).
    """

    target_bps: TargetBps
    intended_gap_ns: int | None
    packets: int
    gap_ns: Gaps
    burst_packets: int
    peak_pps: dict[str, float | None]
    verdict: Literal["constant rate", "microbursts"] | None


class RatePoint(StrictModel):
    """One target: the requested rate, the generator's report, and the arrivals by the sink's time stamps.

    ``*_error_ratio`` = rate / intended - 1.
    """

    target_bps: int
    intended_pps: float
    offered_pps: float | None
    offered_error_ratio: float | None
    arrival_pps: float | None
    arrival_error_ratio: float | None


class Bounds(StrictModel):
    """Highest offered rate without loss below the lowest with loss. ``lossy_pps`` is None if no trial lost anything."""

    clean_pps: float | None
    lossy_pps: float | None


class StreamEnvelope(StrictModel):
    """One source and its sink at one frame size, with the point's number of sources sending at once.

    ``maximum_pps`` is the rate of the weaker trial at target max, ``maximum_best_pps`` of the stronger: if they are far
    apart, the machine was busy. ``maximum_confirmed``: the generator's own count, its NIC's and the sink's agreed in
    all of them.
    """

    stream: str
    source: str
    sink: str
    generator: str
    generator_version: str | None
    maximum_pps: float | None
    maximum_best_pps: float | None
    maximum_confirmed: bool
    rates: tuple[RatePoint, ...]
    counters: Bounds
    capture: Bounds
    spacing: tuple[Spacing, ...]


class TrialCounts(StrictModel):
    """The counts of one stream in one calibration trial."""

    stream: str
    offered_packets: int | None
    offered_pps: float | None
    source_tx_packets: int | None
    sink_rx_packets: int | None
    captured_packets: int | None
    capture_dropped_packets: int | None
    capture_complete: bool | None


class CalibrationTrial(StrictModel):
    """One trial, in the order taken. ``failure``: why it was discarded, else None."""

    target_bps: TargetBps
    purpose: Literal["maximum", "rate", "search"]
    streams: tuple[TrialCounts, ...]
    failure: str | None


class EnvelopePoint(StrictModel):
    """One frame size with one number of sources at once."""

    frame_size_bytes: int
    frame_size_includes_fcs: bool
    sources: int
    streams: tuple[StreamEnvelope, ...]
    trials: tuple[CalibrationTrial, ...]

    @property
    def frame(self) -> FrameSize:
        """The frame size in its convention; points are compared by the size without the frame check sequence."""
        return FrameSize(self.frame_size_bytes, self.frame_size_includes_fcs)

    def most_offered_pps(self, stream: str) -> float | None:
        """The maximum offered rate of a stream's source at target max, counted like the offered rate of the sink's
        bounds.

        ``maximum_pps`` is lower if the sink's NIC missed packets. None if no such trial counted any.
        """
        offered = [
            counts.offered_pps
            for trial in self.trials
            if trial.target_bps == "max" and trial.failure is None
            for counts in trial.streams
            if counts.stream == stream and counts.offered_pps is not None
        ]
        return max(offered, default=None)


class NodeVersions(StrictModel):
    """Software versions of a node when it was calibrated; another kernel or driver voids the calibration."""

    kernel: str | None
    os: str | None
    tcpdump: str | None
    cpus: int | None
    drivers: dict[str, str | None]


class BypassProof(StrictModel):
    """Proof that the UUT was bypassed: marked frames sent, arrived, and seen meanwhile by the UUT's data NICs."""

    stream: str
    sent_packets: int
    captured_packets: int
    uut_rx_packets: int
    uut_tx_packets: int


class Envelope(StrictModel):
    """One calibration of one testbed."""

    format: int = FORMAT
    calibration_id: str
    started_at: str
    finished_at: str
    testbed: str
    testbed_fingerprint: str
    emulated: bool
    operator: str
    labconsole_version: str
    bypass: Literal["lab", "patched", "inventory"]
    proof: tuple[BypassProof, ...]
    generator: str
    duration_s: float
    capture_buffer_kib: int
    cut_short: bool
    """The time limit ended the search for bounds before they were as close as required."""
    nodes: dict[str, NodeVersions]
    points: tuple[EnvelopePoint, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return self.model_dump(mode="json")

    def void_reason(
        self, fingerprint: str, nodes: Mapping[str, NodeVersions], capture_buffer_kib: int | None = None
    ) -> str | None:
        """Why this calibration does not apply to the current testbed, or None if it does, as far as known."""
        if fingerprint != self.testbed_fingerprint:
            return f"hosts.yaml has changed: fingerprint {fingerprint}, calibrated {self.testbed_fingerprint}"
        for name, now in nodes.items():
            then = self.nodes.get(name)
            if then is None:
                continue
            if then.kernel != now.kernel:
                return f"the kernel of {name} is {now.kernel}, calibrated with {then.kernel}"
            for interface, driver in then.drivers.items():
                if interface in now.drivers and now.drivers[interface] != driver:
                    return f"the driver of {name}/{interface} is {now.drivers[interface]}, calibrated with {driver}"
        if capture_buffer_kib is not None and capture_buffer_kib != self.capture_buffer_kib:
            return f"the capture buffer is {capture_buffer_kib} KiB, calibrated with {self.capture_buffer_kib}"
        return None

    def point_for(self, frame_bytes: int, sources: int) -> EnvelopePoint | None:
        """The point that bounds a frame size without FCS and a number of sources, or None outside the calibrated range.

        Between calibrated sizes and numbers the next larger one counts: its maximum is the lower of the two.
        """
        covering = [p for p in self.points if p.frame.pkt_size_bytes >= frame_bytes and p.sources >= sources]
        return min(covering, key=lambda p: (p.frame.pkt_size_bytes, p.sources), default=None)


def parse_envelope(data: Mapping[str, Any]) -> Envelope:
    """Parse an envelope from the store. Raises StoreError naming the unreadable part."""
    found = data.get("format")
    if isinstance(found, int) and found > FORMAT:
        raise StoreError(f"the calibration has format {found}; this version of labconsole reads formats up to {FORMAT}")
    try:
        return Envelope.model_validate(data)
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreError(f"the calibration cannot be read: {where}: {first['msg']}") from None


def node_versions(facts: NodeFacts | None, drivers: Mapping[str, str | None]) -> NodeVersions:
    """The facts and interface drivers of a node that a calibration depends on."""
    return NodeVersions(
        kernel=facts.kernel if facts is not None else None,
        os=facts.os if facts is not None else None,
        tcpdump=facts.tcpdump if facts is not None else None,
        cpus=facts.cpus if facts is not None else None,
        drivers={name: driver or None for name, driver in drivers.items()},
    )
