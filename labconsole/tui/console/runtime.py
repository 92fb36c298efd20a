"""What the console runs on: terminal, event loop, queue of keys, style sheet, garbage collection, outgoing text."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import select
import selectors
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import IO, Any

from rich.console import Console, ConsoleRenderable, RenderHook
from rich.segment import Segment, Segments
from textual import events
from textual.app import App
from textual.css.stylesheet import Stylesheet
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

from labconsole.text.sanitize import sanitize, single_line, unwrap_stream

# -- terminal ----------------------------------------------------------------------------------------------------------
# A terminal that may go away: a closed window or a lost SSH connection must not keep a trial from ending properly.
#
# Textual writes from a thread that dies at the first failed write. Its queue of 30 frames then fills up and blocks the
# event loop, and with it the engine. This driver drops a failed write, and SIGHUP (see ConsoleApp.hang_up) does the
# rest.


def terminal_is_gone(descriptor: int) -> bool:
    """Whether a descriptor is a terminal whose other end was closed."""
    try:
        os.tcgetpgrp(descriptor)
    except OSError as exc:
        return exc.errno == errno.EIO
    return False


def detach() -> None:
    """Redirect standard input, output and error if they were a terminal, so that later writes to them do not fail."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        if os.isatty(descriptor) or terminal_is_gone(descriptor):
            os.dup2(nowhere, descriptor)
    os.close(nowhere)


class _Lenient:
    """A text file that drops writes once its terminal is gone."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        try:
            return self._file.write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError:
            return

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class HangUpDriver(LinuxDriver):
    """Textual's driver, made to survive its terminal."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._file: Any = _Lenient(self._file)


# -- throttled selector ------------------------------------------------------------------------------------------------
# A selector for the console's event loop that polls messages of nodes at most a hundred times a second.
#
# A hundred nodes send a thousand lines a second. Waking up for each of them costs more than handling the lines: in
# batches they need an eighth less of a processor (docs/performance.md). Keys, timers, signals and results of threads do
# not wait.

REST_S = 0.01


class ThrottledSelector(selectors.DefaultSelector):
    """Pauses between two polls, but only while ``can_throttle`` says that no message is urgent.

    The event loop registers its own pipe first, by which threads and signal handlers wake it. That pipe ends a pause,
    and a thread reads the terminal.
    """

    def __init__(self, may_rest: Callable[[], bool]) -> None:
        super().__init__()
        self._may_rest = may_rest
        self._looked_s = 0.0
        self._calls: select.poll | None = None

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Register, remembering the first one."""
        key = super().register(fileobj, events, data)
        if self._calls is None:
            self._calls = select.poll()
            self._calls.register(key.fd, select.POLLIN)
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready within the timeout. A timeout of None waits for the first."""
        if timeout is None or timeout > 0.0:  # else the loop has work to do, and only polls
            rest_s = self._looked_s + REST_S - time.monotonic()
            if timeout is not None:
                rest_s = min(rest_s, timeout)
            if rest_s > 0.0 and self._calls is not None and self._may_rest():
                self._calls.poll(rest_s * 1e3)
                timeout = None if timeout is None else timeout - rest_s
        ready = super().select(timeout)
        self._looked_s = time.monotonic()
        return ready


# -- key queue ---------------------------------------------------------------------------------------------------------
# A queue of keys: each is handled completely before the next.
#
# Textual passes a key to the widget that has the focus now, and then from queue to queue up to its binding. Keys that
# arrive in one burst (a paste in tmux, a busy machine, a fast hand) go to that widget too, although the first of them
# moves the focus or opens a dialog.

KEY_LOOK_S = 0.05
"""Interval for checking whether the widget that has the key still exists."""

KEY_LIMIT_S = 2.0
"""Maximum time for one key. A slower widget is busy, and then all waiting keys go on, as they would without a queue."""


class Passed(Message, namespace="keys"):
    """Follows a key through the same queues. Its arrival shows that the key was handled."""


