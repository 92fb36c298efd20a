"""Searches from the Bench: starting one from its set-up, and showing the running and stored ones."""

from __future__ import annotations

import asyncio

from textual import work

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import StepState, StepView
from labconsole.errors import LabError
from labconsole.model.design_point import DesignPoint
from labconsole.model.plan.plan import Plan
from labconsole.tui.parts.dialogs import AskSearch
from labconsole.tui.parts.screen import ConsoleScreen
from labconsole.tui.parts.step_screen import StepScreen, StepSelection


class BenchSearchScreen(ConsoleScreen):
    """The actions of the Bench for searches."""

    def requested(self) -> DesignPoint | None:
        """The design point of the set-up, or None if it is wrong, after a message. The Bench implements it."""
        raise NotImplementedError

    def action_search(self) -> None:
        """Ask for the goal and start a search, or show the running one."""
        execution = self.state.execution
        if execution is not None and execution.running and execution.salt:
            self._show_search(execution)
            return
        if self.only_watches() or self.console_app.busy():
            return
        request = self.requested()
        if request is not None:
            self.app.push_screen(AskSearch(request, self.session), self._begin_search)

    def _begin_search(self, plan: Plan | None) -> None:
        execution = self.console_app.start_search(plan) if plan is not None else None
        if execution is not None:
            self._show_search(execution)

    def _show_search(self, execution: PlanExecution) -> None:
        def newest() -> StepSelection:  # after a take-over it is another
            now = self.state.execution
            return StepSelection.of(now if now is not None and now.plan is execution.plan else execution)

        self.app.push_screen(StepScreen(self.console_app, newest))

    @work(exclusive=True, group="earlier")
    async def action_earlier(self) -> None:
        """Show the stored searches of this testbed, by any operator. Arrows step through them."""
        try:
            found = await asyncio.to_thread(self.session.earlier_steps)
        except LabError as exc:
            self.console_app.tell(str(exc), "error")
            return
        if not found:
            self.console_app.tell("No search is stored of this testbed yet.")
            return
        earlier = StepSelection("stored searches", [StepView(step, StepState.STORED, record) for step, record in found])
        self.app.push_screen(StepScreen(self.console_app, lambda: earlier, 0))
