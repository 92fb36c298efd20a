"""The plans shown with their trials for telemetry in place of their own."""

from __future__ import annotations

from pathlib import Path

from labconsole.model.plan.plan import Plan
from labconsole.tui.parts.plan_files import PlanEntry


class TelemetryToggle:
    """Choices by file. A plan that no longer has points of traffic is shown unchanged."""

    def __init__(self) -> None:
        self._for_telemetry: set[Path] = set()

    def of(self, entry: PlanEntry) -> Plan | None:
        """The plan of a file, or its trials for telemetry, whichever is shown."""
        plan = entry.plan
        if plan is None or entry.path not in self._for_telemetry or not plan.telemetry_hashes:
            return plan
        return plan.for_telemetry()

    def turn(self, entry: PlanEntry | None, *, in_use: bool) -> str:
        """Show the other one. Returns a sentence why that is impossible, or ""."""
        if entry is None or entry.plan is None:
            return "Choose a valid plan."
        if in_use:
            return f"Plan {entry.name} is running. Wait, or abort it."
        if not entry.plan.telemetry_hashes:
            return f"Plan {entry.name} has no points of traffic, and only those have telemetry."
        self._for_telemetry ^= {entry.path}
        return ""