class KeyQueueApp(App[int]):
    """An application that handles keys one at a time."""

    _under_way: Passed | None = None
    _seen: Screen[object] | None = None
    _looks: Timer | None = None
    _looked = 0

    def __init__(self, driver_class: type[Driver]) -> None:
        super().__init__(driver_class=driver_class)
        self._keys: deque[events.Key | events.Paste] = deque()

    async def on_event(self, event: events.Event) -> None:
        """Handle events like Textual, but queue keys and pasted text from the terminal."""
        if isinstance(event, events.Key | events.Paste):
            if not self.screen_stack:  # the application is closing
                return
            if not event.is_forwarded:
                self._keys.append(event)
                await self._next_key()
                return
        await super().on_event(event)

    async def _next_key(self, *, at_once: bool = False) -> None:
        if not self.screen_stack:
            self._keys.clear()
        while self._keys and self._under_way is None:
            if at_once:
                await super().on_event(self._keys.popleft())
                continue
            if self._seen is not self.screen:
                self._seen = self.screen
                self._wait_for(self.screen)  # a new screen first sets the focus
                continue
            event = self._keys.popleft()
            await super().on_event(event)
            if event.is_forwarded:
                self._wait_for(self.focused or self.screen)

    def _wait_for(self, widget: Widget) -> None:
        passed = Passed()
        if widget.post_message(passed):
            self._under_way, self._looked = passed, 0
            self._looks = self.set_interval(KEY_LOOK_S, partial(self._look, passed, widget))

    async def _look(self, passed: Passed, widget: Widget) -> None:
        if passed is not self._under_way:
            return
        self._looked += 1
        busy = self._looked * KEY_LOOK_S > KEY_LIMIT_S
        if busy or not widget.is_attached:
            await self._done(at_once=busy)

    async def on_keys_passed(self, message: Passed) -> None:
        """Handle the next key: the one before has arrived, or was used up on its way."""
        if message is self._under_way:
            await asyncio.sleep(0)  # a worker that opens a dialog starts with the loop's next turn
            await self._done()

    async def _done(self, *, at_once: bool = False) -> None:
        self._under_way = None
        if self._looks is not None:
            self._looks.stop()
            self._looks = None
        await self._next_key(at_once=at_once)


# -- style sheet -------------------------------------------------------------------------------------------------------
# Textual's style sheet, parsing only what changed.
#
# Textual parses every sheet again whenever a screen or a dialog with its own sheet is first opened, and three times
# while the console starts: some 20 to 50 ms each.


class StyleSheet(Stylesheet):
    def set_variables(self, variables: dict[str, str]) -> None:
        """Set the theme's variables. Rules parsed with the same ones are kept."""
        if variables != self._variables:
            super().set_variables(variables)

    def reparse(self) -> None:
        """Parse new sheets. The rest is kept."""
        self.parse()


# -- garbage collection ------------------------------------------------------------------------------------------------
# Garbage collection in a console that runs for hours and must answer every key at once.

YOUNG_OBJECTS = 7000
"""New objects before a collection: the samples of a hundred nodes would trigger it all the time."""


def freeze_garbage_collector() -> None:
    """Exempt all present objects, which live until the end, from garbage collection, and switch it on.

    A full collection walks everything imported: 60 ms in which no key is answered.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
    gc.enable()


# -- sanitizing app ----------------------------------------------------------------------------------------------------
# Sanitising of text that leaves the console other than by its screens: clipboard, toasts, Textual's panic text.


class SanitizingApp(App[int]):
    """An app that sanitises all such text in one place, whatever its origin: names and messages are foreign."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.error_console.file = unwrap_stream(sys.stderr)  # to which it writes colours of its own
        self.error_console.push_render_hook(SanitizingSegments(self.error_console))

    def copy_to_clipboard(self, text: str) -> None:
        """Copy, sanitised: a terminal obeys pasted text like typed text."""
        super().copy_to_clipboard(sanitize(text))

    def copy_lines(self, lines: Iterable[str]) -> None:
        """The same without line feeds in a line: what is pasted after a line feed, a shell runs."""
        self.copy_to_clipboard("\n".join(map(single_line, lines)))

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Notify like Textual, but with ``markup`` off by default."""
        super().notify(sanitize(message), title=sanitize(title), severity=severity, timeout=timeout, markup=False)


class SanitizingSegments(RenderHook):
    """Sanitises what a console prints before it adds its own sequences: a traceback quotes its exception's text."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Return the renderables as sanitised segments."""
        return [
            Segments([Segment(sanitize(text), style, control) for text, style, control in self._console.render(each)])
            for each in renderables
        ]
