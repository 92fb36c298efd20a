"""The load search on a testbed that is a script: its trials, and what a cancelled search leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tui_fake import make_inventory, make_record

from labconsole.engine.load_search import _trial, at_load, search_load
from labconsole.errors import ConfigError
from labconsole.measure.search import parse_goal
from labconsole.model.record import Reason, RunRecord
from labconsole.model.request import TrialRequest

NDR = parse_goal("ndr")
REQUEST = TrialRequest(platform="raw", frame_size_bytes=1000, sources=1, target_bps="max", duration_s=1.0)


class Script:
    """A session whose trials end at once, or never; ``told`` says what happened in which order."""

    def __init__(self, *, endless: bool = False) -> None:
        self.inventory, self.stopping = make_inventory(), False
        self.endless, self.told = endless, []  # type: ignore[var-annotated]
        self.begun = asyncio.Event()

    async def settle(self, seconds: float) -> None:
        return

    @asynccontextmanager
    async def batch(self, request: TrialRequest, *, take_over: bool = False) -> AsyncIterator[Any]:
        try:
            yield self.take
        finally:
            self.told.append("given back")

    async def take(self, request: TrialRequest) -> RunRecord:
        try:
            self.begun.set()
            if self.endless:
                await asyncio.Event().wait()
            return make_record(request, f"20261121T000000Z-{len(self.told):06x}")
        finally:
            await asyncio.sleep(0)  # a generator is closed: that takes a turn of the loop or more
            self.told.append("trial ended")


def test_a_search_ends_with_bounds_and_gives_the_testbed_back_after_its_last_trial():
    async def work() -> Script:
        session: Any = Script()
        found = await search_load(session, REQUEST, [NDR], on_trial=lambda record: None)
        assert found.trials
        return session

    told = asyncio.run(work()).told
    assert told[-1] == "given back"
    assert told.count("given back") == 1


def test_what_the_verdict_says_was_lost_outside_of_the_unit_under_test_goes_with_the_trial():
    record = make_record(REQUEST, "20261121T000000Z-000001", status="suspect")
    reasons = tuple(
        Reason(code=code, detail="", evidence={"lost_packets": packets})
        for code, packets in (("lost_at_source", 3), ("lost_at_sink", 4), ("foreign_frames", 50))
    )
    record = record.model_copy(update={"verdict": record.verdict.model_copy(update={"reasons": reasons})})
    wanted = at_load(REQUEST, 1000.0, 1.0)
    assert _trial(record, wanted, 1000.0).lost_outside_packets == 7


def test_a_cancelled_search_ends_its_trial_before_it_gives_the_testbed_back():
    async def work() -> Script:
        session: Any = Script(endless=True)
        search = asyncio.create_task(search_load(session, REQUEST, [NDR], on_trial=lambda record: None))
        await session.begun.wait()
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        return session

    assert asyncio.run(work()).told == ["trial ended", "given back"]


def test_a_trial_too_short_for_one_packet_at_the_lowest_load_is_refused():
    async def work() -> None:
        short: Any = parse_goal("ndr").__class__(
            name="x", loss_ratio=0.0, exceed_ratio=0.5, trial_duration_s=1e-6, duration_sum_s=1.0
        )
        session: Any = Script()
        with pytest.raises(ConfigError, match="sends no packet"):
            await search_load(session, REQUEST, [NDR, short], on_trial=lambda record: None)

    asyncio.run(work())
