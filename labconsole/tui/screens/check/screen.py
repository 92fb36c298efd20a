"""Check: is this testbed fit to measure on? Every result as it arrives, with its evidence and a remedy."""

from __future__ import annotations

import asyncio

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll

from labconsole.engine.calibration import CalibrationOffer, CalibrationProgress
from labconsole.engine.check.result import CheckResult, CheckStatus
from labconsole.engine.protocol import SessionLike
from labconsole.errors import Aborted, LabError
from labconsole.model.plan.plan import Plan
from labconsole.text.cells import format_duration, safe
from labconsole.tui.console import clock
from labconsole.tui.parts import plan_files
from labconsole.tui.parts.action import Action, KeyBar
from labconsole.tui.parts.dialogs import Confirm
from labconsole.tui.parts.lines import Lines, Span
from labconsole.tui.parts.screen import PAUSE, Application, ConsoleScreen, abort_action, back_to_bench_action
from labconsole.tui.parts.status import EventLines, Tab
from labconsole.tui.parts.table import LineTable
from labconsole.tui.screens.check import checks_table
from labconsole.tui.screens.check.checks_table import LOOKS, TESTBED, CheckDetails, ChecksTable

INTRODUCTION = (
    "Press {check-run} to check the testbed: every node reports what a measurement depends on, a few marked frames "
    "are sent over every cable, and a small flow through every platform. Nothing is changed for good unless you press "
    "{check-fix} to fix something, and no run is saved. With a plan chosen ({check-plan}), it also checks whether that "
    "plan can be run here."
)
ONLY_WATCHES = "This console only watches (--read-only): it checks nothing."


class CheckSummary(Lines):
    """The check under way and its state, in one line."""

    def __init__(self) -> None:
        super().__init__(id="check-summary")
        self.spans: list[Span] = []

    def lines(self, width: int) -> list[list[Span]]:
        return [self.spans]


