"""Base of the screens of results: they follow the saved runs, and update when something changed."""

from __future__ import annotations

from collections.abc import Sequence

from textual import work
from textual.css.query import NoMatches

from labconsole.engine.protocol import SessionLike
from labconsole.model.record.summary import RunSummary
from labconsole.tui.console.saved_runs import SavedRuns
from labconsole.tui.parts.records import RecordsView
from labconsole.tui.parts.screen import Application, ConsoleScreen
from labconsole.tui.parts.status import Tab
from labconsole.tui.parts.stored_trials import StoredTrials

FOLLOW_EVERY_S = 5.0
"""Interval for runs saved by other consoles: two small queries to the store, in a thread."""


class LiveResultsScreen(RecordsView, ConsoleScreen):
    """Subclasses implement ``look``, which uses the runs."""

    def __init__(self, app: Application, session: SessionLike, tab: Tab) -> None:
        super().__init__(app, session, tab)
        self._wanted = self._done = 0
        self._looking = False

    def begin(self) -> None:
        self.follow()
        self.request_update()
        self.set_interval(FOLLOW_EVERY_S, self.follow_if_visible)

    def follow_if_visible(self) -> None:
        """Look for other consoles' runs, while the screen is visible."""
        if self.is_in_view and not self.paused:
            self.follow()

    @property
    def saved(self) -> SavedRuns:
        """All saved runs, as far as they were read."""
        saved = self.console_app.saved
        assert saved is not None  # a screen exists only with a session
        return saved

    async def look(self) -> None:
        """Take the present runs and show the results. Each screen implements it."""
        raise NotImplementedError

    def show_runs(self, runs: Sequence[RunSummary]) -> None:
        """Read the new runs: something was saved."""
        self.follow()

    @work(group="follow")
    async def follow(self, *, again: bool = False) -> None:
        """Read what is not known yet. Every page is shown as it arrives."""
        await self.refresh_saved(again=again)

    def reload_records(self) -> None:
        self.follow(again=True)

    async def refresh_saved(self, *, again: bool) -> None:
        """Read all that is not known. A screen that needs less may override it."""
        await self.saved.refresh(self.request_update, again=again)

    def request_update(self) -> None:
        """Update. Further requests during an update are merged into one more."""
        self._wanted += 1
        if not self._looking and not self.paused and self.is_up:
            self._looking = True
            self._look()

    @work(group="look")
    async def _look(self) -> None:
        try:
            while self._done != self._wanted:
                self._done = self._wanted
                await self.look()
        except NoMatches:
            if self.is_up:  # else the screen was left while the runs were read
                raise
        finally:
            self._looking = False

    def come_to_front(self) -> None:
        self.request_update()

    def show_stored_trials(self, *, drawn: bool = False) -> None:
        """Show the stored trials of guests, which are no runs. ``drawn``: their curves."""

        def saved() -> int:
            execution = self.state.execution
            return 0 if execution is None else sum(each.record is not None for each in execution.steps.seen)

        self.app.push_screen(StoredTrials(self.console_app, self.session.store, saved, drawn=drawn))

    def action_pause(self) -> None:
        super().action_pause()
        self.request_update()
