"""The trials that an execution of a plan has left to take, in order, and how many of them are finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from labconsole.model.plan.order import Trial


class TrialQueue:
    """``done`` of ``trials`` are finished; the next one is ``next``."""

    def __init__(self) -> None:
        self.trials: list[Trial] = []
        self.done = 0

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left."""
        return self.done >= len(self.trials)

    @property
    def next(self) -> Trial:
        """The trial to take now."""
        return self.trials[self.done]

    @property
    def remaining(self) -> Sequence[Trial]:
        """The trials that are not finished."""
        return self.trials[self.done :]

    def leave_out(self) -> None:
        """Leave out the next trial."""
        del self.trials[self.done]

    def drop(self, gone: Callable[[Trial], bool]) -> list[Trial]:
        """Remove these trials from the rest, and return them."""
        rest = self.remaining
        dropped = [trial for trial in rest if gone(trial)]
        self.trials[self.done :] = [trial for trial in rest if not gone(trial)]
        return dropped

    def rewind(self, same: Callable[[Trial], bool]) -> list[Trial]:
        """Go back to the first of the matching trials right before the next one; return the reopened trials."""
        end = self.done
        while self.done and same(self.trials[self.done - 1]):
            self.done -= 1
        return self.trials[self.done : end]
