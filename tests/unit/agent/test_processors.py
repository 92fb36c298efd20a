"""How busy processors are: from two readings of /proc/stat that say so, to what the console takes of it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from labconsole.agent.reading import counters
from labconsole.agent.reading.counters import Processors, derive_use, parse_ticks
from labconsole.wire.codec import WireError
from labconsole.wire.processors import ProcessorsSampled
from support.agent_events import PROCESSORS
from support.kept_messages import kept_event

FIRST = b"""cpu  0 0 0 0 0 0 0 0 0 0
cpu0 100 0 100 1000 50 0 10 0 0 0
cpu1 100 0 100 1000 50 0 10 0 0 0
cpu3 7 7 7 7 7 7 7 7 7 7
intr 1 2 3
"""
LAST = b"""cpu  0 0 0 0 0 0 0 0 0 0
cpu0 120 0 105 1075 50 0 10 0 0 0
cpu1 100 0 103 1002 49 0 100 5 0 0
cpu3 7 7 7 7 7 7 7 7 7 7
"""
"""cpu0: 25 of 100 ticks busy. cpu1: 98 of 100, of which 90 softirq and 5 steal; its iowait goes back. cpu3 is off."""


def test_the_busiest_is_told_apart_from_the_mean() -> None:
    assert derive_use(parse_ticks(FIRST), parse_ticks(LAST)) == {
        "processors": 2,
        "mean": {"busy": 0.615, "softirq": 0.45, "steal": 0.025},
        "busiest": {"busy": 0.98, "softirq": 0.9, "steal": 0.05},
        "busiest_number": 1,
    }


@pytest.mark.parametrize(
    "stat", [b"", b"intr 1 2", b"cpu0 1 2 3\n", b"cpu0 a b c d e f g h i\n", b"cpux 1 2 3 4 5 6 7 8\n"]
)
def test_what_no_kernel_writes_is_unknown(stat: bytes) -> None:
    assert derive_use(parse_ticks(stat), parse_ticks(stat)) is None


def test_the_first_reading_tells_nothing_and_the_next_what_the_console_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = iter([FIRST, LAST, b""])
    monkeypatch.setattr(counters, "read_bytes", lambda path, most: next(texts))
    reading = Processors()
    assert reading.due(0)
    assert reading.event() is None
    event = reading.event()
    assert event is not None
    assert kept_event(event) == event
    assert not reading.due(event["monotonic_ns"])
    assert reading.due(event["monotonic_ns"] + 10**9)
    assert reading.event() is None


@pytest.mark.parametrize(
    "changes",
    [
        {"mean": {"busy": 1.5, "softirq": 0.0, "steal": 0.0}},
        {"mean": {"busy": 0.2, "softirq": 0.3, "steal": 0.0}},
        {"busiest": {"busy": 0.2, "softirq": 0.0, "steal": 0.0}},
        {"busiest": {"busy": True, "softirq": 0.0, "steal": 0.0}},
        {"elapsed_ns": 0},
        {"processors": 0},
        {"busiest_number": -1},
        {"name": "cpu0"},
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(WireError, match="^processors: "):
        kept_event({**copy.deepcopy(PROCESSORS), **changes})


def test_a_node_that_is_gone_has_unknown_processors() -> None:
    from labconsole.engine.live.events import NodeState
    from labconsole.engine.live.telemetry import NodeLive, Telemetry

    telemetry = Telemetry()
    live = telemetry.nodes["uut"] = NodeLive("uut", ("uut",))
    assert live.processors is None
    telemetry.set_processors("uut", ProcessorsSampled.parse({k: v for k, v in PROCESSORS.items() if k != "event"}))
    assert live.processors is not None
    live.enter(NodeState.LOST, "gone")
    assert live.processors is None
