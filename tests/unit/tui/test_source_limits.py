"""What a source reached at most is told while a target beyond it is typed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.tui.console.form import find_source_limit
from labconsole.tui.parts.fields import Field
from support.driven_console import SIZES, console, text, until
from support.envelopes import envelope, point
from support.fake_session import FakeSession, make_record, summary_of_record

REQUEST = DesignPoint(platform="raw", frame=FrameSize(64), sources=1, target=100_000_000, duration_s=5.0)


def test_the_calibration_names_the_weakest_source() -> None:
    limit = find_source_limit(REQUEST, envelope(point(most_pps=60_400.0)), ())
    assert limit is not None
    assert (limit.name, limit.pps, limit.origin) == ("src1", 60_400.0, "calibration")
    assert limit.wordings(142_045.0)[1] == "src1 tops out near 60\u2009000 pps (calibration)"
    assert limit.wordings(60_000.0) == ()
    assert limit.wordings(None) == ()


def test_past_runs_say_it_where_nothing_was_calibrated() -> None:
    asked = summary_of_record(make_record(REQUEST, "a"))
    short = replace(asked, run_id="b", offered_pps=60_000.0)
    other = replace(short, run_id="c", frame_size_bytes=1500)
    assert find_source_limit(REQUEST, None, [other]) is None
    assert find_source_limit(REQUEST, None, [asked]) is None, "it got what it asked for: nothing topped out"
    limit = find_source_limit(REQUEST, None, [short, other])
    assert limit is not None and (limit.pps, limit.origin) == (60_000.0, "past runs")
    at_max = replace(short, run_id="d", target_bps="max", offered_pps=75_000.0)
    limit = find_source_limit(REQUEST, None, [short, at_max])
    assert limit is not None and limit.pps == 75_000.0
    assert find_source_limit(REQUEST, None, [replace(at_max, verdict="invalid")]) is None


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES)
async def test_it_is_told_beside_the_target(size: tuple[int, int]) -> None:
    def session() -> FakeSession:
        made = FakeSession()
        made.envelope = envelope(point(sources=3, most_pps=60_000.0))
        return made

    async with console(session, size) as (app, _, pilot):
        await pilot.press("e")
        app.screen.query_one("#target", Field).value = "10M"
        await until(pilot, lambda: "14\u2009205 p" in text(app))
        assert "tops out" not in text(app)
        app.screen.query_one("#target", Field).value = "100M"
        await until(pilot, lambda: "! src1" in text(app) and "60\u2009000" in text(app))
