"""Running trials and single searches from the console: begin if nothing runs, ask before disturbing others, stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import work

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.protocol import SessionLike
from labconsole.errors import Aborted, LabError, LeaseHeld, LeaseTaken, OnlyWatches
from labconsole.model.design_point import DesignPoint
from labconsole.model.identity import utc_now
from labconsole.model.plan.plan import Plan
from labconsole.tui.console import clock
from labconsole.tui.console.state import PlanEnd
from labconsole.tui.parts.away_notifier import AwayNotifierApp
from labconsole.tui.parts.dialogs import Confirm, take_over_question

# -- trial runner ------------------------------------------------------------------------------------------------------


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


# -- search runner -----------------------------------------------------------------------------------------------------


class SearchRunnerApp(TrialRunnerApp):
    """Mixed in before Textual's App."""

    def start_search(self, plan: Plan) -> PlanExecution | None:
        """Begin the search of this plan, a new one each time, or return None if something else is running."""
        if self.session is None or self._leaving or self.busy():
            return None
        return self._begin(self.session, plan)

    def _begin(self, session: SessionLike, plan: Plan, *, take_over: bool = False) -> PlanExecution:
        execution = self.state.execution = session.execution(plan, salt=utc_now())
        self.state.ask()
        self._search(session, execution, take_over=take_over)
        return execution

    @work(group="trial")
    async def _search(self, session: SessionLike, execution: PlanExecution, *, take_over: bool) -> None:
        what = f"search of {execution.plan.points[0].request.format_without_load()}"
        refusal: LeaseHeld | None = None
        self.state.note(clock.wall_s(), f"{what} begins")
        try:
            outcome = await session.execute(execution, take_over=take_over)
        except LeaseHeld as exc:
            refusal = exc
        except LabError as exc:
            self._over("error", f"{what} failed: {exc}", failed=True)
        else:
            refused = outcome.steps.refused
            seen = next((each for each in execution.steps.seen if each.record is not None), None)
            if refused or seen is None or seen.record is None:
                self._over(
                    "warning",
                    f"{what}: {'; '.join(refused) or 'stopped; its trials are kept as runs, the search itself is not'}",
                )
            else:
                found = "; ".join(seen.picture.found) or f"{len(seen.picture.trials)} trials"
                failure = f"; not completed: {seen.record.failure}" if seen.record.failure else ""
                severity = "warning" if failure else "information"
                self._over(severity, f"{what}: {found}{failure}")
        finally:
            self.state.run_ended()
        if refusal is not None and take_over:
            self.tell(str(refusal), "error")
        elif refusal is not None:
            self._ask_take_over_for(refusal, execution.plan)

    def _over(self, severity: str, text: str, *, failed: bool = False) -> None:
        self.plan_over(PlanEnd(clock.wall_s(), severity, text, failed=failed))
        self.tell(text, severity)

    @work(group="ask", exclusive=True)
    async def _ask_take_over_for(self, refusal: LeaseHeld, plan: Plan) -> None:
        """Ask before taking the testbed from another operator, and name them. Takes it only on a yes."""
        self.state.note(clock.wall_s(), str(refusal), "warning")
        wanted = await self.push_screen_wait(take_over_question(refusal))
        if wanted and self.session is not None and not self.trial_runs():
            self._begin(self.session, plan, take_over=True)
