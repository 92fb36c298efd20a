"""What a NIC's own stamps are worth, by its clock beside the system's before and after."""

from __future__ import annotations

import pytest

from labconsole.measure.timing import add_nic_clock_bound, nic_stamps
from labconsole.model.record.extensions import CaptureStamps
from labconsole.wire.clocks import NicClock

BEGAN_NS = 1_795_846_725 * 10**9


def clock(ahead_ns: int, after_s: int = 0, error_ns: int = 600) -> NicClock:
    return NicClock(at_ns=BEGAN_NS + ahead_ns + after_s * 10**9, ahead_ns=ahead_ns, error_ns=error_ns)


TAI = 37 * 10**9
WITHIN = (BEGAN_NS + TAI + 10**9, BEGAN_NS + TAI + 2 * 10**9)


def test_a_clock_of_whole_seconds_ahead_is_of_another_time_scale_and_its_rest_is_the_bound() -> None:
    found = nic_stamps([clock(TAI + 40), clock(TAI - 90, 5)], None, WITHIN)
    assert found == CaptureStamps(seconds_ahead=37, clock_bound_ns=690)
    assert add_nic_clock_bound(1000, found) == 1690
    assert add_nic_clock_bound(None, found) is None
    assert add_nic_clock_bound(1000, None) == 1000


def test_a_clock_that_nothing_keeps_is_as_far_off_as_it_is() -> None:
    found = nic_stamps([clock(TAI + 300_000_000), clock(TAI + 300_050_000, 5)], None, [])
    assert (found.seconds_ahead, found.clock_bound_ns) == (37, 300_050_600)


@pytest.mark.parametrize(
    ("readings", "refused", "ends_ns", "words"),
    [
        ([clock(TAI)], None, WITHIN, "not read before and after"),
        ([clock(TAI)], "/dev/ptp0: Permission denied", WITHIN, "/dev/ptp0: Permission denied"),
        ([clock(TAI), clock(TAI, 5)], None, (WITHIN[0] - TAI, WITHIN[1]), "did not stamp all of them"),
        ([clock(TAI), clock(TAI - 5 * 10**9, 5)], None, WITHIN, "did not stamp all of them"),  # it stood still
    ],
)
def test_stamps_of_a_clock_that_was_not_seen_are_worth_no_delay(
    readings: list[NicClock], refused: str | None, ends_ns: tuple[int, int], words: str
) -> None:
    found = nic_stamps(readings, refused, ends_ns)
    assert (found.seconds_ahead, found.clock_bound_ns) == (None, None)
    assert words in (found.reason or "")
    assert add_nic_clock_bound(0, found) is None
