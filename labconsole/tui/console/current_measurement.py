"""The current measurement: what, where in its plan, how much longer, and by whom.

Pure: turns the state into text for the line that every screen shows (``parts/status.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

from labconsole.engine.calibration import CalibrationProgress
from labconsole.engine.execution.blocks import format_block
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.live.observed_trial import ObservedTrial
from labconsole.model.design_point import DesignPoint
from labconsole.model.plan.ad_hoc import is_one_search
from labconsole.text.cells import format_time_left
from labconsole.tui.console.plan_text import is_ending_guests, step_noun
from labconsole.tui.console.state import PHASE_WORDS, ConsoleState
from labconsole.units import format_target

Wordings = tuple[str, ...]
"""Wordings of the same fact, longest first. An empty last one may be left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentMeasurement:
    """``step``: the present step, with its own time left. ``left_s``: time left of the whole request, or None if
    unknown.

    ``done_ratio``: share of the request already measured. ``by`` is empty if this console measures. ``progress``:
    seconds spent and expected in the step.
    """

    what: Wordings
    place: Wordings
    plan: Wordings
    step: Wordings
    progress: tuple[float, float] | None = None
    left_s: float | None = None
    done_ratio: float | None = None
    halted: bool = False
    by: str = ""


def format_point(point: DesignPoint) -> Wordings:
    """Format a design point, from a whole line down to platform and frame size."""
    target, size = format_target(point.wish), f"{point.frame.bytes} B"
    background = "" if point.background == "none" else f", background {point.background}"
    return (
        f"{point.platform}, {size}, {point.sources_text} at {target}{background}",
        f"{point.platform} {size} {point.sources}×{target}{background}",
        f"{point.platform} {size} {point.sources}×{target}",
        f"{point.platform} {size}",
    )


def build_current_measurement(state: ConsoleState, now_s: float, wall_s: float) -> CurrentMeasurement | None:
    """The measurement of this console, running or about to start, or that of a watched one. None if there is none."""
    if state.trial is None and not state.requested:
        return _observed(state.observed, wall_s) if state.observed is not None else None
    execution = state.execution if state.execution is not None and state.execution.running else None
    what, place = _trial(state, execution)
    calibration = state.calibration if state.calibrating else None
    left_s = state.all_left_s(now_s)
    if execution is not None:
        spent_s, step_s = state.phase_progress(now_s) or (0.0, 0.0)
        left_s = None if execution.left_s is None else max(execution.left_s, step_s - spent_s)
    if calibration is not None:
        left_s = calibration.left_s
    if execution is not None and is_ending_guests(execution):
        left_s = None
    return CurrentMeasurement(
        what=what,
        place=place,
        plan=_plan(execution) if execution is not None else _calibration(calibration),
        step=state.step_wordings(now_s),
        progress=state.phase_progress(now_s),
        left_s=left_s,
        done_ratio=_done_ratio(state, execution),
        halted=state.halted,
    )


def _observed(trial: ObservedTrial, wall_s: float) -> CurrentMeasurement:
    phase = PHASE_WORDS[trial.phase] if trial.phase is not None else "measuring"
    progress, time = None, ""
    if trial.phase_started is not None and trial.phase_until is not None:
        spent_s = wall_s - trial.phase_started.timestamp()
        progress = spent_s, (trial.phase_until - trial.phase_started).total_seconds()
        left_s = progress[1] - spent_s
        time = format_time_left(left_s)
    block = format_block(trial.block, trial.set_ups) if trial.block is not None else ""
    until_s = trial.until.timestamp() if trial.until is not None else 0.0
    guests = trial.guest_words
    return CurrentMeasurement(
        what=format_point(trial.request) if guests is None else (guests, guests.partition(",")[0]),
        place=_place(trial.repetition, trial.repetitions, block),
        plan=_observed_plan(trial),
        step=(phase + time, phase.split()[0] + time, phase.split()[0]),
        progress=progress if progress is not None and progress[0] >= 0 and progress[1] > 0 else None,
        left_s=until_s - wall_s if until_s > wall_s else None,
        by=trial.operator,
    )


