"""When a queue that guests share begins to be used, as looks at its packets tell."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from labconsole.agent.operations import queues
from labconsole.wire.queues import ChangeRates

WISH = ChangeRates(
    queue="lcqw", rates_bps=[[1_000_000]], most_bps=[1_000_000], burst_bytes=3028, every_s=1.0, begin_s=0.2
)


def waited(monkeypatch: pytest.MonkeyPatch, first: int, later: list[int]) -> tuple[int | None, int | None]:
    """(last unused, first used), where the first look found so many packets, and later ones these, the last for good."""
    found: Iterator[int] = iter(later)
    monkeypatch.setattr(queues, "_packets", lambda name: next(found, later[-1]))
    return queues._wait_for_use(WISH, (1, first), threading.Event())


def test_it_is_in_use_when_many_packets_came_since_a_look(monkeypatch: pytest.MonkeyPatch):
    looked_ns, begun_ns = waited(monkeypatch, 2, [3, 3, 20])
    assert looked_ns is not None and begun_ns is not None and 1 < looked_ns < begun_ns


def test_guests_that_may_have_begun_before_the_first_look_leave_the_time_unknown(monkeypatch: pytest.MonkeyPatch):
    looked_ns, begun_ns = waited(monkeypatch, 30, [33, 60])
    assert looked_ns is None and begun_ns is not None, "the verdict says weights_late"


def test_a_packet_now_and_then_is_no_use(monkeypatch: pytest.MonkeyPatch):
    assert waited(monkeypatch, 0, [1, 2])[1] is None
