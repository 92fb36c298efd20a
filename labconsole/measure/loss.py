"""Loss arithmetic of one trial. Pure: counts in, numbers out; unknown stays None."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from labconsole.model.record import Capture


def loss_packets(offered_packets: int | None, measured_packets: int | None) -> int | None:
    """Offered minus measured; negative when more arrived than was sent, which makes a run invalid."""
    if offered_packets is None or measured_packets is None:
        return None
    return offered_packets - measured_packets


def loss_ratio(offered_packets: int | None, lost_packets: int | None) -> float | None:
    """Frame loss ratio, RFC 2544 section 26.3 as a ratio over what was *offered*. None when nothing was offered."""
    if not offered_packets or lost_packets is None:
        return None
    return lost_packets / offered_packets


def rate_pps(packets: int | None, duration_s: float | None) -> float | None:
    """Packets over a duration; None when either is not known or no time passed."""
    if packets is None or not duration_s or duration_s <= 0:
        return None
    return packets / duration_s


def choose_measured(
    capture: Capture | None, sink_rx_packets: int | None
) -> tuple[int | None, Literal["capture", "counters"] | None]:
    """Packets that arrived, and the witness: the capture when it is complete, else the sink's counter (design 3.3)."""
    if capture is not None and capture.complete:
        return capture.captured_packets, "capture"
    if sink_rx_packets is not None:
        return sink_rx_packets, "counters"
    return None, None


def total(values: Iterable[int | None]) -> int | None:
    """Sum of counts; None when one of them is not known or there are none."""
    known = list(values)
    if not known or any(v is None for v in known):
        return None
    return sum(v for v in known if v is not None)


def total_rate(values: Iterable[float | None]) -> float | None:
    """Sum of rates; None when one of them is not known or there are none."""
    known = list(values)
    if not known or any(v is None for v in known):
        return None
    return sum(v for v in known if v is not None)