def _observed_plan(trial: ObservedTrial) -> Wordings:
    if trial.plan is None:
        return ("",)
    return ("search",) if is_one_search(trial.plan, trial.purpose) else (f"plan {trial.plan}", trial.plan)


def _place(number: int, of: int, block: str) -> Wordings:
    repetition: Wordings = (f"repetition {number} of {of}", f"{number}/{of}") if of > 1 else ("",)
    if not block:
        return (*repetition, "")
    return ", ".join(word for word in (repetition[0], block) if word), block, ""


def _done_ratio(state: ConsoleState, execution: PlanExecution | None) -> float | None:
    if execution is not None:
        if execution.plan.guests is not None and execution.steps.current is not None:
            return (execution.steps.number_of(execution.steps.current) - 1) / execution.steps.asked
        if execution.steps.current is None and not execution.plan.grid and execution.steps.asked:
            return 1 - len(execution.steps.remaining) / execution.steps.asked
        done, requested = execution.outcome.taken + execution.outcome.skipped, execution.total
        return done / requested if requested and execution.steps.current is None else None
    trial = state.trial
    return (trial.repetition - 1) / trial.repetitions if trial is not None and trial.repetitions > 1 else None


def _trial(state: ConsoleState, execution: PlanExecution | None) -> tuple[Wordings, Wordings]:
    if state.halted and execution is not None:  # the trial that the console knows is over
        following = execution.open_requests[:1]
        return tuple(f"next: {text}" for request in following for text in format_point(request)) or ("",), ("",)
    if execution is not None and execution.plan.guests is not None and execution.steps.current is not None:
        text = execution.steps.current.step.describe()
        return (text, text.partition(",")[0]), ("",)
    trial = state.trial
    if trial is None:
        waits = state.requested and state.connecting and not state.stopping
        return ("about to start" if waits else "",), ("",)
    number, of, block = trial.repetition, trial.repetitions, ""
    if execution is not None and execution.current is not None:
        at, number = execution.plan.place_of(execution.current)
        of = execution.plan.repetitions_of(execution.current[0])
        block = format_block(at, execution.plan.set_ups) if at is not None else ""
        if block == "pilot":
            of = 1
    return format_point(trial.request), _place(number, of, block)


def _calibration(progress: CalibrationProgress | None) -> Wordings:
    if progress is None:
        return ("",)
    if not progress.trial:
        return f"calibration, {progress.doing}", "calibration"
    trial, of = progress.trial, progress.expected
    return f"calibration, trial {trial} of {of}", f"calibration {trial}/{of}", f"{trial}/{of}"


def _plan(execution: PlanExecution) -> Wordings:
    name, steps = execution.plan.name, execution.steps
    done, of = execution.outcome.taken + execution.outcome.skipped, execution.total
    long, short = f"{done} of {of}", f"{done}/{of}"
    if execution.salt and steps.current is None:
        return ("search",)
    if execution.salt and steps.current is not None:
        trial = len(steps.current.picture.trials) + 1
        return f"search, trial {trial}", f"search {trial}"
    if steps.current is None and not execution.plan.grid:
        if not steps.asked:
            return f"plan {name}", name  # the store's contents are not known yet
        begun, kind = steps.asked - len(steps.remaining), step_noun(execution.plan)
        long, short = f"{kind} {begun} of {steps.asked}", f"{kind} {begun}/{steps.asked}"
        if is_ending_guests(execution):
            return f"plan {name}, {long}, ending the guests", f"{name} {short}, ending", short
    if steps.current is not None:
        number, kind = steps.number_of(steps.current), step_noun(execution.plan)
        long, short = f"{kind} {number} of {steps.asked}", f"{kind} {number}/{steps.asked}"
    return f"plan {name}, {long}", f"{name} {short}", short
