"""What reports are made of: the units of every kind of experiment, found by their files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from labconsole import experiments, plugins
from labconsole.contracts.report import ReportUnit
from labconsole.report.material import Material, Unit

log = logging.getLogger("labconsole.experiments")

OUTSIDE = "units"
"""The entry points of other packages: modules with ``UNITS``."""


def report_units(
    of: str | None = None,
    *,
    outside: bool = True,
    on_problem: Callable[[str], None] = lambda problem: log.warning("%s", problem),
) -> list[Unit]:
    """Of each file in a package ``units`` of a kind of experiment, what its ``UNITS`` holds; ``of``: of one kind.

    Those of other packages are part of reports on everything, but where nobody else could make them again
    (``outside``). One that cannot be used, or fails, is left out, and told.
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
    return found if of is not None or not outside else [*found, *_outside({unit.name for unit in found}, on_problem)]


def load_units(name: str) -> tuple[Unit, ...]:
    """Those of a plug-in. Raises PluginError for one that cannot be used."""
    held = getattr(plugins.load(OUTSIDE, name), "UNITS", None)
    if not isinstance(held, tuple) or not all(isinstance(unit, ReportUnit) for unit in held):
        raise plugins.PluginError(f"plug-in {name} cannot be used: its UNITS is not a tuple of ReportUnit")
    return held


def _outside(taken: set[str], on_problem: Callable[[str], None]) -> Iterator[Unit]:
    for name in plugins.outside(OUTSIDE):
        try:
            held = load_units(name)
        except plugins.PluginError as exc:
            on_problem(str(exc))
            continue
        for unit in held:
            if unit.name in taken:
                on_problem(f"plug-in {name} cannot be used for {unit.name}: there is a unit of this name")
                continue
            taken.add(unit.name)
            yield replace(unit, make=partial(_made, unit, name, on_problem))


def _made(unit: Unit, name: str, on_problem: Callable[[str], None], material: Material) -> Any:
    """What a unit of somebody else's makes; None where it fails, which takes nothing else along."""
    try:
        return unit.make(material)
    except Exception as exc:  # whatever a stranger's code does
        on_problem(f"plug-in {name} failed to make {unit.name}: {type(exc).__name__}: {exc}")
        return None
