"""What is being measured at this moment, where in its plan, how long it still takes, and by whom.

Pure: the state in, words out. The line that every screen shows is made of it (``parts/measuring_line.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.set_up_course import block_words
from labconsole.model.design_point import DesignPoint
from labconsole.tui.console.state import ConsoleState
from labconsole.units import format_target

Wordings = tuple[str, ...]
"""The same thing said several times, the longest first; an empty last one may be left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNow:
    """``step``: what happens, with its own time left; ``left_s``: of all that was asked for, None: not known.

    ``done_ratio``: how much of it is measured. ``by`` is empty where it is this console. ``progress``: seconds
    spent and expected in the step.
    """

    what: Wordings
    place: Wordings
    plan: Wordings
    step: Wordings
    progress: tuple[float, float] | None = None
    left_s: float | None = None
    done_ratio: float | None = None
    held_up: bool = False
    by: str = ""


def point_words(point: DesignPoint) -> Wordings:
    """A design point, from a whole line down to platform and frame size."""
    target, size = format_target(point.target), f"{point.frame.bytes} B"
    beside = "" if point.background == "none" else f" beside {point.background}"
    return (
        f"{point.platform}, {size}, {point.sources_words} at {target}{beside}",
        f"{point.platform} {size} {point.sources}×{target}{beside}",
        f"{point.platform} {size} {point.sources}×{target}",
        f"{point.platform} {size}",
    )


def measured_now(state: ConsoleState, now_s: float) -> MeasuredNow | None:
    """What this console measures, or is about to; None when nothing was asked for."""
    if state.trial is None and not state.asked:
        return None
    execution = state.execution if state.execution is not None and state.execution.running else None
    what, place = _trial(state, execution)
    left_s = execution.left_s if execution is not None else state.all_left_s(now_s)
    return MeasuredNow(
        what=what,
        place=place,
        plan=_plan(execution) if execution is not None else ("",),
        step=state.step_wordings(now_s),
        progress=state.phase_progress(now_s),
        left_s=left_s,
        done_ratio=_done_ratio(state, execution),
        held_up=state.held,
    )


def _done_ratio(state: ConsoleState, execution: PlanExecution | None) -> float | None:
    if execution is not None:
        done, asked = execution.outcome.taken + execution.outcome.skipped, execution.total
        return done / asked if asked and execution.steps.current is None else None
    trial = state.trial
    return (trial.repetition - 1) / trial.repetitions if trial is not None and trial.repetitions > 1 else None


def _trial(state: ConsoleState, execution: PlanExecution | None) -> tuple[Wordings, Wordings]:
    trial = state.trial
    if trial is None:
        return ("",), ("",)
    number, of, block = trial.repetition, trial.repetitions, ""
    if execution is not None and execution.current is not None:
        at, number = execution.plan.place_of(execution.current)
        of = execution.plan.repetitions_of(execution.current[0])
        block = block_words(at, execution.plan.set_ups) if at is not None else ""
        if block == "pilot":
            of = 1
    repetition: Wordings = (f"repetition {number} of {of}", f"{number}/{of}") if of > 1 else ("",)
    if not block:
        return point_words(trial.request), (*repetition, "")
    long = ", ".join(word for word in (repetition[0], block) if word)
    return point_words(trial.request), (long, block, "")


def _plan(execution: PlanExecution) -> Wordings:
    name, steps = execution.plan.name, execution.steps
    done, of = execution.outcome.taken + execution.outcome.skipped, execution.total
    long, short = f"{done} of {of}", f"{done}/{of}"
    if steps.current is not None:
        number = steps.number_of(steps.current)
        long, short = f"search {number} of {steps.asked}", f"search {number}/{steps.asked}"
    return f"plan {name}, {long}", f"{name} {short}", short
