"""When a stream's packets arrived at the sink, and the forwarding rate over that window. Pure.

The rate is that of RFC 2285, section 3.6.1. Only the sink's clock is used, so no other clock has to agree with it.
Packets that a queue contains when the source stops arrive late, and would inflate the forwarding rate if they were
divided by the sending time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from labconsole.model.plan.search import QUEUED_S
from labconsole.model.record.run import Arrivals
from labconsole.wire.capture import CapturedStream

STAMP_RESOLUTION_S = 1e-9
"""tcpdump is set to record nanoseconds."""

Samples = Sequence[tuple[int, int]]
"""(time of the sink's monotonic clock in ns, packets that its NIC had received until then), in order of time."""


def build_capture_arrivals(streams: Sequence[CapturedStream], packets: int) -> Arrivals | None:
    """The window by the capture's own time stamps, or None unless it contains exactly the one stream's ``packets``, in
    order of time.
    """
    if not packets and not streams:
        return Arrivals(
            packets=0,
            window_s=0.0,
            window_from="capture",
            resolution_s=STAMP_RESOLUTION_S,
            late_packets=0,
            queued_packets=0,
        )
    if len(streams) != 1 or streams[0].packets != packets:
        return None
    first_ns, last_ns = streams[0].first_at_ns, streams[0].last_at_ns
    if first_ns is None or last_ns is None or last_ns < first_ns:
        return None
    return Arrivals(
        packets=packets,
        window_s=(last_ns - first_ns) / 1e9,
        window_from="capture",
        resolution_s=STAMP_RESOLUTION_S,
        late_packets=streams[0].late_packets,
        queued_packets=streams[0].queued_packets,
    )


def build_counter_arrivals(
    samples: Samples, packets: int, sending_s: float | None, captured: Sequence[CapturedStream] = ()
) -> Arrivals | None:
    """The window by samples of the sink's counter: from the first sample with a packet to the first with the last.

    None if the samples do not show all ``packets``, or the counter or its clock went back. ``captured``: the streams of
    a capture that missed packets; late packets in it are certainly late.
    """
    counts = [count for _, count in samples]
    if len(samples) < 2 or counts[-1] - counts[0] != packets or any(b < a for a, b in pairwise(counts)):
        return None
    if any(later_ns < at_ns for (at_ns, _), (later_ns, _) in pairwise(samples)):
        return None
    grown = [place for place in range(1, len(counts)) if counts[place] > counts[place - 1]]
    if not grown:
        return None
    first, last = grown[0], grown[-1]
    apart_ns = [samples[place][0] - samples[place - 1][0] for place in (first, last)]
    return Arrivals(
        packets=packets,
        window_s=(samples[last][0] - samples[first][0]) / 1e9,
        window_from="counters",
        resolution_s=max(apart_ns) / 1e9,
        late_packets=_lower_bound(_late(samples, first, sending_s, 0.0), captured, "late_packets"),
        queued_packets=_lower_bound(_late(samples, first, sending_s, QUEUED_S), captured, "queued_packets"),
    )


def _lower_bound(sampled: int | None, captured: Sequence[CapturedStream], name: str) -> int | None:
    """The certainly late packets by either witness, or None if it is open whether there are any."""
    captured_late = getattr(captured[0], name) or 0 if len(captured) == 1 else 0
    return max(sampled or 0, captured_late) if sampled is not None or captured_late else None


def _late(samples: Samples, first: int, sending_s: float | None, grace_s: float) -> int | None:
    """Packets that certainly arrived this late after the first one, or None if it is open whether there are any."""
    if sending_s is None:
        return None
    wait_ns = round((sending_s + grace_s) * 1e9)
    end = samples[-1][1]
    surely = end - next((count for at_ns, count in samples if at_ns >= samples[first][0] + wait_ns), end)
    perhaps = end - [count for at_ns, count in samples if at_ns <= samples[first - 1][0] + wait_ns][-1]
    return surely if surely or not perhaps else None


def forwarding_pps(arrivals: Arrivals | None, sending_s: float | None) -> float | None:
    """The packets over their window, never over less than the sending time: a unit that dies early is not flattered.

    N arrivals span N - 1 intervals. A window by samples counts only if it certainly exceeded the sending time. None if
    the window or the sending time is unknown, or fewer than two packets arrived.
    """
    if arrivals is None or arrivals.packets < 2 or not sending_s or sending_s <= 0:
        return None
    return arrivals.packets / (_spanned_s(arrivals) if window_decides(arrivals, sending_s) else sending_s)


def window_decides(arrivals: Arrivals, sending_s: float) -> bool:
    """Whether at least two packets provably arrived over a longer time than the sending time."""
    error_s = arrivals.resolution_s if arrivals.window_from == "counters" else 0.0
    return _spanned_s(arrivals, -error_s) > sending_s


def rate_error_ratio(arrivals: Arrivals | None, sending_s: float | None) -> float | None:
    """The possible relative error of the forwarding rate if its window is from samples and leaves it open.

    None if the rate is exact, because the window is a capture's or samples show that nothing was late, or if there is
    none.
    """
    rate_pps = forwarding_pps(arrivals, sending_s)
    if arrivals is None or sending_s is None or rate_pps is None or arrivals.window_from != "counters":
        return None
    if arrivals.late_packets == 0 and not window_decides(arrivals, sending_s):
        return None
    errors_s = (-arrivals.resolution_s, arrivals.resolution_s)
    ends_s = [max(sending_s, _spanned_s(arrivals, error_s)) for error_s in errors_s]
    return max(abs(arrivals.packets / end_s / rate_pps - 1) for end_s in ends_s)


def _spanned_s(arrivals: Arrivals, error_s: float = 0.0) -> float:
    return (arrivals.window_s + error_s) * arrivals.packets / (arrivals.packets - 1)
