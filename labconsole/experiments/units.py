"""What reports are made of: the units of every kind of experiment, found by their files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import iter_modules

from labconsole import experiments, plugins
from labconsole.contracts.report import ReportUnit
from labconsole.report.material import Unit

log = logging.getLogger("labconsole.experiments")

OUTSIDE = "units"
"""The entry points of other packages: modules with ``UNITS``."""


def report_units(
    of: str | None = None, *, on_problem: Callable[[str], None] = lambda problem: log.warning("%s", problem)
) -> list[Unit]:
    """Of each file in a package ``units`` of a kind of experiment, what its ``UNITS`` holds; ``of``: of one kind.

    Those of other packages are part of reports on everything. One that cannot be used is left out, and told.
    """
    found: list[Unit] = []
    for kind in iter_modules(experiments.__path__, f"{experiments.__name__}."):
        if of is not None and kind.name.rpartition(".")[2] != of:
            continue
        inside = iter_modules(import_module(kind.name).__path__) if kind.ispkg else ()
        if any(each.name == "units" for each in inside):
            package = import_module(f"{kind.name}.units")
            for file in iter_modules(package.__path__, f"{package.__name__}."):
                found += import_module(file.name).UNITS
    return found if of is not None else [*found, *_outside({unit.name for unit in found}, on_problem)]


def _outside(taken: set[str], on_problem: Callable[[str], None]) -> Iterator[Unit]:
    for name in plugins.outside(OUTSIDE):
        try:
            held = getattr(plugins.load(OUTSIDE, name), "UNITS", None)
        except plugins.PluginError as exc:
            on_problem(str(exc))
            continue
        if not isinstance(held, tuple) or not all(isinstance(unit, ReportUnit) for unit in held):
            on_problem(f"plug-in {name} cannot be used: its UNITS is not a tuple of ReportUnit")
            continue
        for unit in held:
            if unit.name in taken:
                on_problem(f"plug-in {name} cannot be used for {unit.name}: there is a unit of this name")
                continue
            taken.add(unit.name)
            yield unit
