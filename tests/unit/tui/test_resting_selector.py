"""When the console's event loop looks for news: not more often than needed, and at once where it matters."""

from __future__ import annotations

import asyncio
import os
import select
import selectors
from collections.abc import Iterator
from typing import Any

import pytest

from labconsole.tui.app import ConsoleApp, run_console
from labconsole.tui.console import runtime
from labconsole.tui.console.runtime import REST_S, ThrottledSelector
from support.driven_console import console
from support.fake_session import FakeSession


class Clock:
    """Stands still but for what is rested, which it keeps."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.rested_s: list[float] = []

    def monotonic(self) -> float:
        return self.now_s


class Pipe:
    """A file that can be made readable."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()

    def write(self) -> None:
        os.write(self.writing, b"x")

    def close(self) -> None:
        os.close(self.reading)
        os.close(self.writing)


class Looks:
    """A selector of the loop's own pipe and a node's socket, at which there is always something to read."""

    def __init__(self, may_rest: bool, clock: Clock) -> None:
        self.own, self.node = Pipe(), Pipe()
        self.selector = ThrottledSelector(lambda: may_rest)
        self.selector.register(self.own.reading, selectors.EVENT_READ, "own")
        self.selector.register(self.node.reading, selectors.EVENT_READ, "node")
        self.node.write()
        self._calls = self.selector._calls
        self.selector._calls = self  # type: ignore[assignment]
        self._clock = clock

    def poll(self, timeout_ms: float) -> list[tuple[int, int]]:
        """Rests on a clock that nobody waits for."""
        assert self._calls is not None
        called = self._calls.poll(0)
        if not called:
            self._clock.rested_s.append(timeout_ms / 1e3)
            self._clock.now_s += timeout_ms / 1e3
        return called

    def look(self, timeout: float | None) -> set[str]:
        return {key.data for key, _ in self.selector.select(timeout)}

    def close(self) -> None:
        self.selector.close()
        self.own.close()
        self.node.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(runtime, "time", clock)
    return clock


@pytest.fixture
def looks(clock: Clock) -> Iterator[Looks]:
    looks = Looks(True, clock)
    yield looks
    looks.close()


def test_what_comes_right_after_a_look_waits_for_the_next_and_what_comes_later_does_not(looks: Looks, clock: Clock):
    assert looks.look(None) == {"node"}
    clock.now_s += 0.25 * REST_S
    assert looks.look(None) == {"node"}
    assert clock.rested_s == [pytest.approx(0.75 * REST_S)]
    clock.now_s += REST_S
    assert looks.look(None) == {"node"}
    assert len(clock.rested_s) == 1


def test_a_key_a_timer_and_work_that_is_there_are_not_kept_waiting(looks: Looks, clock: Clock):
    looks.look(0)
    looks.look(0)
    assert clock.rested_s == []
    looks.look(0.2 * REST_S)
    assert clock.rested_s == [pytest.approx(0.2 * REST_S)]
    looks.own.write()
    assert looks.look(None) == {"own", "node"}
    assert len(clock.rested_s) == 1


def test_nothing_waits_while_something_hangs_on_it(clock: Clock):
    looks = Looks(False, clock)
    assert looks.look(None) == {"node"}
    assert looks.look(None) == {"node"}
    assert clock.rested_s == []
    looks.close()


@pytest.mark.asyncio
async def test_a_console_waits_for_more_only_while_its_session_hangs_on_nothing():
    assert not ConsoleApp(FakeSession).can_throttle()  # there are no nodes yet
    async with console() as (app, session, _):
        assert app.can_throttle()
        session.timing_matters = True
        assert not app.can_throttle()


def test_the_console_runs_on_it_and_its_own_pipe_is_what_ends_a_rest(monkeypatch: pytest.MonkeyPatch):
    seen: list[Any] = []

    async def look(app: ConsoleApp) -> int:
        loop: Any = asyncio.get_running_loop()
        selector = loop._selector
        loop.call_soon_threadsafe(lambda: None)  # writes into the pipe
        seen.append((app, selector, selector._calls.poll(0), loop._ssock.fileno()))
        return 3

    monkeypatch.setattr(ConsoleApp, "run_async", look)
    monkeypatch.setattr("gc.disable", lambda: None)  # the process goes on here
    assert run_console(FakeSession) == 3
    ((app, selector, ready, own),) = seen
    assert isinstance(selector, ThrottledSelector)
    assert selector._may_rest == app.can_throttle
    assert ready == [(own, select.POLLIN)]
