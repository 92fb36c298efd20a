"""Unit tests of the console wait for what they drive, not for the machine, and read each style sheet once.

Textual's own wait for idleness reads the process's CPU time in steps of 20 ms, twice a key: half of these tests' time,
and on a loaded machine a process that gets no CPU looks idle. Here idle means that the event loop has nothing left to
call, now or in a moment, and no thread works for it; with none of these there is nothing to sleep for.

What Textual parsed of a style sheet depends on nothing but the sheet and the theme's variables, and is not changed
afterwards: the next of a thousand consoles takes it from the one before. Figures of reports likewise.
"""

from __future__ import annotations

import asyncio
import gc
import pickle
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Condition
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

from labconsole.contracts.report import Figure
from labconsole.report.figure_drawing import draw_figure

if TYPE_CHECKING:
    from support.postgresql_server import PostgresServer
    from support.store_places import Place

CALM_TURNS, TURN_S, MOMENT_S = 5, 0.001, 0.02
"""A moment is longer than a screen waits before it paints what has changed, a sixtieth of a second."""

YOUNG_OBJECTS = 10_000
"""How many new ones the garbage collector waits for: a console makes a hundred thousand."""


def pytest_collection_finish() -> None:
    """Take what was imported and collected, and stays, out of the garbage collector's sight: it was a third of all time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


async def wait_for_idle(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """As textual._wait.wait_for_idle, which it replaces."""
    loop: Any = asyncio.get_running_loop()
    deadline, calm = time.monotonic() + max_sleep, 0
    while calm < CALM_TURNS and time.monotonic() < deadline:
        busy = _timer_is_due(loop) or _threads_work(loop._default_executor)
        await asyncio.sleep(TURN_S if busy else 0)
        calm = 0 if busy or loop._ready else calm + 1


def _timer_is_due(loop: Any) -> bool:
    moment = loop.time() + MOMENT_S
    return any(timer.when() <= moment and not timer.cancelled() for timer in loop._scheduled)


def _threads_work(executor: Any) -> bool:
    if executor is None:
        return False
    busy = len(executor._threads) - executor._idle_semaphore._value
    if busy <= 0:
        return False
    frames = sys._current_frames()
    return busy > sum(_waits_for_the_loop(frames.get(thread.ident)) for thread in executor._threads)


def _waits_for_the_loop(frame: FrameType | None) -> bool:
    """A thread that asked the loop for something that is not done yet: a search, for the trial that a test holds back."""
    asked = frame.f_back if frame is not None and frame.f_code is Condition.wait.__code__ else None
    return asked is not None and asked.f_code is Future.result.__code__ and not asked.f_locals["self"].done()


@pytest.fixture(autouse=True)
def idle_by_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("textual.app.wait_for_idle", wait_for_idle)
    monkeypatch.setattr("textual.pilot.wait_for_idle", wait_for_idle)


@pytest.fixture(autouse=True, scope="session")
def sheets_read_once() -> Iterator[None]:
    parse, known = Stylesheet._parse_rules, dict[tuple[Any, ...], list[RuleSet]]()

    def parse_once(self: Stylesheet, *args: Any, **named: Any) -> list[RuleSet]:
        key = (args, *sorted(named.items()), frozenset(self._variables.items()))
        if key not in known:
            known[key] = parse(self, *args, **named)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_once)
        patch.setattr(RuleSet, "__hash__", object.__hash__)  # as theirs, and not in Python
        yield


@pytest.fixture(autouse=True, scope="session")
def figures_drawn_once() -> Iterator[None]:
    """A figure with the same values is drawn once for all reports: drawing is most of the time that a report takes."""
    known = dict[tuple[bytes, tuple[str, ...]], dict[str, bytes]]()

    def draw_once(figure: Figure, formats: Sequence[str]) -> dict[str, bytes]:
        key = (pickle.dumps(figure), tuple(formats))
        if key not in known:
            known[key] = draw_figure(figure, formats)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labconsole.report.files.draw_figure", draw_once)
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server, started when the first test asks for it."""
    from support.postgresql_server import PostgresServer

    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where a store can be made: a file, and a database of a server."""
    from support.store_places import ServerPlace, SqlitePlace

    if request.param == "sqlite":
        return SqlitePlace(tmp_path)
    return ServerPlace(request.getfixturevalue("postgres"))


def pytest_make_parametrize_id(val: object) -> str | None:
    """Archives hold the time at which they were made: by their bytes, two workers would know a test by two names."""
    return f"{len(val)} bytes" if isinstance(val, bytes) and len(val) > 12 else None
