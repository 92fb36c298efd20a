"""What reports are made of: the units of every kind of experiment, found by their files."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from labconsole import experiments
from labconsole.report.material import Unit


def report_units(of: str | None = None) -> list[Unit]:
    """Of each file in a package ``units`` of a kind of experiment, what its ``UNITS`` holds; ``of``: of one kind."""
    found: list[Unit] = []
    for kind in iter_modules(experiments.__path__, f"{experiments.__name__}."):
        if of is not None and kind.name.rpartition(".")[2] != of:
            continue
        inside = iter_modules(import_module(kind.name).__path__) if kind.ispkg else ()
        if any(each.name == "units" for each in inside):
            package = import_module(f"{kind.name}.units")
            for file in iter_modules(package.__path__, f"{package.__name__}."):
                found += import_module(file.name).UNITS
    return found
