"""Decides whether a rate is the unit under test's, or partly that of a queue that emptied after sending had ended."""

from __future__ import annotations

from dataclasses import dataclass

from labconsole.measure.arrivals import rate_error_ratio
from labconsole.model.plan.search import QUEUED_S
from labconsole.model.record.run import Figures, StreamRecord

LATE_RATIO = 0.01
"""The share of arrivals that may be late without a doubt."""

COARSE_RATIO = 0.01
"""The share of the forwarding rate above which the uncertainty from sampling is too large."""


@dataclass(frozen=True, slots=True)
class Coarse:
    """A forwarding rate that samples of a counter determine only within this share of it."""

    rate_error_ratio: float
    resolution_s: float

    @property
    def sentence(self) -> str:
        """Readable description."""
        return (
            f"the forwarding rate is known to \u00b1 {self.rate_error_ratio:.1%}: samples of the sink's counter, "
            f"{self.resolution_s:.3g} s apart, are all that shows when packets arrived"
        )

    @property
    def figures(self) -> Figures:
        """The evidence for a reason."""
        return {"rate_error_ratio": self.rate_error_ratio, "resolution_s": self.resolution_s}


def coarse(record: StreamRecord) -> Coarse | None:
    """How coarsely the forwarding rate is known, or None if it is known well, or not at all."""
    arrivals = record.arrivals
    error_ratio = rate_error_ratio(arrivals, record.offered_duration_s)
    if arrivals is None or error_ratio is None or error_ratio <= COARSE_RATIO:
        return None
    return Coarse(error_ratio, arrivals.resolution_s)


@dataclass(frozen=True, slots=True)
class QueueDrain:
    """Packets that arrived after the last one was sent: the contents of the path's buffers in packets and seconds."""

    late_packets: int
    packets: int
    buffer_s: float
    window_from: str

    @property
    def sentence(self) -> str:
        """Readable description."""
        return (
            f"{self.late_packets} of {self.packets} packets arrived late, the last {self.buffer_s:.3f} s after "
            f"sending had ended: a buffer on the path delayed them, and the trial is short compared with it"
        )

    @property
    def figures(self) -> Figures:
        """The evidence for a reason."""
        return {
            "late_packets": self.late_packets,
            "packets": self.packets,
            "buffer_s": self.buffer_s,
            "window_from": self.window_from,
        }


def find_queue_drain(record: StreamRecord) -> QueueDrain | None:
    """The late packets if they are more than a momentary queue, or None if they are not or nothing is known."""
    arrivals, sending_s = record.arrivals, record.offered_duration_s
    if arrivals is None or arrivals.late_packets is None or sending_s is None:
        return None
    buffer_s = arrivals.window_s - sending_s
    if arrivals.late_packets <= LATE_RATIO * arrivals.packets or buffer_s <= QUEUED_S:
        return None
    return QueueDrain(arrivals.late_packets, arrivals.packets, buffer_s, arrivals.window_from)
