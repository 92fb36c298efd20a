"""The console as plain text: one line per event or command, no cursor movement, for a screen reader or a log.

It uses the same session, set-up and texts as the screen, with typed words instead of keys.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

from labconsole.cli.session_runner import read_typed_lines
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import ExecutionStatus, StepState
from labconsole.engine.live.events import Event, NodeState, PhaseChanged, TrialFinished
from labconsole.engine.protocol import SessionLike
from labconsole.errors import LabError, LeaseHeld, LeaseTaken
from labconsole.model.design_point import format_target_per_source
from labconsole.model.plan.loader import load_plan
from labconsole.model.query import QueryError, parse_query
from labconsole.text.cells import format_percent, format_rounded
from labconsole.text.sanitize import sanitize
from labconsole.tui.console import clock, form
from labconsole.tui.console.current_measurement import build_current_measurement
from labconsole.tui.console.form import FormValues
from labconsole.tui.console.plan_text import describe_ending, format_extent, trial_lines
from labconsole.tui.console.state import PHASE_WORDS, ConsoleState

RUNS_LISTED = 10
WATCH_EVERY_S = 0.5
"""Interval of looking at another operator's trial; queries no node."""

INTERRUPT = "\x03"
"""Ctrl-C as one of the lines: abort the running measurement, else quit."""

FIELD_NAMES = tuple(field.name for field in fields(FormValues))


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """A command that can be typed. ``words`` follow its name."""

    does: Callable[[str], Awaitable[None]]
    words: str
    sentence: str


