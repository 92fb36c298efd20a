"""What plugs in, by name: the files of a package of ours, and entry points of other packages.

The file's place is its registration: nobody holds a list of names. Other distributions add theirs by an entry point,
such as ``[project.entry-points."labconsole.drivers"] mine = "my_package.my_driver"`` in their pyproject.toml, whose
value is a module like one of our own files. The group of a package is called after its last part.
"""

from __future__ import annotations

import pkgutil
import sys
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from types import ModuleType

GROUP = "labconsole"
"""What the groups of entry points begin with."""


class PluginError(Exception):
    """A plug-in cannot be used; the message names it and says why."""


class UnknownPlugin(PluginError):
    """There is none of that name; ``known`` are those that there are."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"there is no {name}; use one of {', '.join(known)}")
        self.known = known


def _files(package: str) -> frozenset[str]:
    loaded = sys.modules.get(f"labconsole.{package}")
    places = getattr(loaded, "__path__", None)
    if loaded is None:
        spec = find_spec(f"labconsole.{package}")
        places = None if spec is None else spec.submodule_search_locations
    return frozenset() if places is None else _find_modules(tuple(places))


@cache
def _find_modules(places: tuple[str, ...]) -> frozenset[str]:
    return frozenset(found.name for found in pkgutil.iter_modules(places))


@cache
def _entry_points(package: str) -> dict[str, list[EntryPoint]]:
    """By name; our own files come first, so that nobody's plug-in stands in for one of them unnoticed."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=f"{GROUP}.{package.rpartition('.')[2]}"):
        held = found.setdefault(point.name, []) if point.name not in _files(package) else []
        if all((_package(point), point.value) != (_package(each), each.value) for each in held):
            held.append(point)
    return found


def _package(point: EntryPoint) -> str:
    return "?" if point.dist is None else point.dist.name


def find_external_names(package: str) -> list[str]:
    """The names of those of other packages, in the order of the alphabet. Imports none of them."""
    return sorted(_entry_points(package))


def find_shadowed_names(package: str) -> list[tuple[str, str]]:
    """Name and package of those that are not used, as there is one of ours with their name."""
    points = entry_points(group=f"{GROUP}.{package.rpartition('.')[2]}")
    return sorted({(point.name, _package(point)) for point in points if point.name in _files(package)})


def names(package: str) -> list[str]:
    """What there is in a package such as ``platforms.drivers``, in the order of the alphabet. Imports none of it."""
    return sorted({*_files(package), *_entry_points(package)})


def load(package: str, name: str) -> ModuleType:
    """The module of one of ``names``. Raises UnknownPlugin, and PluginError for one that does not load."""
    if name in _files(package):
        return import_module(f"labconsole.{package}.{name}")
    points = _entry_points(package).get(name)
    if points is None:
        raise UnknownPlugin(name, names(package))
    point = points[0]
    if len(points) > 1:
        packages = ", ".join(sorted(map(_package, points)))
        raise PluginError(f"plug-in {name} is in several packages ({packages}): uninstall all but one of them")
    origin = f"plug-in {name}" if point.dist is None else f"plug-in {name} of package {point.dist.name}"
    try:
        module = point.load()
    except (Exception, SystemExit) as exc:  # whatever a stranger's module does, it must not take the others along
        raise PluginError(f"{origin} cannot be loaded: {type(exc).__name__}: {exc}") from exc
    if not isinstance(module, ModuleType):
        raise PluginError(f"{origin} cannot be used: {point.value} is not a module")
    return module
