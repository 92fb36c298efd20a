"""Running a single search from the console: begin if nothing runs, ask before disturbing others, show the result."""

from __future__ import annotations

from textual import work

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.protocol import SessionLike
from labconsole.errors import LabError, LeaseHeld
from labconsole.model.identity import utc_now
from labconsole.model.plan.plan import Plan
from labconsole.tui.console import clock
from labconsole.tui.console.state import PlanEnd
from labconsole.tui.parts.confirm import take_over_question
from labconsole.tui.parts.trial_runner import TrialRunnerApp


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