class PlainConsole:
    """``say`` takes one line at a time. ``obey`` takes the typed line; the console ends once ``left`` is set."""

    def __init__(self, session: SessionLike, say: Callable[[str], None]) -> None:
        self._session, self._say = session, say
        self.state = ConsoleState()
        self.values = form.initial_values(session.inventory)
        self.left = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._told = 0
        self._checks = False
        self._told_trials: dict[tuple[PlanExecution, int], int] = {}
        self.commands = {
            "show": TypedCommand(self._show, "", "the set-up, with what each choice means or what is wrong with it"),
            "set": TypedCommand(self._set, "FIELD VALUE", f"change one field: {', '.join(FIELD_NAMES)}"),
            "run": TypedCommand(self._run, "", "measure the set-up, with all its repetitions"),
            "plan": TypedCommand(self._plan, "FILE", "run a plan"),
            "pause": TypedCommand(self._pause, "", "pause the plan after the running trial, or go on"),
            "abort": TypedCommand(self._abort, "", "stop traffic and keep what was measured"),
            "status": TypedCommand(self._status, "", "what is measured now, and how long it still takes"),
            "streams": TypedCommand(self._streams, "", "offered, measured and lost of every stream"),
            "nodes": TypedCommand(self._nodes, "", "the state of every node"),
            "check": TypedCommand(
                self._check, "", "whether the testbed is ready to measure: what is not, and what to do"
            ),
            "runs": TypedCommand(
                self._runs,
                "[NUMBER] [FILTER]",
                f"the newest saved runs (default: {RUNS_LISTED}), of those that match a filter such as platform=raw",
            ),
            "last": TypedCommand(self._last, "", "the last run, its verdict and its reasons"),
            "help": TypedCommand(self._help, "", "this list"),
            "quit": TypedCommand(self._quit, "", "stop what runs, keep what was measured, leave"),
        }
        session.subscribe(self._on_event)

    def say(self, text: str) -> None:
        """Print one line, sanitized."""
        self._say(sanitize(" ".join(text.split())))

    def _on_event(self, event: Event) -> None:
        wall_s = clock.wall_s()
        self.state.apply(event, now_s=clock.monotonic_s(), wall_s=wall_s)
        if isinstance(event, PhaseChanged):
            takes = f", {event.expected_s:.0f} s" if event.expected_s else ""
            self._say_with_time(f"{PHASE_WORDS[event.phase]}{f' ({event.detail})' if event.detail else ''}{takes}")
        self._tell_notes()
        if isinstance(event, TrialFinished) and event.kept:
            self._tell_last()

    def _tell_notes(self) -> None:
        """Print the state's notes since the last call: at most as many as it keeps."""
        total = self.state.journal.total
        for entry in list(self.state.journal.entries)[-(total - self._told) :] if total > self._told else ():
            mark = "" if entry.severity in ("debug", "information") else f"{entry.severity}: "
            self._say_with_time(f"{mark}{f'{entry.node}: ' if entry.node else ''}{entry.text}")
        self._told = total

    def _say_with_time(self, text: str) -> None:
        self.say(f"{datetime.fromtimestamp(clock.wall_s(), UTC):%H:%M:%S} {text}")

    def _note(self, text: str, severity: str = "information") -> None:
        self.state.note(clock.wall_s(), text, severity)
        self._tell_notes()

    async def run_command(self, line: str) -> None:
        """Run the typed command."""
        if line == INTERRUPT:
            line = "abort" if self._measures else "quit"
        name, _, rest = line.strip().partition(" ")
        if not name:
            return
        found = [each for each in self.commands if each.startswith(name.lower())]
        command = self.commands.get(name.lower()) or (self.commands[found[0]] if len(found) == 1 else None)
        if command is None:
            self.say(f"unknown command {name!r}; type help for the list")
            return
        if rest.strip() and not command.words:
            self.say(f"{name} takes no further words, got {rest.strip()!r}")
            return
        try:
            await command.does(rest.strip())
        except LabError as exc:
            self.say(f"error: {exc}")

    def _reading(self) -> form.FormReading:
        return form.read_form(self.values, self._session.inventory, self._session.check_now)

    async def _show(self, _: str) -> None:
        reading = self._reading()
        for name in FIELD_NAMES:
            problem = reading.problems.get(name)
            hint = reading.hints.get(name, ("",))[0]
            text = f"wrong: {problem.sentence}" if problem is not None else hint
            self.say(f"{name} {getattr(self.values, name)}{f': {text}' if text else ''}")

    async def _set(self, rest: str) -> None:
        name, _, value = rest.partition(" ")
        if name not in FIELD_NAMES or not value.strip():
            self.say(f"set takes a field and a value; the fields are {', '.join(FIELD_NAMES)}")
            return
        self.values = replace(self.values, **{name: value.strip()})
        problem = self._reading().problems.get(name)
        self.say(f"{name} {value.strip()}" + (f" is refused: {problem.sentence}" if problem is not None else ""))

    @property
    def _measures(self) -> bool:
        return self._work is not None and not self._work.done()

    def _busy(self) -> bool:
        if self._measures:
            self.say("something is running; abort stops it")
        return self._measures

    async def _run(self, _: str) -> None:
        reading = self._reading()
        if reading.request is None:
            for problem in reading.problems.values():
                self.say(f"not started: {problem.sentence}")
        elif not self._busy():
            self.state.ask()
            self._begin(self._measure(self._session.run(reading.request, reading.repetitions)))

    async def _plan(self, rest: str) -> None:
        if not rest:
            self.say("plan takes a file, such as plans/sanity.yaml")
            return
        plan = await asyncio.to_thread(load_plan, Path(rest), self._session.inventory)
        if self._busy():
            return
        execution = self._session.execution(plan)
        self.state.execution = execution
        self.state.ask()
        self._note(f"plan {plan.name} begins: {format_extent(plan)}")

        async def take() -> None:
            outcome = await self._session.execute(execution)
            self._tell_steps()
            self._note(f"plan {plan.name}: {describe_ending(plan, outcome)}")

        self._begin(self._measure(take()))

    def _begin(self, work: Awaitable[None]) -> None:
        self._work = asyncio.ensure_future(work)

    async def _measure(self, work: Awaitable[object]) -> None:
        try:
            await work
        except LeaseHeld as exc:
            self._note(f"not started: {exc}; `labconsole run --take-over` takes the testbed from them", "error")
        except LeaseTaken:
            pass  # the session's notice reported it when it happened
        except LabError as exc:
            self._note(str(exc), "error")
        finally:
            self._checks = False
            self.state.run_ended()
            self._say_with_time("ready")

    def _refuse_foreign(self, nothing: str) -> str:
        """Why there is nothing to stop: this console only watches, or nothing is running."""
        return "this console only watches" if self.state.read_only else nothing

    async def _pause(self, _: str) -> None:
        execution = self.state.execution
        if execution is None or not execution.running:
            self.say(self._refuse_foreign("no plan is running"))
        elif execution.status in (ExecutionStatus.PAUSED, ExecutionStatus.PAUSING):
            execution.resume()
            self._note(f"plan {execution.plan.name} resumes")
        else:
            execution.pause()
            self._note(f"plan {execution.plan.name} pauses after this trial; the testbed is kept")

    def _tell_steps(self) -> None:
        """Print a line for every trial of the plan's steps that was judged since."""
        execution = self.state.execution
        for number, seen in enumerate(execution.steps.seen if execution is not None else ()):
            if execution is not None and seen.state in (StepState.RUNNING, StepState.DONE, StepState.FAILED):
                for line in trial_lines(seen.picture, self._told_trials.get((execution, number), 0)):
                    self._say_with_time(line)
                self._told_trials[execution, number] = len(seen.picture.trials)

    async def watch(self) -> None:
        """Report the trials of other operators on this testbed, phase by phase, and the trials of a search."""
        reported: tuple[str, object] | None = None
        while True:
            self._tell_steps()
            trial = self.state.observed = self._session.observed_trial()
            now = (trial.run_id, trial.phase) if trial is not None else None
            if trial is not None and now != reported:
                phase = PHASE_WORDS[trial.phase] if trial.phase is not None else "measuring"
                self._say_with_time(f"{trial.operator} measures {trial.guest_words or trial.request.words()}: {phase}")
            elif now is None and reported is not None:
                self._say_with_time("the other operator's trial is over")
            reported = now
            await asyncio.sleep(WATCH_EVERY_S)

    async def _abort(self, _: str) -> None:
        if self._work is None or self._work.done():
            self.say(self._refuse_foreign("nothing is running"))
            return
        if self._checks:
            self._work.cancel()
            await asyncio.wait([self._work])
            return
        self.state.stopping = True
        execution = self.state.execution
        if execution is not None and execution.running:
            await execution.abort()
        else:
            await self._session.abort()
        await asyncio.wait([self._work])

    async def _status(self, _: str) -> None:
        self.state.observed = self._session.observed_trial()
        now = build_current_measurement(self.state, clock.monotonic_s(), clock.wall_s())
        if now is None:
            self.say("ready, nothing is measured")
            return
        left = f"about {now.left_s:.0f} s left in all" if now.left_s is not None else ""
        by = f"{now.by} measures" if now.by else ""
        self.say(", ".join(word for word in (by, now.what[0], now.plan[0], now.place[0], now.step[0], left) if word))

    async def _streams(self, _: str) -> None:
        streams = self._session.telemetry.streams
        if not streams:
            self.say("nothing was sent yet")
        for live in streams.values():
            lost = live.loss_packets
            about = "" if live.final else "about "
            self.say(
                f"{live.name}: offered {format_rounded(live.offered_packets)} packets, "
                f"measured {format_rounded(live.measured_packets)}, lost {about}{format_rounded(lost)}, "
                f"{format_percent(live.loss_ratio)} percent"
            )

    async def _nodes(self, _: str) -> None:
        for node in self._session.telemetry.nodes.values():
            said = f": {node.message}" if node.message and node.state is not NodeState.CONNECTED else ""
            self.say(f"{node.name}, {' and '.join(node.roles)}: {node.state.value}{said}")
        for name, holder in self._session.lease_holders().items():
            self.say(f"{name} is leased by {holder.describe()}")

    async def _check(self, _: str) -> None:
        if not self._busy():
            self._checks = True
            self._begin(self._measure(self._check_all()))

    async def _check_all(self) -> None:
        results = await self._session.check()
        for result in results:
            if result.status.value not in ("pass", "skipped"):
                where = f"{result.node}: " if result.node else ""
                hint = f". To do: {result.hint}" if result.hint else ""
                self.say(f"{result.status.value}: {where}{result.title}: {result.evidence}{hint}")
        self.say(f"{len(results)} checks, {sum(r.status.value == 'pass' for r in results)} passed")

    async def _runs(self, rest: str) -> None:
        found = re.match(r"([+-]?\d{1,9})(\s|$)", rest, re.ASCII)
        number = int(found[1]) if found else RUNS_LISTED
        if number < 1:
            self.say(f"runs takes a number of 1 or more, got {number}")
            return
        try:
            query = parse_query(rest[found.end() :] if found else rest)
        except QueryError as exc:
            self.say(f"runs: {exc}")
            return
        store, limit = self._session.store, None if query.terms else number
        runs = query.select(await asyncio.to_thread(lambda: list(store.list(limit=limit))))[:number]
        if not runs:
            self.say("no saved run matches" if query.terms else "no runs saved yet")
        for run in runs:
            target = format_target_per_source(run.target_bps, run.frame)
            request = f"{run.platform}, {run.frame_size_bytes or 'mixed'} B, {run.sources} sources at {target}"
            self.say(f"{run.run_id}: {request}, {run.verdict}, loss {format_percent(run.loss_ratio)} percent")

    async def _last(self, _: str) -> None:
        if self.state.last is None:
            self.say("nothing was measured since this console was opened; `runs` lists what is saved")
        else:
            self._tell_last()

    def _tell_last(self) -> None:
        last = self.state.last
        assert last is not None
        for part in last.streams:
            self.say(
                f"{part.name}: offered {format_rounded(part.offered_packets)} packets, "
                f"measured {format_rounded(part.measured_packets)}, lost {format_rounded(part.loss_packets)}, "
                f"{format_percent(part.loss_ratio)} percent"
            )
        self.say(f"verdict: {last.verdict.status}")
        for reason in last.verdict.reasons:
            self.say(f"because: {reason.detail}")

    async def _help(self, _: str) -> None:
        for name, command in self.commands.items():
            self.say(f"{name}{f' {command.words}' if command.words else ''}: {command.sentence}")

    async def _quit(self, _: str) -> None:
        if self._measures:
            await self._abort("")
        self.left.set()


async def converse(session: SessionLike, lines: AsyncIterator[str], say: Callable[[str], None]) -> int:
    """Connect, then obey line by line until quit or the end of the input; then stop running work in order."""
    console = PlainConsole(session, say)
    console.state.read_only = session.read_only
    inventory, watching = session.inventory, None
    console.say(f"labconsole on {inventory.testbed}, {len(inventory.nodes)} nodes; type help for the commands")
    try:
        await session.open()
        await session.connect()
        up = sum(node.state is NodeState.CONNECTED for node in session.telemetry.nodes.values())
        console.say(f"{up} of {len(inventory.nodes)} nodes connected; {'watching' if session.read_only else 'ready'}")
        watching = asyncio.create_task(console.watch())
        async for line in lines:
            await console.run_command(line)
            if console.left.is_set():
                break
        else:
            await console.run_command("quit")
    finally:
        if watching is not None:
            watching.cancel()
        await session.close()
    return 0


def run_plain(make_session: Callable[[], SessionLike]) -> int:
    """Run the plain console on standard input and output. Returns the exit status."""

    def say(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    async def body() -> int:
        return await converse(make_session(), read_typed_lines(INTERRUPT), say)

    return asyncio.run(body())
