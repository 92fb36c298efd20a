"""A queue of keys: each is handled completely before the next.

Textual passes a key to the widget that has the focus now, and then from queue to queue up to its binding. Keys that
arrive in one burst (a paste in tmux, a busy machine, a fast hand) go to that widget too, although the first of them
moves the focus or opens a dialog.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial

from textual import events
from textual.app import App
from textual.driver import Driver
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

LOOK_S = 0.05
"""Interval for checking whether the widget that has the key still exists."""

LIMIT_S = 2.0
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
            self._looks = self.set_interval(LOOK_S, partial(self._look, passed, widget))

    async def _look(self, passed: Passed, widget: Widget) -> None:
        if passed is not self._under_way:
            return
        self._looked += 1
        busy = self._looked * LOOK_S > LIMIT_S
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
