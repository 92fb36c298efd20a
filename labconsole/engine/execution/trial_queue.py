"""The trials that an execution of a plan has left to take, in their order, and how many of them are dealt with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from labconsole.model.plan.order import Trial


class TrialQueue:
    """``done`` of ``trials`` are dealt with; the next one is ``next``."""

    def __init__(self) -> None:
        self.trials: list[Trial] = []
        self.done = 0

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left."""
        return self.done >= len(self.trials)

    @property
    def next(self) -> Trial:
        """The one to take now."""
        return self.trials[self.done]

    @property
    def remaining(self) -> Sequence[Trial]:
        """Those that are not dealt with."""
        return self.trials[self.done :]

    def leave_out(self) -> None:
        """The next one is not taken after all."""
        del self.trials[self.done]

    def drop(self, gone: Callable[[Trial], bool]) -> list[Trial]:
        """Take these out of the rest; returns them."""
        rest = self.remaining
        dropped = [trial for trial in rest if gone(trial)]
        self.trials[self.done :] = [trial for trial in rest if not gone(trial)]
        return dropped

    def rewind(self, same: Callable[[Trial], bool]) -> list[Trial]:
        """Go back to the first of those in a row before the next one; returns what was dealt with and is left again."""
        end = self.done
        while self.done and same(self.trials[self.done - 1]):
            self.done -= 1
        return self.trials[self.done : end]
