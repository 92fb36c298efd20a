"""Kinds of records other than runs: ``RECORD`` in the folder of a kind of experiment, and ``KIND`` of plug-ins."""

from __future__ import annotations

from functools import cache
from typing import Any

from labconsole import plugins
from labconsole.errors import StoreError
from labconsole.model.record.kind import RecordKind

PACKAGE = "kinds"
"""The group of plug-ins' entry points."""


@cache
def record_kinds() -> dict[str, RecordKind[Any]]:
    """All kinds, by name. Raises StoreError for an unusable plug-in: its records would be lost."""
    found = {name: module.RECORD for name, module in plugins.load_kind_files("record").items()}
    for name in plugins.find_external_names(PACKAGE):
        try:
            kind = getattr(plugins.load(PACKAGE, name), "KIND", None)
        except plugins.PluginError as exc:
            raise StoreError(str(exc)) from exc
        if not isinstance(kind, RecordKind) or kind.name != name:
            raise StoreError(f"plug-in {name} cannot be used: its KIND is not a kind of record with the name {name}")
        found[name] = kind
    return dict(sorted(found.items()))
