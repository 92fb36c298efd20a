"""What the kinds of experiment measure beside runs, for comparisons: found by their files."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from labconsole import experiments
from labconsole.contracts.measured import MeasuredKind


def load_measured_kinds() -> tuple[MeasuredKind, ...]:
    """Of each folder with a file ``measured.py``, its ``MEASURED``, in the order of the alphabet."""
    places = [path.parent.name for folder in experiments.__path__ for path in Path(folder).glob("*/measured.py")]
    return tuple(import_module(f"{experiments.__name__}.{name}.measured").MEASURED for name in sorted(places))
