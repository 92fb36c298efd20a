"""Another operator's trial in one line: who, what, how far. Pure. What the holder says is shown as text only."""

from __future__ import annotations

from rich.cells import cell_len

from labconsole.engine.execution.set_up_course import block_words
from labconsole.engine.live.observed import ObservedTrial
from labconsole.text.cells import safe, span
from labconsole.tui.console.state import PHASE_WORDS

Words = list[tuple[str, str]]


def phase_words(trial: ObservedTrial, wall_s: float) -> str:
    """The phase, and how long it will last or how much longer than expected it does."""
    if trial.phase is None:
        return "measuring"
    words = PHASE_WORDS[trial.phase]
    if trial.phase_until is None:
        return words
    left_s = trial.phase_until.timestamp() - wall_s
    return f"{words}, {span(left_s)} left" if left_s > 0 else f"{words}, {span(-left_s)} longer than expected"


def how_far(trial: ObservedTrial) -> str:
    """Which trial of how many, and of which plan and block."""
    words = f"trial {trial.repetition} of {trial.repetitions}" if trial.repetitions > 1 else ""
    if trial.block is not None:
        words += (" · " if words else "") + block_words(trial.block, trial.set_ups)
    if trial.plan is not None:
        words += (" · " if words else "") + f"plan {safe(trial.plan, 20)}"
    return words


def observed_line(trial: ObservedTrial, width: int, wall_s: float) -> Words:
    """Who measures and the phase on the left, what on the right; what does not fit is left out from the right."""
    left: Words = [
        (" ◇ ", "accent"),
        (safe(trial.operator, 32), "strong"),
        (f" measures: {phase_words(trial, wall_s)}", ""),
    ]
    used = sum(cell_len(text) for text, _ in left)
    for right in (
        f"{how_far(trial)} · {trial.request.words()}",
        f"{how_far(trial)} · {trial.request.platform}",
        how_far(trial),
    ):
        words = safe(right.strip(" ·"), width)
        if words and used + cell_len(words) + 3 <= width:
            return [*left, (" " * (width - used - cell_len(words) - 1), ""), (words, "muted")]
    return left
