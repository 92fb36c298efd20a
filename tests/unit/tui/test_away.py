"""One who is away: called by the terminal, and told afterwards what happened."""

from __future__ import annotations

from typing import Any

import pytest

from labconsole.engine.live.events import NodeChanged, NodeState, Notice
from labconsole.tui.console import clock
from labconsole.tui.console.absence import AWAY_AFTER_S, NotableEvent, PresenceWatch
from labconsole.tui.console.notifications import OperatorNotifier, TerminalNotifier
from labconsole.tui.console.state import ConsoleState, PlanEnd
from support.driven_console import SIZES, console, text, until
from support.fake_session import make_record

HOSTILE = "\x1b]52;c;ZXZpbA==\x07night;\x9b31m\u202e"


def attention(notify: str = "auto", **environ: str) -> tuple[TerminalNotifier, list[str]]:
    sent: list[str] = []
    return TerminalNotifier(sent.append, notify, {"TERM": "xterm-256color", **environ}), sent


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ["\x1b]9;lab: plan done\a", "\x1b]777;notify;lab;plan done\a", "\a"]),
        ({"TERM_PROGRAM": "iTerm.app"}, ["\x1b]9;lab: plan done\a", "\a"]),
        ({"VTE_VERSION": "7600"}, ["\x1b]777;notify;lab;plan done\a", "\a"]),
        ({"TERM": "linux"}, ["\a"]),
        ({"TERM": "foot", "TMUX": "/tmp/x"}, ["\x1bPtmux;\x1b\x1b]777;notify;lab;plan done\a\x1b\\", "\a"]),
    ],
)
def test_the_terminal_is_called_in_the_words_it_knows(environ: dict[str, str], expected: list[str]) -> None:
    caller, sent = attention(**environ)
    caller.call("lab", "plan done")
    assert sent == expected


def test_the_bell_alone_or_nothing_where_that_is_wanted() -> None:
    caller, sent = attention("bell")
    caller.call("lab", "plan done")
    assert sent == ["\a"]
    caller, sent = attention("off")
    caller.call("lab", "plan done")
    assert sent == []


def test_what_others_wrote_reaches_the_terminal_as_text_only() -> None:
    caller, sent = attention(TERM_PROGRAM="ghostty")
    caller.call(HOSTILE, HOSTILE)
    caller.title(HOSTILE)
    for sequence in sent[:1] + sent[2:]:
        inner = sequence.removeprefix("\x1b]").removesuffix("\a")
        assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in inner)
        assert "\u202e" not in inner
        assert inner.count(";") == 1  # the sequence's own


def test_a_progress_bar_only_where_it_is_known_and_once_per_change() -> None:
    caller, sent = attention()
    caller.progress(0.5)
    assert sent == []
    caller, sent = attention(WT_SESSION="1")
    for ratio in (0.5, 0.5004, 0.51):
        caller.progress(ratio)
    caller.progress(0.51, halted=True)
    caller.progress(1.0, failed=True)
    caller.progress(None)
    caller.progress(None)
    numbers = [sequence.removeprefix("\x1b]9;4;").removesuffix("\x1b\\") for sequence in sent]
    assert numbers == ["1;50", "1;51", "4;51", "2;100", "0;0"]


def test_the_title_is_given_back() -> None:
    caller, sent = attention()
    caller.begin()
    caller.title("labconsole: lab")
    caller.title("labconsole: lab")
    caller.end()
    assert sent == ["\x1b[22;2t", "\x1b]2;labconsole: lab\a", "\x1b[23;2t"]


def test_who_presses_no_key_for_a_while_has_left() -> None:
    watch = PresenceWatch(1000.0)
    assert watch.seen(1000.0 + AWAY_AFTER_S / 2) is None
    watch.tell(NotableEvent(1100.0, "node", "error", "while there"))
    watch.seen(1150.0)
    watch.tell(NotableEvent(5000.0, "plan", "error", "plan night failed"))
    absence = watch.seen(9000.0)
    assert absence is not None
    assert (absence.from_wall_s, absence.until_wall_s) == (1150.0, 9000.0)
    digest = watch.digest(9010.0)
    assert [each.text for each in digest.happenings] == ["plan night failed"]


