"""Weights that change at their time: the agent's other threads give way meanwhile, and only meanwhile."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager

import pytest

from labconsole.agent.operations import queues
from labconsole.network import iproute
from labconsole.wire.codec import WireError
from labconsole.wire.queues import ChangeRates


def test_a_thread_that_looks_for_packets_does_not_wait_long_for_others(monkeypatch: pytest.MonkeyPatch):
    seen: list[float] = []

    @contextmanager
    def route():
        seen.append(sys.getswitchinterval())
        raise WireError("no_such_interface", "it has gone")
        yield

    monkeypatch.setattr(iproute, "open_route", route)
    before = sys.getswitchinterval()
    request = ChangeRates(
        queue="lcqw", rates_bps=[[1_000_000]], most_bps=[1_000_000], burst_bytes=3028, every_s=1.0, begin_s=1.0
    )
    with pytest.raises(WireError, match="it has gone"):
        queues._change(request, threading.Event())
    assert seen == [pytest.approx(0.0005)]
    assert sys.getswitchinterval() == before
