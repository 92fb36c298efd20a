"""The sink's counters at rest: taken when nothing comes any more, and doubted when that never is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.engine import crew_sink
from labconsole.verdict.observations import TrialObservations
from labconsole.wire.codec import STAT_NAMES

RX = STAT_NAMES.index("rx_packets")


async def rest(counts: list[int], monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[str]]:
    """What the sink's NIC has at last, and the codes of doubts, where it counts so, reading after reading."""
    left = list(counts)

    async def counters(crew: Any) -> Any:
        packets = left.pop(0) if len(left) > 1 else left[0]
        values = [0] * len(STAT_NAMES)
        values[RX] = packets
        return {}, {("", "eth1"): SimpleNamespace(values=values)}

    monkeypatch.setattr(crew_sink, "read_counters", counters)
    monkeypatch.setattr(crew_sink, "MOST_DRAIN_S", 0.005)
    crew: Any = SimpleNamespace(stream=SimpleNamespace(sink=SimpleNamespace(interface="eth1")))
    seen = TrialObservations(run_id="r", started_at="2026-11-23T09:09:05.000Z")
    _, sink = await crew_sink.read_counters_after_drain(crew, 0.001, seen)
    return sink["", "eth1"].values[RX], [each.code for each in seen.doubts]


@pytest.mark.asyncio
async def test_what_waits_in_queues_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await rest([10, 20, 25, 25], monkeypatch) == (25, [])


@pytest.mark.asyncio
async def test_a_sink_to_which_packets_never_cease_to_come_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    _, codes = await rest(list(range(100)), monkeypatch)
    assert codes == ["not_drained"]
