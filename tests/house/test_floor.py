"""A module below 60 lines has a reason to stand alone; one without is merged into the subject it belongs to."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "labconsole"
LEAST_LINES = 60
MARK_LINES = 4
"""A package's ``__init__`` of at most so many lines only names it."""

SMALL = {
    "__init__.py": "the program's name for Python",
    "__main__.py": "python -m labconsole",
    "agent/__main__.py": "python -m labconsole.agent",
    "agent/operations/__init__.py": "which method handles which request, for every module beside it",
    "agent/debug.py": "imported before the agent's loop, by everything below it",
    "network/public_directories.py": "light; shared by leases, captures and disks of guests",
    "wire/*.py": "a topic of messages each",
    "cli/commands/*.py": "a command each, found by its file",
    "cli/output.py": "imported by every command, and light",
    "store/exporters/*.py": "an exporter each, found by its file",
    "platforms/drivers/*.py": "a driver each, found by its file",
    "experiments/*/measured.py": "found by its file",
    "experiments/*/kind.py": "found by its file",
    "experiments/*/record.py": "found by its file",
    "experiments/*/steps.py": "found by its file",
    "tui/screens/__init__.py": "the list of screens",
    "text/extras.py": "optional packages; light, and imported by five rooms",
    "api/discovery.py": "loaded by the first start alone",
    "model/generator_names.py": "imports no plug-in, for the command line",
    "model/identity.py": "light; the records' own form of operator, time and id",
    "model/cpus.py": "light; CPUs as the kernel lists them",
    "model/strict_model.py": "the base of every file and record",
    "model/tolerances.py": "the only definition of what a verdict tolerates",
    "report/material.py": "the input of every report unit",
    "experiments/search/report_data.py": "shared by the units of searches",
    "tui/console/clock.py": "the two clocks, replaced as a whole for pictures",
    "tui/console/first_start.py": "what a console without a testbed is given",
    "tui/screens/plans/session_plan.py": "saving a session's measurements",
    "testing/__init__.py": "what plug-ins' tests import",
}
"""Patterns of modules that may be small, and why."""


def small() -> list[str]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        lines = path.read_text().count("\n")
        if lines < LEAST_LINES and not (path.name == "__init__.py" and lines <= MARK_LINES):
            found.append(path.relative_to(PACKAGE).as_posix())
    return found


def test_small_modules_have_a_reason() -> None:
    assert [name for name in small() if not any(fnmatch(name, pattern) for pattern in SMALL)] == []


def test_every_reason_is_needed() -> None:
    assert [pattern for pattern in SMALL if not any(fnmatch(name, pattern) for name in small())] == []
