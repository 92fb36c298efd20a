"""Kinds of records other than runs: each file declares one as ``KIND``, and there is no list of them."""

from __future__ import annotations

from functools import cache
from typing import Any

from labconsole.errors import StoreError
from labconsole.model.record.kind import RecordKind
from labconsole.plugins import PluginError, load, names

PACKAGE = "model.record.kinds"


@cache
def record_kinds() -> dict[str, RecordKind[Any]]:
    """All kinds, by name. Raises StoreError for an unusable plug-in: its records would be lost."""
    found: dict[str, RecordKind[Any]] = {}
    for name in names(PACKAGE):
        try:
            kind = getattr(load(PACKAGE, name), "KIND", None)
        except PluginError as exc:
            raise StoreError(str(exc)) from exc
        if not isinstance(kind, RecordKind) or kind.name != name:
            raise StoreError(f"plug-in {name} cannot be used: its KIND is not a kind of record with the name {name}")
        found[name] = kind
    return found
