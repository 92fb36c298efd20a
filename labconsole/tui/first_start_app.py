"""How the console begins where there is no testbed yet, and goes on once there is one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from textual.app import App

from labconsole.engine.protocol import SessionFactory, SessionLike
from labconsole.tui.console.first_start import FirstStart
from labconsole.tui.parts.screen import DocumentedScreen


class FirstStartApp(App[int]):
    """Mixed in before Textual's App. Without ``_factory`` there is no testbed, and it is the ``_first`` start."""

    _factory: SessionFactory | None
    _first: FirstStart | None = None
    _check_at_once = False
    afterwards: Callable[[], int] | None = None
    """What is done once the console is left."""

    def _open(self) -> None:
        raise NotImplementedError

    def leave(self) -> object:
        """End everything, and the console."""
        raise NotImplementedError

    def show_first_start(self) -> None:
        """There is no testbed yet."""
        from labconsole.tui.screens.first.screen import FirstScreen

        if self._first is not None:
            self.push_screen(FirstScreen(self, self._first))

    def start_session(self, session: Callable[[], SessionLike]) -> None:
        """There is a testbed: go on with it, and check it."""
        self._factory, self._check_at_once = session, True
        self.pop_screen()
        self._open()

    async def check_new_testbed(self) -> None:
        """All nodes of a testbed that was made just now were tried: is it fit to measure on?"""
        if self._check_at_once:
            await self.switch_mode("check")
            self.screen.call_after_refresh(partial(self.screen.run_action, "run"))

    def leave_and_run(self, afterwards: Callable[[], int]) -> None:
        """Leave the console, and do this then."""
        self.afterwards = afterwards
        self.leave()

    async def give_up(self) -> None:
        """What is under way on the screens in front is ended, and undone."""
        for screen in self.screen_stack:
            if isinstance(screen, DocumentedScreen):
                await screen.give_up()
