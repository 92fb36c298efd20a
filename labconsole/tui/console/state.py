"""The console's knowledge beyond telemetry: the trial under way, repetitions, past events, saved runs."""

from __future__ import annotations

import logging
import shlex
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from labconsole.engine.calibration import CalibrationProgress
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.progress import ExecutionStatus
from labconsole.engine.live.events import (
    Event,
    NodeChanged,
    NodeState,
    Notice,
    Phase,
    PhaseChanged,
    TrialFinished,
    TrialStarted,
)
from labconsole.engine.live.observed_trial import ObservedTrial
from labconsole.measure.statistics.repetitions import Summary, summarize
from labconsole.model.design_point import DesignPoint
from labconsole.model.record.run import RunRecord, StreamRecord, Total
from labconsole.model.record.verdict_codes import title
from labconsole.text.cells import format_duration, format_time_left
from labconsole.text.sanitize import sanitize_line
from labconsole.tui.console import clock
from labconsole.tui.console.absence import PresenceWatch
from labconsole.tui.console.plan_text import is_ending_guests
from labconsole.units import format_target

# -- repetition figures ------------------------------------------------------------------------------------------------
# Statistics over the repetitions of one point as they arrive: means with confidence interval, per stream and in total.
#
# Only the values needed for the computation are kept of a record, because a point may be repeated a thousand times. An
# invalid run enters no mean, but it is counted.

TOTAL = ""
"""The key of the total over all streams. No stream can have this name."""


@dataclass(slots=True)
class Quantities:
    """One stream's values, one per run that counts. The summaries are None until there is one."""

    offered_pps: list[float] = field(default_factory=list)
    measured_pps: list[float] = field(default_factory=list)
    loss_ratio: list[float] = field(default_factory=list)
    one_way_ns: list[tuple[float, float]] = field(default_factory=list)
    pdv_ns: list[tuple[float, float]] = field(default_factory=list)
    offered: Summary | None = None
    measured: Summary | None = None
    loss: Summary | None = None

    def add(self, part: StreamRecord | Total) -> None:
        """Add one run. Unknown values are left out, and n shows it."""
        for values, value in (
            (self.offered_pps, part.offered_pps),
            (self.measured_pps, part.measured_pps),
            (self.loss_ratio, part.loss_ratio),
        ):
            if value is not None:
                values.append(value)
        self.offered, self.measured, self.loss = map(_summary, (self.offered_pps, self.measured_pps, self.loss_ratio))
        delay = part.delay if isinstance(part, StreamRecord) else None
        if delay is not None:
            self.pdv_ns.append((delay.pdv_ns.p50, delay.pdv_ns.p99))
            if delay.one_way_ns is not None:
                self.one_way_ns.append((delay.one_way_ns.p50, delay.one_way_ns.p99))

    def delay_ns(self, *, one_way: bool) -> tuple[float, float] | None:
        """Median and 99th percentile, each the mean over the runs: of the one-way delay, or of its variation (PDV)."""
        values = self.one_way_ns if one_way else self.pdv_ns
        return (fmean(p50 for p50, _ in values), fmean(p99 for _, p99 in values)) if values else None


def _summary(values: Sequence[float]) -> Summary | None:
    return summarize(values) if values else None


class RepetitionFigures:
    """Call ``begin`` with every trial and ``add`` with every record."""

    def __init__(self) -> None:
        self.request: DesignPoint | None = None
        self.planned = 0
        self.done = self.invalid = 0
        self.quantities: dict[str, Quantities] = {}

    @property
    def is_worth_showing(self) -> bool:
        """Whether there is, or will be, something to average."""
        return self.planned > 1

    @property
    def one_way(self) -> bool:
        """Whether every run has the one-way delay of every stream. Otherwise only its variation can be compared."""
        known = [each for each in self.quantities.values() if each.pdv_ns]
        return bool(known) and all(len(each.one_way_ns) == len(each.pdv_ns) for each in known)

    def begin(self, request: DesignPoint, repetition: int, repetitions: int) -> None:
        """Begin a trial. The first trial of its point, or another point, starts over."""
        if repetition == 1 or request != self.request:
            self.request, self.done, self.invalid = request, 0, 0
            self.quantities = {}
        self.planned = repetitions

    def add(self, record: RunRecord) -> None:
        """Add a trial that ended."""
        self.done += 1
        if record.verdict.status == "invalid":
            self.invalid += 1
            return
        for stream in record.streams:
            self.quantities.setdefault(stream.name, Quantities()).add(stream)
        self.quantities.setdefault(TOTAL, Quantities()).add(record.total)


