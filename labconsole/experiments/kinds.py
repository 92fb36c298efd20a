"""The kinds of experiment that plans can ask for beside their grids, found by their files."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from labconsole import experiments
from labconsole.contracts.experiment import Experiment


def kinds(store: Any) -> tuple[Experiment, ...]:
    """Of each folder with a file ``steps.py``, its ``EXPERIMENT(store)``, in the order of the alphabet.

    ``store`` keeps what they measure.
    """
    places = [path.parent.name for folder in experiments.__path__ for path in Path(folder).glob("*/steps.py")]
    modules = [import_module(f"{experiments.__name__}.{name}.steps") for name in sorted(places)]
    return tuple(module.EXPERIMENT(store) for module in modules)