class CheckScreen(ConsoleScreen):
    """No node is queried until the operator presses the key for it."""

    CSS_PATH = "screen.tcss"
    ACTIONS = (
        Action("r", "run", "Check", "Check the testbed.", id="check-run", changes=True, title="Check the testbed"),
        abort_action("check-abort", "Abort the check and keep its results, or abort what runs.", "Abort the check"),
        Action(
            "x",
            "fix",
            "Fix",
            "Fix what can be fixed from here, after asking.",
            id="check-fix",
            changes=True,
            title="Fix what the check found",
        ),
        Action(
            "c",
            "calibrate",
            "Calibrate",
            "Measure what sources and sinks can do without the UUT, after asking.",
            id="check-calibrate",
            changes=True,
            title="Calibrate…",
        ),
        Action(
            "p",
            "plan(1)",
            "Plan",
            "Choose the plan to check for: none, or one of the files that Plans lists.",
            id="check-plan",
            changes=True,
            title="Check for another plan",
        ),
        Action(
            "w",
            "problems",
            "Problems",
            "Show only checks that did not pass, or all of them.",
            id="check-problems",
            title="Show only problems",
        ),
        Action(
            "f",
            "next",
            "Next",
            "Go to the next check that did not pass.",
            id="check-next",
            title="Next problem",
            shown=False,
        ),
        back_to_bench_action("check"),
        PAUSE,
    )
    AUTO_FOCUS = "#checks"

    def __init__(self, app: Application, session: SessionLike, tab: Tab) -> None:
        super().__init__(app, session, tab)
        self._checking = self._aborted = False
        self._begun_s: float | None = None
        self._took_s: float | None = None
        self._problem = ""
        self._plans: list[Plan] = []
        self._plan: Plan | None = None
        """The plan for the next check, or None."""

        self._taken_for: Plan | None = None
        """The plan that the results are for, or None."""

        self._taken_at_wall_s: float | None = None

    def compose(self) -> ComposeResult:
        yield self.top_bar()
        yield self.measuring_line()
        yield CheckSummary()
        with Container(id="check-area"):
            yield ChecksTable(self.session.inventory)
            with VerticalScroll(id="check-box") as box:
                box.border_title = "Result"
                yield CheckDetails()
        yield EventLines(self.state)
        yield KeyBar()

    def begin(self) -> None:
        self.load_plans()
        self.query_one(CheckDetails).first = ONLY_WATCHES if self.session.read_only else self.insert_keys(INTRODUCTION)
        envelope = self.session.envelope
        self._tell_calibration(list(checks_table.format_envelope(envelope)) if envelope is not None else [])

    def come_to_front(self) -> None:
        self.load_plans()

    @work(exclusive=True, group="check-plans")
    async def load_plans(self) -> None:
        """Load the plans. The Plans screen reports broken ones."""
        try:
            found = await asyncio.to_thread(plan_files.scan, self.session.inventory, {}, self.session.check_background)
        except LabError as exc:
            self.console_app.tell(str(exc), "error")
            return
        self._plans = [entry.plan for entry in found if entry.plan is not None]

    def _busy(self) -> str:
        """Return why no check can begin now, or ""."""
        if self._checking:
            return "A check is running."
        if self.state.requested or self.session.running:
            return f"A {self.state.what_runs} is running, and a check would disturb it. Wait, or abort it."
        for node, holder in self.session.lease_holders().items():
            return f"A check would disturb another session: {node} is leased by {holder.describe()}."
        return ""

    @work(group="check")
    async def check(self, *, fix: bool = False) -> None:
        """Run a check. Results arrive one by one."""
        table = self.query_one(ChecksTable)
        self._checking, self._begun_s, self._took_s, self._problem = True, clock.monotonic_s(), None, ""
        self._aborted, self._taken_for, self.state.checking = False, self._plan, True
        table.clear()
        self.query_one(CheckDetails).result = None
        self._paint_results()

        def take(result: CheckResult) -> None:
            if self.is_up:
                table.add(result)

        try:
            await self.session.check(plan=self._taken_for, fix=fix, on_result=take)
        except LabError as exc:
            self._problem = str(exc)
            self.console_app.tell(f"check: {exc}", "error")
        finally:
            self._checking = self.state.checking = False
            self._taken_at_wall_s = clock.wall_s()
            self._took_s = clock.monotonic_s() - self._begun_s
        if not self.is_up:
            return
        if not self._problem:
            counts = table.counts
            bad = counts[CheckStatus.FAIL]
            severity = "error" if bad else "warning" if counts[CheckStatus.WARN] else "information"
            word = "check aborted: " if self._aborted else "check: "
            self.state.note(clock.wall_s(), word + self._counted(), severity)
        self._paint_results()
        table.settle()

    @work(group="ask", exclusive=True)
    async def action_calibrate(self) -> None:
        """Ask, with a description of the calibration."""
        if self.only_watches():
            return
        busy = self._busy()
        if busy:
            self.console_app.tell(busy, "warning")
            return
        try:
            plan = self._plan
            points = [point.request for point in plan.points] if plan is not None else ()
            offer = await self.session.calibration_offer(points)
        except LabError as exc:
            self.console_app.tell(f"calibration: {exc}", "error")
            return
        cables = checks_table.cable_lines(offer)
        if cables:
            self._tell_calibration(cables)
        if not await self.app.push_screen_wait(Confirm(*checks_table.build_question(offer, plan))):
            return
        busy = self._busy()
        if busy:
            self.console_app.tell(busy, "warning")
        else:
            self.calibrate(offer)

    @work(group="calibration")
    async def calibrate(self, offer: CalibrationOffer) -> None:
        """Run a calibration. Each trial adds a line, and the findings stay visible."""
        lines: list[str] = []

        def take(progress: CalibrationProgress) -> None:
            lines.append(progress.doing)
            self.state.calibration = progress
            if self.is_up:
                self._tell_calibration(lines)

        self.state.calibrating, self.state.calibration = True, None
        self.state.ask()
        severity = "information"
        try:
            envelope = await self.session.calibrate(offer, take)
            lines, text = list(checks_table.format_envelope(envelope)), "the testbed is calibrated"
        except Aborted:
            text = "the calibration was aborted, and nothing of it is kept"
            lines.append(text)
        except LabError as exc:
            text, severity = f"calibration: {exc}", "error"
            lines.append(text)
        finally:
            self.state.calibrating = False
            self.state.run_ended()
        again = " Put the cables back before you measure." if offer.cables else ""
        self.console_app.tell(text + again, severity)
        if self.is_up:
            self._tell_calibration(lines, end=False)

    def _tell_calibration(self, lines: list[str], *, end: bool = True) -> None:
        """Show lines in place of the result under the cursor, with the newest, or else the first, line in sight."""
        details, box = self.query_one(CheckDetails), self.query_one("#check-box", VerticalScroll)
        details.result, details.calibration = None, lines
        details.refresh(layout=True)
        details.paint()
        if lines and end and self.state.calibrating:
            self.call_after_refresh(box.scroll_end, animate=False)
        elif lines and not end:
            self.call_after_refresh(box.scroll_home, animate=False)
        self._paint_results()

    def _counted(self) -> str:
        counts = self.query_one(ChecksTable).counts
        return ", ".join(f"{counts[status]} {status.value}" for status in CheckStatus if counts[status]) or "no result"

    def paint_clock(self) -> None:
        if self._checking:
            self._paint_results()

    def paint_data(self) -> None:
        self.query_one(EventLines).paint()
        self._paint_results()

    def _paint_results(self) -> None:
        table, summary = self.query_one(ChecksTable), self.query_one(CheckSummary)
        spans: list[Span] = [(" ", "")]
        if self._checking and self._begun_s is not None:
            word = "▶ aborting the check " if self._aborted else "▶ checking "
            spans += [(word, "accent"), (f"{format_duration(clock.monotonic_s() - self._begun_s)}  ", "muted")]
        elif self._problem:
            spans += [("✗ ", "bad"), (safe(self._problem, 200) + "  ", "bad")]
        elif self._took_s is not None:
            word, tone = ("■ aborted ", "warn") if self._aborted else ("■ checked ", "strong")
            spans += [(word, tone), (f"in {format_duration(self._took_s)}{self._when()}  ", "muted")]
        else:
            spans.append(("○ not checked in this session yet  ", "muted"))
        counts = table.counts
        for status in CheckStatus:
            if counts[status]:
                glyph, tone = LOOKS[status]
                spans.append((f"{glyph} {counts[status]} {status.value}  ", tone))
        if table.problems_only:
            spans.append(("only problems are shown · ", "warn"))
        spans += self._format_scope()
        if not self.state.calibrating:  # during a calibration runs are compared with none
            spans.append((" · " + checks_table.format_calibration_age(self.session.envelope, clock.wall_s()), "muted"))
        summary.spans = spans
        summary.paint()
        table.paint()
        self.query_one(CheckDetails).paint()

    def _when(self) -> str:
        if self._taken_at_wall_s is None:
            return ""
        ago_s = max(0.0, clock.wall_s() - self._taken_at_wall_s)
        return f", {format_duration(ago_s)} ago"

    def _format_scope(self) -> list[Span]:
        """The subject of the results, and of the next check if it differs."""
        spans: list[Span] = []
        if self._checking or self._took_s is not None:
            spans.append((_format_plan(self._taken_for), "muted"))
        if not self._checking and (self._took_s is None or self._plan is not self._taken_for):
            spans.append(
                (f"{' · ' if spans else ''}{self.key_of('check-run')} checks {_format_plan(self._plan)}", "muted")
            )
        return [] if self.session.read_only else spans

    @on(LineTable.Chosen, "#checks")
    def show_details(self) -> None:
        details = self.query_one(CheckDetails)
        details.result = self.query_one(ChecksTable).chosen
        details.refresh(layout=True)
        details.paint()

    def action_run(self) -> None:
        if self.only_watches():
            return
        busy = self._busy()
        if busy:
            self.console_app.tell(busy, "warning")
        else:
            self.check()

    @work(group="abort")
    async def action_abort(self) -> None:
        """End a check between two of its steps. Nothing is lost, so there is no question, unlike for a trial."""
        if not self._checking:
            self.console_app.ask_abort()
        elif not self._aborted:
            self._aborted = True
            self._paint_results()
            await self.session.abort()

    @work(group="ask", exclusive=True)
    async def action_fix(self) -> None:
        if self.only_watches():
            return
        busy = self._busy()
        if busy:
            self.console_app.tell(busy, "warning")
            return
        fixable = [r for r in self.query_one(ChecksTable).results if r.fixable and not r.fixed]
        if not fixable:
            self.console_app.tell("The check found nothing that can be fixed from here.")
            return
        what = "\n".join(f"{r.node or TESTBED}: {r.hint or r.title}" for r in fixable[:8])
        more = f"\nand {len(fixable) - 8} more" if len(fixable) > 8 else ""
        problems = "1 problem" if len(fixable) == 1 else f"{len(fixable)} problems"
        if await self.app.push_screen_wait(Confirm(f"Fix {problems}?", safe_lines(what + more))):
            self.check(fix=True)

    def action_plan(self, by: int) -> None:
        """Step through "none" and the plans. The choice is for the next check, not for the present results."""
        if self.only_watches():
            return
        if not self._plans:
            self.console_app.tell("There is no valid plan in plans/.")
            return
        choices: list[Plan | None] = [None, *self._plans]
        names = [plan.name if plan is not None else None for plan in choices]
        here = names.index(self._plan.name) if self._plan is not None and self._plan.name in names else 0
        self._plan = choices[(here + by) % len(choices)]
        self.console_app.tell(f"The next check ({self.key_of('check-run')}) is {_format_plan(self._plan)}.", note=False)
        self._paint_results()
        self.query_one(CheckSummary).refresh()

    def action_problems(self) -> None:
        self.query_one(ChecksTable).turn_problems_only()
        self._paint_results()

    def action_next(self) -> None:
        table = self.query_one(ChecksTable)
        keys = table.problems()
        if not keys:
            self.console_app.tell("No problems found." if table.counts else ChecksTable.EMPTY)
            return
        here = table.cursor_key
        self.set_focus(table)
        table.move_to(next((key for key in keys if here is not None and key > here), keys[0]))

    def lines_to_copy(self) -> list[str]:
        result = self.query_one(ChecksTable).chosen
        if result is None:
            return []
        hint = f" -> {result.hint}" if result.hint else ""
        return [f"{result.node or TESTBED}: {result.status.value}: {result.title}: {result.evidence}{hint}"]


def _format_plan(plan: Plan | None) -> str:
    return "without a plan" if plan is None else f"for plan {safe(plan.name, 40)}"


def safe_lines(text: str) -> str:
    """Sanitise foreign text line by line."""
    return "\n".join(safe(line, 200) for line in text.splitlines())
