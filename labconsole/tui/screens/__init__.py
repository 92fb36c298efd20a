"""The screens of the console, in the order of their keys. A screen's module is loaded when it is first gone to.

Adding one is a package here whose screen.py has a ConsoleScreen in it, and a line in SCREENS. The digit works wherever
no text is typed, the function key everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from labconsole.tui.parts.screen import ConsoleScreen


@dataclass(frozen=True, slots=True)
class ScreenEntry:
    """One screen: its mode, which is its package here too, its name on screen, its keys, what it is for, its class."""

    mode: str
    title: str
    key: str
    function_key: str
    purpose: str
    class_name: str

    def load(self) -> type[ConsoleScreen]:
        """The class; imports its module."""
        found: type[ConsoleScreen] = getattr(
            import_module(f"labconsole.tui.screens.{self.mode}.screen"), self.class_name
        )
        return found


SCREENS: tuple[ScreenEntry, ...] = (
    ScreenEntry("bench", "Bench", "1", "f2", "Set up, run, watch.", "BenchScreen"),
    ScreenEntry("runs", "Runs", "2", "f3", "Saved runs with their verdicts.", "RunsScreen"),
    ScreenEntry("curves", "Curves", "3", "f4", "Curves over saved runs, with intervals.", "CurvesScreen"),
    ScreenEntry("plans", "Plans", "4", "f5", "Plan files: preview, run, watch the grid fill.", "PlansScreen"),
    ScreenEntry("check", "Check", "5", "f6", "Is the testbed fit to measure on?", "CheckScreen"),
    ScreenEntry("nodes", "Nodes", "6", "f7", "Every node, and who else is there.", "NodesScreen"),
    ScreenEntry("log", "Log", "7", "f8", "Everything that happened.", "LogScreen"),
)
