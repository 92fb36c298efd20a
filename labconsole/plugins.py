"""What plugs in, by name: the files of a package of ours, and entry points of other packages.

The file's place is its registration: nobody holds a list of names. Other distributions add theirs by an entry point,
such as ``[project.entry-points."labconsole.drivers"] mine = "my_package.my_driver"`` in their pyproject.toml, whose
value is a module like one of our own files. The group of a package is called after its last part.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from types import ModuleType


class PluginError(Exception):
    """A plug-in cannot be used; the message names it and says why."""


class UnknownPlugin(PluginError):
    """There is none of that name; ``known`` are those that there are."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"there is no {name}; use one of {', '.join(known)}")
        self.known = known


@cache
def _files(package: str) -> frozenset[str]:
    spec = find_spec(f"labconsole.{package}")
    assert spec is not None and spec.submodule_search_locations is not None, package
    return frozenset(found.name for found in pkgutil.iter_modules(spec.submodule_search_locations))


@cache
def _entry_points(package: str) -> dict[str, EntryPoint]:
    """By name; our own files come first, so that nobody's plug-in stands in for one of them unnoticed."""
    found = entry_points(group=f"labconsole.{package.rpartition('.')[2]}")
    return {point.name: point for point in found if point.name not in _files(package)}


def names(package: str) -> list[str]:
    """What there is in a package such as ``platforms.drivers``, in the order of the alphabet. Imports none of it."""
    return sorted({*_files(package), *_entry_points(package)})


def load(package: str, name: str) -> ModuleType:
    """The module of one of ``names``. Raises UnknownPlugin, and PluginError for one that does not load."""
    if name in _files(package):
        return import_module(f"labconsole.{package}.{name}")
    point = _entry_points(package).get(name)
    if point is None:
        raise UnknownPlugin(name, names(package))
    origin = f"plug-in {name}" if point.dist is None else f"plug-in {name} of package {point.dist.name}"
    try:
        module = point.load()
    except Exception as exc:  # whatever a stranger's module does, it must not take the others along
        raise PluginError(f"{origin} cannot be loaded: {type(exc).__name__}: {exc}") from exc
    if not isinstance(module, ModuleType):
        raise PluginError(f"{origin} cannot be used: {point.value} is not a module")
    return module
