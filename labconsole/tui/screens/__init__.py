"""The screens of the console, in the order of their keys.

Their modules are loaded once every node was tried, or at the first visit if that is earlier. A screen is a package here
with a ``ConsoleScreen`` in its screen.py, and a line in ``SCREENS``. The digit works wherever no text is typed, the
function key everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from labconsole.tui.parts.action import Action
from labconsole.tui.parts.screen import ConsoleScreen


@dataclass(frozen=True, slots=True)
class ScreenEntry:
    """One screen: its mode, which is also the name of its package, its title, its keys, its purpose."""

    mode: str
    title: str
    key: str
    function_key: str
    purpose: str

    def load(self) -> type[ConsoleScreen]:
        """Load the screen class from its module."""
        module = import_module(f"{__name__}.{self.mode}.screen")
        (found,) = (
            each
            for each in vars(module).values()
            if isinstance(each, type) and issubclass(each, ConsoleScreen) and each.__module__ == module.__name__
        )
        return found

    def action(self) -> Action:
        """Build the action that opens it."""
        keys = f"{self.key},{self.function_key}"
        return Action(keys, f"mode('{self.mode}')", self.title, self.purpose, id=f"go-{self.mode}", shown=False)


SCREENS: tuple[ScreenEntry, ...] = (
    ScreenEntry("bench", "Bench", "1", "f2", "Set up, run and watch trials."),
    ScreenEntry("runs", "Runs", "2", "f3", "Find, compare and export saved runs."),
    ScreenEntry("curves", "Curves", "3", "f4", "Plot saved runs as curves, with confidence intervals."),
    ScreenEntry("plans", "Plans", "4", "f5", "Preview and run plan files."),
    ScreenEntry("check", "Check", "5", "f6", "Check that the testbed is ready to measure."),
    ScreenEntry("nodes", "Nodes", "6", "f7", "See the state of every node and what else runs on it."),
    ScreenEntry("log", "Log", "7", "f8", "Read everything that happened in this session."),
)