# -- journal -----------------------------------------------------------------------------------------------------------
# The journal for the Log screen: the console's notes and log records of labconsole's own loggers.
#
# It is bounded, so that memory stays flat. It starts with the console, because an operator looks at it only after
# something happened.

MOST_ENTRIES = 5000
MAX_CHARACTERS = 2000
"""Maximum characters kept of one entry: a node may send more than an operator reads."""

LOGGER = "labconsole"
SEVERITIES = ("debug", "information", "warning", "error")


@dataclass(frozen=True, slots=True)
class Entry:
    """A journal entry. ``source`` is "console" for notes, or the logger's name."""

    number: int
    at_wall_s: float
    severity: str
    node: str
    source: str
    text: str
    brief: str = ""
    """A shorter text, for places where the full one would be cut."""

    def line(self, stamp: str) -> str:
        """The entry as copied: one line, whatever the text."""
        node = f" {self.node}" if self.node else ""
        return sanitize_line(f"{stamp} {self.severity}{node} [{self.source}] {self.text}")


class EventLog:
    """The newest entries, oldest first. ``total`` counts all entries ever added and changes with each."""

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque(maxlen=MOST_ENTRIES)
        self.total = 0

    def add(
        self, at_wall_s: float, severity: str, text: str, *, node: str = "", source: str = "console", brief: str = ""
    ) -> None:
        """Add an entry."""
        self.total += 1
        known = severity if severity in SEVERITIES else "information"
        self.entries.append(
            Entry(self.total, at_wall_s, known, node[:100], source, text[:MAX_CHARACTERS], brief[:MAX_CHARACTERS])
        )


class JournalHandler(logging.Handler):
    """Adds log records to a journal. Threads may log: appending to a deque is thread-safe."""

    def __init__(self, journal: EventLog) -> None:
        super().__init__()
        self._journal = journal
        self._level = logging.NOTSET

    def attach(self) -> None:
        """Start logging, from level debug on: a fault is often diagnosed from records that seemed useless before it."""
        logger = logging.getLogger(LOGGER)
        self._level = logger.level
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self)

    def detach(self) -> None:
        """Stop logging, and restore the loggers."""
        logger = logging.getLogger(LOGGER)
        logger.removeHandler(self)
        logger.setLevel(self._level)

    def emit(self, record: logging.LogRecord) -> None:
        """Add one record. An exception's last line is part of it."""
        try:
            text = record.getMessage()
        except (TypeError, ValueError) as exc:
            text = f"{record.msg} ({exc})"
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            text += f" ({type(error).__name__}: {error})"
        severity = (
            "error"
            if record.levelno >= logging.ERROR
            else "warning"
            if record.levelno >= logging.WARNING
            else "information"
            if record.levelno >= logging.INFO
            else "debug"
        )
        source = record.name.removeprefix("labconsole.")
        self._journal.add(clock.wall_s(), severity, " ".join(text.split()), source=source)


# -- state -------------------------------------------------------------------------------------------------------------
# Pure: takes events and clock readings, returns text and numbers. Screens read it when they paint.

PHASE_WORDS = {
    Phase.PREPARING: "preparing the platform",
    Phase.LEARNING: "learning addresses",
    Phase.ARMING: "arming captures and generators",
    Phase.SENDING: "sending",
    Phase.DRAINING: "draining",
    Phase.COUNTING: "counting packets in captures",
    Phase.SAVED: "saved",
    Phase.SETTLING: "settling",
    Phase.MEASURING: "measuring",
}
NOTES = 200
"""Maximum notes kept for the event line, so that memory stays flat over hours."""

