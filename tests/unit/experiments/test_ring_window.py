"""The window of a ring: it begins once all guests send, and is none where the first would end within it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from labconsole.experiments.flow.live_view import SendingWatch
from labconsole.experiments.flow.ring import BEGUN_BYTES, LEAD_S, LONGER_S, RingGuest, RingMeasurement
from labconsole.measure.counts import CounterSample
from labconsole.wire.codec import STAT_NAMES

RX = STAT_NAMES.index("rx_bytes")
GUESTS = [
    RingGuest(name=name, to="", address="", next_address="", mac="", host_interface=name) for name in ("g1", "g2")
]


def window(monkeypatch: pytest.MonkeyPatch, begins_s: dict[str, float]) -> Any:
    """What is counted where each guest begins so long after the first look."""
    now_s = [100.0]

    async def sleep(seconds: float) -> None:
        now_s[0] += seconds

    async def snapshot() -> Any:
        def sample(name: str) -> CounterSample:
            values = [0] * len(STAT_NAMES)
            values[RX] = BEGUN_BYTES * max(0, int(now_s[0] >= 100 + begins_s[name]))
            return CounterSample(round(now_s[0] * 1e9), tuple(values))

        return {("", name): sample(name) for name in begins_s}

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    taking = object.__new__(RingMeasurement)
    monkeypatch.setattr(taking, "_snapshot", snapshot)
    none = {("", name): CounterSample(0, (0,) * len(STAT_NAMES)) for name in begins_s}
    watch = SendingWatch({1: "g1"})
    watch._begun_ns = 100 * 10**9
    found = asyncio.run(taking._count(GUESTS, none, 10.0, watch))
    marks = watch.shown().moments
    assert [words for _, words in marks] == (["the window begins", "it ends"] if found[0] else [])
    assert not found[0] or marks[0][0] == pytest.approx(found[0]["", "g1"].monotonic_ns / 1e9 - 100, abs=0.001)
    return found


def test_it_begins_a_while_after_the_last_and_is_as_long_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = window(monkeypatch, {"g1": 0.0, "g2": 2.0})
    begin_s, end_s = (each["", "g1"].monotonic_ns / 1e9 for each in (before, after))
    assert begin_s == pytest.approx(102 + LEAD_S, abs=0.1)
    assert end_s - begin_s == pytest.approx(10)
    assert end_s < 100 + 10 + LONGER_S, "the first still sends"


def test_there_is_none_where_the_first_would_end_within_it_or_one_never_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    assert window(monkeypatch, {"g1": 0.0, "g2": LONGER_S - LEAD_S}) == (None, None)
    assert window(monkeypatch, {"g1": 0.0, "g2": 1000.0}) == (None, None)
