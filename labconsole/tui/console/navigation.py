"""Back navigation: esc returns to the screen that led here, and restores its state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

Undo = Callable[[], None]


class Modes(Protocol):
    """Shows one screen at a time, by the name of its mode."""

    @property
    def current_mode(self) -> str: ...

    def switch_mode(self, mode: str) -> object:
        """Show another screen."""


@dataclass(slots=True)
class _NavigationStep:
    origin: str
    led_to: str
    undo: Undo | None = None


class NavigationHistory:
    """Steps from a screen to one opened from it. Going to a screen directly forgets them."""

    def __init__(self, modes: Modes) -> None:
        self._modes = modes
        self._steps: list[_NavigationStep] = []

    def push_mode(self, mode: str) -> None:
        """Go from the active screen to another, as a step that can be undone."""
        self._steps.append(_NavigationStep(self._modes.current_mode, mode))
        self._modes.switch_mode(mode)

    def set_aside(self, undo: Undo) -> None:
        """Keep ``undo``, which restores the active screen's previous state. Without a step, nothing is kept."""
        if self.has_origin and self._steps[-1].undo is None:
            self._steps[-1].undo = undo

    @property
    def has_origin(self) -> bool:
        """Whether another screen led to the active one."""
        return bool(self._steps) and self._steps[-1].led_to == self._modes.current_mode

    def back(self) -> bool:
        """Return one step. False if no other screen led to the active one."""
        if not self.has_origin:
            return False
        step = self._steps.pop()
        if step.undo is not None:
            step.undo()
        self._modes.switch_mode(step.origin)
        return True

    def forget(self) -> None:
        """Forget all steps: the operator went elsewhere."""
        self._steps.clear()
