"""The quantities of the kinds of experiment other than runs, for comparisons, found by their files."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from labconsole import experiments
from labconsole.contracts.measured import MeasuredKind


def load_measured_kinds() -> tuple[MeasuredKind, ...]:
    """Return ``MEASURED`` of each folder with a file ``measured.py``, alphabetically."""
    places = [path.parent.name for folder in experiments.__path__ for path in Path(folder).glob("*/measured.py")]
    return tuple(import_module(f"{experiments.__name__}.{name}.measured").MEASURED for name in sorted(places))