def test_what_nobody_has_read_about_is_not_lost_by_another_pause() -> None:
    watch = PresenceWatch(0.0)
    watch.tell(NotableEvent(1000.0, "plan", "error", "plan night failed"))
    watch.seen(8000.0)
    watch.seen(8300.0)
    assert [each.text for each in watch.digest(8300.0).happenings] == ["plan night failed"]
    watch.read()
    watch.seen(9000.0)
    assert watch.digest(9000.0).nothing


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_772_442_900.0]
    monkeypatch.setattr(clock, "wall_s", lambda: now[0])
    return now


def test_an_absence_without_news_is_not_counted_with_the_next(wall: list[float]) -> None:
    begun, state = wall[0], ConsoleState()
    state.watch = PresenceWatch(begun)
    caller = OperatorNotifier(state, attention()[0], "lab")
    for minutes in (3, 6):
        wall[0] = begun + 60 * minutes
        assert caller.seen() is None
    state.watch.tell(NotableEvent(wall[0] + 60, "plan", "error", "plan night failed"))
    wall[0] += 180
    digest = caller.seen()
    assert digest is not None
    assert digest.until_wall_s - digest.from_wall_s == 180


@pytest.mark.asyncio
@pytest.mark.parametrize("size", SIZES)
async def test_who_comes_back_in_the_morning_sees_what_happened(size: tuple[int, int], wall: list[float]) -> None:
    async with console(size=size) as (app, session, pilot):
        sent: list[str] = []
        assert app._attention is not None
        app._attention.write = sent.append
        toasts: list[str] = []
        app.notify = lambda message, **_: toasts.append(message)  # type: ignore[method-assign]
        await pilot.press("7")
        wall[0] += 3 * 3600
        for number, status in enumerate(["valid", "valid", "invalid"]):
            request = session_request(app)
            record = make_record(request, f"run{number}", status=status)
            app.state.watch.ended(wall[0], record, saved=True)
        session.say(NodeChanged(node="snk1", state=NodeState.LOST, message="no route"))
        session.say(Notice(severity="error", message="eve@desk took the testbed over", node="uut"))
        app.plan_over(PlanEnd(wall[0], "error", "plan night failed: snk1 did not come back", failed=True))
        calls = "".join(sent)
        assert "snk1 was lost: no route" in calls
        assert "plan night failed" in calls
        wall[0] += 3600
        await pilot.press("1")
        await until(pilot, lambda: any(words.startswith("While you were away (4 h 00 min): plan") for words in toasts))
        await pilot.press("0")
        await until(pilot, lambda: "Since you left" in text(app))
        shown = text(app)
        for words in ("plan night failed", "3 ended", "2 valid", "1 invalid", "1 × below_target"):
            assert words in shown, words
        if size[1] > 24:
            assert "snk1 was lost: no route" in shown
            assert "eve@desk took the testbed over" in shown


def session_request(app: Any) -> Any:
    from labconsole.tui.screens.bench.setup import SetupPanel

    bench = next(screen for screen in app.console_screens() if screen.tab.mode == "bench")
    return bench.query_one(SetupPanel).reading.request


@pytest.mark.asyncio
async def test_who_is_there_is_not_called(wall: list[float]) -> None:
    async with console() as (app, session, pilot):
        sent: list[str] = []
        assert app._attention is not None
        app._attention.write = sent.append
        await pilot.press("7")
        session.say(NodeChanged(node="snk1", state=NodeState.LOST))
        assert not any("lost" in sequence for sequence in sent)
        app.app_focus = False
        session.say(NodeChanged(node="snk2", state=NodeState.LOST))
        assert any("snk2 was lost" in sequence for sequence in sent)
        session.say(NodeChanged(node="snk3", state=NodeState.LOST))
        assert not any("snk3" in sequence for sequence in sent)  # one reason to look is enough for a while