MOST_LISTED_IDS = 20
"""Maximum run ids in a command that lists them. If there are more, the command names the time."""

VERDICT_GLYPHS = {"valid": "✓", "suspect": "?", "invalid": "✗"}
VERDICT_TONE = {"valid": "good", "suspect": "warn", "invalid": "bad"}


@dataclass(frozen=True, slots=True)
class Note:
    """One line for the operator. ``severity``: information, warning or error. ``brief``: text for little room."""

    at_wall_s: float
    severity: str
    text: str
    brief: str = ""


@dataclass(frozen=True, slots=True)
class PlanEnd:
    """How a plan, or a batch of repetitions, ended. It stays visible until the operator has read it."""

    at_wall_s: float
    severity: str
    text: str
    failed: bool = False

    @property
    def look(self) -> tuple[str, str]:
        """Glyph and tone."""
        return ("✗", "bad") if self.failed else ("!", "warn") if self.severity != "information" else ("✓", "good")


@dataclass(slots=True)
class TrialView:
    """The trial under way. Times are readings of the console's monotonic clock."""

    run_id: str
    request: DesignPoint
    repetition: int
    repetitions: int
    started_s: float
    phase: Phase | None = None
    phase_started_s: float = 0.0
    expected_s: float | None = None
    timed_s: float = 0.0
    """Seconds spent in finished steps of known length."""

    detail: str = ""


