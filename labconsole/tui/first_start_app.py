"""The console's start without a testbed, and its continuation with a new one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from textual.app import App

from labconsole.engine.protocol import SessionFactory, SessionLike
from labconsole.tui.console.first_start import FirstStart
from labconsole.tui.parts.screen import DocumentedScreen


class FirstStartApp(App[int]):
    """Mixed in before Textual's App. If ``_factory`` is None there is no testbed, and ``_first`` is the first start."""

    _factory: SessionFactory | None
    _first: FirstStart | None = None
    _check_at_once = False
    afterwards: Callable[[], int] | None = None
    """Called after the operator has left the console."""

    def _open(self) -> None:
        raise NotImplementedError

    def leave(self) -> object:
        """End everything, including the console."""
        raise NotImplementedError

    def show_first_start(self) -> None:
        """Show the first start: there is no testbed yet."""
        from labconsole.tui.screens.first.screen import FirstScreen

        if self._first is not None:
            self.push_screen(FirstScreen(self, self._first))

    def start_session(self, session: Callable[[], SessionLike]) -> None:
        """Continue with the new testbed, and check it."""
        self._factory, self._check_at_once = session, True
        self.pop_screen()
        self._open()

    async def check_new_testbed(self) -> None:
        """Check a new testbed once all its nodes were tried: is it fit to measure on?"""
        if self._check_at_once:
            await self.switch_mode("check")
            self.screen.call_after_refresh(partial(self.screen.run_action, "run"))

    def leave_and_run(self, afterwards: Callable[[], int]) -> None:
        """Leave the console, then call ``afterwards``."""
        self.afterwards = afterwards
        self.leave()

    async def give_up(self) -> None:
        """End the work under way on the screens in front, and undo it."""
        for screen in self.screen_stack:
            if isinstance(screen, DocumentedScreen):
                await screen.give_up()
