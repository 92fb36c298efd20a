"""The plain console: a whole task in typed words, one line an event, nothing but text."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

import pytest

from labconsole.cli import plain_console
from labconsole.cli.plain_console import INTERRUPT, PlainConsole, converse
from labconsole.cli.session_runner import read_typed_lines
from labconsole.engine.live.events import NodeChanged, NodeState, Notice, Phase
from labconsole.engine.live.observed_trial import ObservedTrial
from labconsole.model.design_point import DesignPoint, FrameSize
from support.fake_lab_session import LabSession
from support.fake_session import FakeSession, refuse

pytestmark = pytest.mark.asyncio


async def talk(session: FakeSession, *lines: str | Callable[[], None]) -> list[str]:
    """What is said when this is typed; a function is called in between."""
    said: list[str] = []

    async def typed() -> AsyncIterator[str]:
        for line in lines:
            if callable(line):
                line()
            else:
                yield line
            for _ in range(20):
                await asyncio.sleep(0)

    assert await converse(session, typed(), said.append) == 0
    assert session.closed
    return said


async def test_a_trial_is_set_up_run_and_told_in_lines() -> None:
    session = FakeSession(loss=0.02)
    said = await talk(session, "set frame_size 500", "set target 100M", "run", "streams", "last", "runs", "quit")
    words = "\n".join(said)
    request, repetitions = session.requests[0]
    assert (request.frame.bytes, request.target, repetitions) == (500, 100_000_000, 1)
    assert "7 of 7 nodes connected; ready" in said
    assert any(line.endswith("sending, 5 s") for line in said)
    assert any(line.startswith("s1: offered") and "2.000 percent" in line for line in said)
    assert "verdict: valid" in said
    assert "20260302T091500-raw: raw, 500 B, 3 sources at 100Mbit" in words
    for line in said:
        assert "\n" not in line
        assert "\x1b" not in line


async def test_what_is_wrong_is_said_and_not_run() -> None:
    session = FakeSession()
    said = await talk(
        session, "set sources 9", "set duration 0", "run", "set colour red", "frobnicate", "r", "show", "quit"
    )
    assert not session.requests
    assert any(line.startswith("sources 9 is refused:") for line in said)
    assert any(line.startswith("not started: sources") for line in said)
    assert any(line.startswith("not started: duration") for line in said)
    assert any("the fields are platform" in line for line in said)
    assert "unknown command 'frobnicate'; type help for the list" in said
    assert "unknown command 'r'; type help for the list" in said  # run or runs
    assert any(line.startswith("sources 9: wrong:") for line in said)


async def test_a_console_that_only_watches_says_so_whatever_is_to_be_stopped() -> None:
    session = FakeSession()
    session.read_only = True
    said = await talk(session, "abort", "pause", "last", "quit")
    assert said.count("this console only watches") == 2
    assert "nothing was measured since this console was opened; `runs` lists what is saved" in said


async def test_the_end_of_the_input_and_ctrl_c_stop_in_order() -> None:
    session = FakeSession(hold=True)
    said = await talk(session, "run", "run", "status")
    assert session.aborted
    assert "something is running; abort stops it" in said
    assert any("raw, 64 B, 3 sources at 10Mbit" in line and "sending" in line for line in said)
    session = FakeSession(hold=True)
    await talk(session, "run", INTERRUPT, INTERRUPT, "runs")
    assert session.aborted


async def test_what_happens_meanwhile_is_told_as_text_only() -> None:
    session = FakeSession()
    said = await talk(
        session,
        lambda: session.say(NodeChanged(node="snk1", state=NodeState.LOST, message="no\x1b[31m route\u202e")),
        lambda: session.say(Notice(severity="warning", message="the fan is loud")),
        "nodes",
        "quit",
    )
    assert any("snk1: lost: no·[31m route·" in line for line in said)
    assert any("warning: the fan is loud" in line for line in said)
    assert any(line.startswith("snk1, sink: lost: no·") for line in said)


async def test_another_operators_trial_is_told(monkeypatch) -> None:
    monkeypatch.setattr(plain_console, "WATCH_EVERY_S", 0)
    session = FakeSession()
    session.read_only = True
    at = datetime(2026, 3, 2, 9, 15, tzinfo=UTC)
    request = DesignPoint(platform="raw", frame=FrameSize(64), sources=2, target=10**7, duration_s=5.0)

    def begins() -> None:
        session.observed = ObservedTrial(
            run_id="r",
            operator="eve\x1b[31m@desk",
            purpose="",
            request=request,
            repetition=1,
            repetitions=3,
            plan=None,
            block=None,
            set_ups=None,
            phase=Phase.SENDING,
            started=at,
            phase_started=at,
            phase_until=None,
            since=at,
            until=None,
        )

    def ends() -> None:
        session.observed = None

    said = await talk(session, begins, "status", ends, "status", "quit")
    assert "7 of 7 nodes connected; watching" in said
    assert any("eve·[31m@desk measures raw, 64 B" in line and line.endswith(": sending") for line in said)
    assert any(line.startswith("eve·[31m@desk measures, raw, 64 B") for line in said)
    assert any(line.endswith("the other operator's trial is over") for line in said)


async def test_a_refusal_is_one_line() -> None:
    session = FakeSession()
    session.refusal = refuse("the testbed has no such platform")
    said = await talk(session, "run", "quit")
    assert any("error: the testbed has no such platform" in line for line in said)


async def test_a_plan_runs_and_a_wrong_file_is_said(tmp_path, monkeypatch) -> None:
    (tmp_path / "two.yaml").write_text(
        "name: two\nplatforms: [raw]\nframe_sizes_bytes: [64]\nsources: [1]\ntargets: [10Mbit]\nrepetitions: 2\nduration_s: 1\n"
    )
    session = LabSession()
    said = await talk(session, "plan nowhere.yaml", f"plan {tmp_path / 'two.yaml'}", "quit")
    assert any("nowhere.yaml" in line and line.startswith("error:") for line in said)


async def test_help_names_every_command() -> None:
    said = await talk(FakeSession(), "help", "quit")
    console = PlainConsole(FakeSession(), said.append)
    for name in console.commands:
        assert any(line.startswith(name) for line in said)


async def test_a_byte_that_is_no_text_is_one_unknown_command(monkeypatch) -> None:
    said: list[str] = []
    session = FakeSession()
    typed = io.TextIOWrapper(io.BytesIO(b"st\xffatus\nset sources 2\nquit\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", typed)
    assert await converse(session, read_typed_lines(INTERRUPT), said.append) == 0
    assert any(line.startswith("unknown command 'st") for line in said)
    assert "sources 2" in said


async def test_every_trial_of_a_search_is_a_line_with_its_bounds(tmp_path) -> None:
    session = LabSession()
    session.capacity_pps = 30_000.0
    plan = tmp_path / "bounds.yaml"
    plan.write_text(
        "plan: bounds\nplatforms: [raw]\nframe_sizes: [1000]\nsources: [1]\nsettle_s: 0\n"
        "search: {goals: [ndr], trial_s: 10, duration_sum_s: 10, width_ratio: 0.2}\n"
    )
    console = PlainConsole(session, (said := list[str]()).append)
    await session.connect()
    await console.run_command(f"plan {plan}")
    assert console._work is not None
    await console._work
    told = [line.split(" ", 1)[1] for line in said if " trial " in line and "ndr" in line]
    trials = session.store.searches[0].trials
    assert [line.split(",")[0] for line in told] == [f"trial {number}" for number in range(1, len(trials) + 1)]
    assert told[0].startswith("trial 1, load at 122 070 packets/s per source, 10 s; missing 75.424 %")
    assert "ndr (adjusted) failed, bounds – to 122 070 packets/s" in told[0]
    assert "ndr (adjusted) passed, bounds 25 656 to 122 070 packets/s, 78.98 % apart" in told[1]


async def test_words_that_a_command_does_not_take_are_refused_and_runs_takes_a_filter() -> None:
    session = FakeSession()
    said = await talk(
        session,
        "run",
        "runs platform=container",
        "runs 0",
        "runs -1",
        "runs colour=red",
        "runs 1 platform=raw",
        "nodes src1",
        "show x",
        "quit",
    )
    assert "no saved run matches" in said
    assert "runs takes a number of 1 or more, got 0" in said and "runs takes a number of 1 or more, got -1" in said
    assert any(line.startswith("runs: there is no field 'colour'") for line in said)
    assert sum(line.startswith("20260302T091500-raw: raw") for line in said) == 1
    assert "nodes takes no further words, got 'src1'" in said and "show takes no further words, got 'x'" in said
