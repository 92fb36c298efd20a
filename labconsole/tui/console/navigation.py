"""The way back: screens that led to others, so that esc returns to where one came from and finds it as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

Undo = Callable[[], None]


class Modes(Protocol):
    """What shows one screen at a time, each under the name of its mode."""

    @property
    def current_mode(self) -> str: ...

    def switch_mode(self, mode: str) -> object:
        """Show another screen."""


@dataclass(slots=True)
class _NavigationStep:
    came_from: str
    led_to: str
    undo: Undo | None = None


class NavigationHistory:
    """Steps from a screen to one that it opened something on. Going anywhere by oneself forgets them."""

    def __init__(self, modes: Modes) -> None:
        self._modes = modes
        self._steps: list[_NavigationStep] = []

    def push_mode(self, mode: str) -> None:
        """Go from the screen in front to another, to come back from there."""
        self._steps.append(_NavigationStep(self._modes.current_mode, mode))
        self._modes.switch_mode(mode)

    def set_aside(self, undo: Undo) -> None:
        """The screen that was led to changes for it: ``undo`` makes it as it was. Without a step, nothing is kept."""
        if self.has_origin and self._steps[-1].undo is None:
            self._steps[-1].undo = undo

    @property
    def has_origin(self) -> bool:
        """Another screen led to the one in front."""
        return bool(self._steps) and self._steps[-1].led_to == self._modes.current_mode

    def back(self) -> bool:
        """Return one step; False where no other screen led to the one in front."""
        if not self.has_origin:
            return False
        step = self._steps.pop()
        if step.undo is not None:
            step.undo()
        self._modes.switch_mode(step.came_from)
        return True

    def forget(self) -> None:
        """The operator went elsewhere."""
        self._steps.clear()