@dataclass(slots=True)
class ConsoleState:
    """Everything screens show except samples. ``revision`` changes with every change."""

    wait_per_trial_s: float = 0.0
    """Configured time of a trial beyond its traffic (drain and settle)."""

    revision: int = 0
    trial: TrialView | None = None
    requested: bool = False
    """True from Run until the engine's run() returned, so that the operator cannot start twice."""

    stopping: bool = False
    last: RunRecord | None = None
    notes: deque[Note] = field(default_factory=lambda: deque(maxlen=NOTES))
    journal: EventLog = field(default_factory=EventLog)
    done: dict[DesignPoint, int] = field(default_factory=dict)
    """Points measured in this session, with the number of their usable runs (0 if all were invalid)."""

    connecting: set[str] = field(default_factory=set)
    """Nodes that are still connecting."""

    connected: set[str] = field(default_factory=set)
    announcer: str = ""
    """The node at which other operators' trials are announced: the source of the first stream."""

    read_only: bool = False
    """This console only watches."""

    observed: ObservedTrial | None = None
    """The measurement of another operator, if it is announced."""

    checking: bool = False
    """A check of the testbed is running."""

    calibrating: bool = False
    """A calibration is running: the trials are its own."""

    calibration: CalibrationProgress | None = None
    """Progress of the present or last calibration."""

    execution: PlanExecution | None = None
    """The plan that runs or ran last."""

    plan_over: PlanEnd | None = None
    """How the last plan ended, until it was read or the next one begins."""

    watch: PresenceWatch = field(default_factory=lambda: PresenceWatch(clock.wall_s()))
    wanted_run: str | None = None
    """The run that another screen wants shown. The screen that shows it sets this to None."""

    saved_runs: list[tuple[str, str]] = field(default_factory=list)
    """Id and start (UTC) of each run that this console saved."""

    trial_took_s: float | None = None
    repetitions: RepetitionFigures = field(default_factory=RepetitionFigures)

    def note(
        self,
        at_wall_s: float,
        text: str,
        severity: str = "information",
        node: str = "",
        joint: str = ": ",
        *,
        brief: str = "",
    ) -> None:
        """Add a line to the event line and to the log. ``brief``: a shorter text, for notes that name no node."""
        self.notes.append(Note(at_wall_s, severity, f"{node}{joint}{text}" if node else text, brief))
        self.journal.add(at_wall_s, severity, text, node=node, brief=brief)
        self.revision += 1

    def apply(self, event: Event, *, now_s: float, wall_s: float) -> None:
        """Apply one event of the engine."""
        self.revision += 1
        if isinstance(event, TrialStarted):
            self._start(event, now_s, wall_s)
        elif isinstance(event, PhaseChanged):
            if self.trial is not None and event.run_id in (self.trial.run_id, ""):  # "": between two trials
                if self.trial.expected_s:
                    self.trial.timed_s += now_s - self.trial.phase_started_s
                self.trial.phase, self.trial.phase_started_s = event.phase, now_s
                self.trial.expected_s, self.trial.detail = event.expected_s, event.detail
        elif isinstance(event, TrialFinished):
            self._finish(event, wall_s)
        elif isinstance(event, NodeChanged):
            (self.connecting.add if event.state is NodeState.CONNECTING else self.connecting.discard)(event.node)
            (self.connected.add if event.state is NodeState.CONNECTED else self.connected.discard)(event.node)
            bad = event.state in (NodeState.LOST, NodeState.FAILED)
            text = event.state.value + (f": {event.message}" if event.message else "")
            self.note(wall_s, text, "error" if bad else "information", event.node, " ")
        elif isinstance(event, Notice):
            self.note(wall_s, event.message, event.severity, event.node or "")

    def _start(self, event: TrialStarted, now_s: float, wall_s: float) -> None:
        if self.trial is not None and event.repetition > 1:
            self.trial_took_s = now_s - self.trial.started_s
        self.trial = TrialView(event.run_id, event.request, event.repetition, event.repetitions, now_s)
        self.repetitions.begin(event.request, event.repetition, event.repetitions)
        which = f" ({event.repetition} of {event.repetitions})" if event.repetitions > 1 else ""
        request, head = event.request, f"trial {event.run_id}{which}: "
        brief = f"{head}{request.platform} {request.frame.bytes} B {request.sources}×{format_target(request.wish)}"
        self.note(wall_s, head + request.words(), brief=brief)

    def _finish(self, event: TrialFinished, wall_s: float) -> None:
        record = event.record
        if self.calibrating:
            return  # the UUT was bypassed: that is no result
        self.last = record
        if not event.kept:
            self.note(wall_s, f"{record.run_id} was a warm-up and was not saved, {record.verdict.status}")
            return
        self.repetitions.add(record)
        verdict = record.verdict
        point = record.requested.point
        if record.role not in ("pilot", "telemetry") and point is not None:
            self.done[point] = self.done.get(point, 0) + (verdict.status != "invalid")
        first = next(iter(verdict.reasons), None)
        if event.saved:
            self.saved_runs.append((record.run_id, record.started_at))
        word = "saved" if event.saved else "NOT SAVED"
        severity = "error" if not event.saved else "information" if verdict.status == "valid" else "warning"
        head = f"{word} {record.run_id}, {verdict.status}"
        if first is None:
            self.note(wall_s, head, severity)
        else:
            self.note(wall_s, f"{head}: {first.detail}", severity, brief=f"{head}: {title(first.code)}")

    def ask(self) -> None:
        """Note that the operator starts something. The previous end is read by then."""
        self.requested, self.plan_over = True, None
        self.revision += 1

    def describe_saved_runs(self, location: str | None) -> list[str]:
        """The lines printed on leaving: what was saved, or how to list it if that is long."""
        ids, where = [run_id for run_id, _ in self.saved_runs], f" in {location}" if location else ""
        if len(ids) < 2:
            return [f"1 run saved{where}: {run_id}" for run_id in ids]
        store = f" --store {shlex.quote(location)}" if location else ""
        if len(ids) <= MOST_LISTED_IDS:
            wanted, purpose = f"run={','.join(ids)}", "to list them"
        else:
            first, last = (at[:19] for at in (self.saved_runs[0][1], self.saved_runs[-1][1]))
            wanted, purpose = f"started>={first} started<={last}", "to list all runs of this time, from any console"
        return [
            f"{len(ids)} runs saved{where}: {ids[0]} to {ids[-1]}",
            f"{purpose}: labconsole runs list --limit {10_000 if len(ids) > MOST_LISTED_IDS else len(ids)} "
            f"--where {shlex.quote(wanted)}{store}",
        ]

    @property
    def what_runs(self) -> str:
        """The work that occupies the session: calibration, search, check, plan or trial."""
        plan = self.execution is not None and self.execution.running
        if self.calibrating:
            return "calibration"
        if plan and self.execution is not None and self.execution.salt:
            return "search"
        return "check" if self.checking else "plan" if plan else "trial"

    @property
    def kept_trials_text(self) -> str:
        """Describe what is kept if the running work is stopped."""
        if self.calibrating:
            return "Nothing of it is kept."
        plan = self.execution.plan if self.execution is not None and self.execution.running else None
        again = plan is not None and (plan.set_ups is not None or plan.guests is not None)
        return "Finished trials are kept" + ("; an unfinished set-up is measured again." if again else ".")

    @property
    def current_request(self) -> DesignPoint | None:
        """The design point under way, of this console or the watched one. None if guests are measured."""
        if self.trial is not None:
            return self.trial.request
        if self.observed is None or self.requested or self.observed.guest_words is not None:
            return None
        return self.observed.request

    @property
    def measures(self) -> bool:
        """Whether this console, or the one that it watches, measures now."""
        return self.requested or self.trial is not None or self.observed is not None

    def run_ended(self) -> None:
        """Note that the engine's run() returned, with or without an error."""
        self.trial, self.requested, self.stopping, self.trial_took_s = None, False, False, None
        self.revision += 1

    @property
    def halted(self) -> bool:
        """Whether the running plan is not measuring: it is paused, or waits for a node."""
        halted = (ExecutionStatus.PAUSED, ExecutionStatus.WAITING)
        return self.execution is not None and self.execution.status in halted

    def phase_progress(self, now_s: float) -> tuple[float, float] | None:
        """Seconds spent and expected in the present phase, or None if its length is not known."""
        if self.halted or self.trial is None or self.trial.phase is None or not self.trial.expected_s:
            return None
        return now_s - self.trial.phase_started_s, self.trial.expected_s

    def step_wordings(self, now_s: float) -> tuple[str, ...]:
        """The present step with its time left, if known, longest wording first."""
        trial, execution = self.trial, self.execution
        if execution is not None and execution.status is ExecutionStatus.PAUSED:
            return "paused between trials; the lease is kept", "paused"
        if execution is not None and execution.status is ExecutionStatus.WAITING:
            until_s = execution.waits_until_s
            limit = f", gives up in {format_duration(until_s - now_s)}" if until_s is not None else ""
            return f"waiting for a lost node{limit}: {execution.detail}", f"waiting for a node{limit}", "waiting"
        step = execution.steps.current if execution is not None and execution.running else None
        if trial is None and not self.stopping and step is not None and step.picture.guests:
            return ("under way",)
        if trial is None and execution is not None and execution.running and is_ending_guests(execution):
            return ("ending the guests",)
        if trial is None and self.requested and self.connecting and not self.stopping:
            return f"waiting for {', '.join(sorted(self.connecting))} to connect", "waiting for nodes", "waiting"
        if trial is None:
            return ("stopping" if self.stopping else "starting" if self.requested else "ready",)
        text = "stopping traffic" if self.stopping else PHASE_WORDS[trial.phase] if trial.phase else "starting"
        long = f"{text} ({trial.detail})" if trial.detail else text
        progress = self.phase_progress(now_s)
        if progress is None:
            return long, text, text.split()[0]
        left_s = progress[1] - progress[0]
        time = format_time_left(left_s)
        return long + time, text + time, text.split()[0] + time, text.split()[0]

    def all_left_s(self, now_s: float) -> float | None:
        """Seconds until all repetitions are done, and at least the time left of the present step.

        Computed from the last trial's length, or else from the configured one, which excludes set-up and counting.
        """
        if self.trial is None:
            return None
        spent_s, left_s = self.phase_progress(now_s) or (0.0, 0.0)
        if self.trial_took_s:
            each_s, done_s = self.trial_took_s, now_s - self.trial.started_s
        else:
            each_s, done_s = self.trial.request.duration_s + self.wait_per_trial_s, self.trial.timed_s + spent_s
        rest = self.trial.repetitions - self.trial.repetition
        return rest * each_s + max(each_s - done_s, left_s - spent_s, 0.0)
