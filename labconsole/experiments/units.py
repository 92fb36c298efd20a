"""The units of reports from every kind of experiment, found by their files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from labconsole import experiments, plugins
from labconsole.comparison.trend_tables import build_trend_units
from labconsole.contracts.report import Figure, ReportUnit
from labconsole.model.plan.guest_kind import guest_kinds
from labconsole.report.assembly import build_figures
from labconsole.report.material import Material, Unit

ENTRY_POINT_GROUP = "units"
"""The group of plug-ins' entry points: modules with ``UNITS``."""


FIRST_TREND_PLACE = 150
"""The place of results over occasions, of the first kind that has them."""

LAST_PLACE = 10_000
"""The place of a unit that only explains its own absence."""


def report_units(of: str | None = None, *, outside: bool = True) -> list[Unit]:
    """Return ``UNITS`` of each file in a package ``units`` of a kind of experiment, and units of what it measures over
    occasions. ``of``: only of this kind.

    Plug-ins' units belong to reports on everything, but not where the report must be reproducible by others
    (``outside`` False). One that cannot be used is a unit that fails, so that the report leaves it out and names it.
    """
    found: list[Unit] = []
    for kind in iter_modules(experiments.__path__, f"{experiments.__name__}."):
        name = kind.name.rpartition(".")[2]
        if of is not None and name != of:
            continue
        if name in plugins.find_kinds("measured"):
            found += build_trend_units(plugins.load_kind_file(name, "measured").MEASURED, _find_trend_place(name))
        inside = iter_modules(import_module(kind.name).__path__) if kind.ispkg else ()
        if any(each.name == "units" for each in inside):
            package = import_module(f"{kind.name}.units")
            for file in iter_modules(package.__path__, f"{package.__name__}."):
                found += import_module(file.name).UNITS
    return found if of is not None or not outside else [*found, *_find_plugin_units({unit.name for unit in found})]


def _find_trend_place(kind: str) -> int:
    """Searches come first, then guests in their order."""
    return FIRST_TREND_PLACE + ([*guest_kinds()].index(kind) + 1 if kind in guest_kinds() else 0)


def build_kind_figures(kind: str, records: Sequence[Any]) -> list[Figure]:
    """Return the figures of a report on these records of one kind alone."""
    return build_figures(kind, records, report_units(kind))


def load_units(name: str) -> tuple[Unit, ...]:
    """Return the units of a plug-in. Raises PluginError for one that cannot be used."""
    units = getattr(plugins.load(ENTRY_POINT_GROUP, name), "UNITS", None)
    if not isinstance(units, tuple) or not all(isinstance(unit, ReportUnit) for unit in units):
        raise plugins.PluginError(f"plug-in {name} cannot be used: its UNITS is not a tuple of ReportUnit")
    return units


def _find_plugin_units(taken: set[str]) -> Iterator[Unit]:
    for name in plugins.find_external_names(ENTRY_POINT_GROUP):
        try:
            units = load_units(name)
        except plugins.PluginError as exc:
            yield _failing(name, str(exc))
            continue
        for unit in units:
            if unit.name in taken:
                yield _failing(name, f"plug-in {name} cannot be used for {unit.name}: there is a unit of this name")
                continue
            taken.add(unit.name)
            yield replace(unit, plugin=name)


def _failing(name: str, problem: str) -> Unit:
    def make(material: Material) -> None:
        raise plugins.PluginError(problem)

    return ReportUnit(name=name, place=LAST_PLACE, make=make, plugin=name)
