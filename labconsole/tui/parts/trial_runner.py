"""Running trials from the console: begin if nothing runs, ask before disturbing others, stop on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import work

from labconsole.engine.protocol import SessionLike
from labconsole.errors import Aborted, LabError, LeaseHeld, LeaseTaken, OnlyWatches
from labconsole.model.design_point import DesignPoint
from labconsole.tui.console import clock
from labconsole.tui.parts.away_notifier import AwayNotifierApp
from labconsole.tui.parts.confirm import Confirm, take_over_question


class TrialRunnerApp(AwayNotifierApp):
    """Mixed in before Textual's App. ``session`` is None until it is open."""

    session: SessionLike | None
    _leaving: bool

    if TYPE_CHECKING:

        def tell(self, message: str, severity: str = "information", *, note: bool = True) -> None:
            """Show a message in the event line and as a toast."""

    def start_run(self, request: DesignPoint, repetitions: int) -> None:
        """Start, unless something is running already."""
        if self.session is None or self._leaving:
            return
        if self.busy():
            return
        self.state.ask()
        self._run(self.session, request, repetitions)

    @work(group="trial")
    async def _run(self, session: SessionLike, request: DesignPoint, repetitions: int, take_over: bool = False) -> None:
        refusal: LeaseHeld | None = None
        try:
            await session.run(request, repetitions, take_over=take_over)
        except LeaseHeld as exc:
            refusal = exc
        except Aborted as exc:
            self.tell(str(exc), "warning")
        except LabError as exc:
            if not isinstance(exc, LeaseTaken):  # the session's notice said so when it happened
                self.tell(str(exc), "error")
            self.failed(str(exc))
        finally:
            self.state.run_ended()
        if refusal is not None and not take_over:
            self._ask_take_over(refusal, request, repetitions)
        elif refusal is not None:
            self.tell(str(refusal), "error")

    @work(group="ask", exclusive=True)
    async def _ask_take_over(self, refusal: LeaseHeld, request: DesignPoint, repetitions: int) -> None:
        """Ask before taking the testbed from another operator, and name them. Takes it only on a yes."""
        self.state.note(clock.wall_s(), str(refusal), "warning")
        question = take_over_question(refusal)
        if await self.push_screen_wait(question) and self.session is not None and not self.trial_runs():
            self.state.ask()
            self._run(self.session, request, repetitions, True)

    @work(group="ask", exclusive=True)
    async def ask_abort(self) -> None:
        """Ask once, then stop."""
        if self.session is None or not (self.state.requested or self.session.running):
            only = self.session is not None and self.session.read_only
            self.tell(str(OnlyWatches()) if only else "Nothing is running.")
            return
        question = Confirm(f"Abort the {self.state.what_runs}?", f"Traffic stops. {self.state.kept_trials_text}")
        if await self.push_screen_wait(question):
            await self.stop_traffic(self.session)

    async def stop_traffic(self, session: SessionLike) -> None:
        if not (self.state.requested or session.running):
            return
        self.state.stopping = True
        self.state.revision += 1
        try:
            await session.abort()
        except LabError as exc:
            self.tell(str(exc), "error")

    def busy(self) -> bool:
        """Whether something is running already. If so, a message says what."""
        if self.trial_runs():
            self.tell(f"A {self.state.what_runs} is running. Wait, or abort it.", "warning")
        return self.trial_runs()

    def trial_runs(self) -> bool:
        return self.session is not None and (self.state.requested or self.session.running)
