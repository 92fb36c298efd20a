"""Plug-ins by name: the files of one of our packages, and entry points of other packages.

The place of a file is its registration: there is no list of names. Other distributions add theirs by an entry point,
such as ``[project.entry-points."labconsole.drivers"] mine = "my_package.my_driver"`` in their pyproject.toml, whose
value is a module like one of our own files. The group of a package is named after its last part. A kind of experiment
is a folder of ``experiments``, and its files are found by their names, the same in each: ``record.py``, ``plan.py``.
"""

from __future__ import annotations

import pkgutil
import sys
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

GROUP = "labconsole"
"""What the groups of entry points begin with."""

KIND_FOLDERS = "labconsole.experiments"
OWN_FILES = {"kinds": "record"}
"""Groups of which our own are files in the folders of kinds of experiment: the name of that file."""


class PluginError(Exception):
    """A plug-in cannot be used; the message names it and says why."""


class UnknownPlugin(PluginError):
    """There is none of that name; ``known`` are those that there are."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"there is no {name}; use one of {', '.join(known)}")
        self.known = known


def load_kind_files(file: str) -> dict[str, ModuleType]:
    """The modules of this name in the folders of kinds of experiment, by kind, in the order of the alphabet."""
    return {kind: load_kind_file(kind, file) for kind in sorted(find_kinds(file))}


def load_kind_file(kind: str, file: str) -> ModuleType:
    """The module of this name in a kind's folder. Raises ModuleNotFoundError."""
    return import_module(f"{KIND_FOLDERS}.{kind}.{file}")


def find_kinds(file: str) -> frozenset[str]:
    """The kinds of experiment whose folder has a file of this name. Imports none of them."""
    return _find_folders(tuple(import_module(KIND_FOLDERS).__path__), file)


@cache
def _find_folders(places: tuple[str, ...], file: str) -> frozenset[str]:
    return frozenset(path.parent.name for place in places for path in Path(place).glob(f"*/{file}.py"))


def _files(package: str) -> frozenset[str]:
    if package in OWN_FILES:
        return find_kinds(OWN_FILES[package])
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
    """The entry points by name. Our own files come first, so that no plug-in can replace one of them unnoticed."""
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
