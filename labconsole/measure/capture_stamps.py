"""The accuracy of a NIC's own time stamps relative to the system's clock. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.model.record.capture_stamps import EXTENSION, CaptureStamps
from labconsole.model.record.extension import read_extension
from labconsole.model.record.run import StreamRecord
from labconsole.wire.clocks import NicClock

SECOND_NS = 10**9


def nic_stamps(readings: Sequence[NicClock], refused: str | None, ends_ns: Sequence[int | None]) -> CaptureStamps:
    """Derive it from the NIC's clock before and after. ``ends_ns``: the first and the last stamp of the capture."""

    def unknown(why: str) -> CaptureStamps:
        return CaptureStamps(seconds_ahead=None, clock_bound_ns=None, reason=why)

    if refused is not None or len(readings) != 2:
        return unknown(refused or "its clock was not read before and after")
    before, after = readings
    if any(at is not None and not before.at_ns <= at <= after.at_ns for at in ends_ns):
        return unknown("frames have times that its clock did not have meanwhile, so it did not stamp all of them")
    seconds = round(before.ahead_ns / SECOND_NS)
    bound_ns = max(abs(each.ahead_ns - seconds * SECOND_NS) + each.error_ns for each in readings)
    return CaptureStamps(seconds_ahead=seconds, clock_bound_ns=bound_ns)


def add_nic_clock_bound(clocks_ns: int | None, stamps: CaptureStamps | None) -> int | None:
    """The bound between a source's clock and the one that stamped the capture, from the bound to the sink's clock."""
    if stamps is None or clocks_ns is None:
        return clocks_ns
    return None if stamps.clock_bound_ns is None else clocks_ns + stamps.clock_bound_ns


def stamps_sentence(stream: StreamRecord) -> str | None:
    """The source of a capture's time stamps, or None if it was the kernel."""
    stamps = read_extension(stream.extensions, EXTENSION, CaptureStamps)
    if stamps is None:
        return None
    if stamps.clock_bound_ns is None:
        return f"captured frames are stamped by the sink's NIC; {' '.join((stamps.reason or '').split())}"
    ahead = f", {stamps.seconds_ahead} s ahead" if stamps.seconds_ahead else ""
    return f"captured frames are stamped by the sink's NIC, to {stamps.clock_bound_ns} ns by the sink's clock{ahead}"
