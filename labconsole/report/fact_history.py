"""Facts that successive runs report of one thing such as a node: the newest and the earlier ones. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from labconsole.measure.comparison import VOLATILE

VALUES_KEPT: Final = 6
"""Most values kept of a fact that differs from run to run."""

_NOTHING: Final = object()


@dataclass(slots=True)
class FactHistory:
    """Facts about one thing: the newest values, and also the earlier ones of those that differed among runs."""

    newest: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, list[Any]] = field(default_factory=dict)
    told: frozenset[str] = frozenset()
    """The facts in the newest whole reading; the state of the others at that time is unknown."""

    def add(self, values: Mapping[str, Any]) -> None:
        """Add a newer reading."""
        for name, value in values.items():
            newest = self.newest.get(name, _NOTHING)
            if newest == value:
                continue
            self.newest[name] = value
            if name in VOLATILE:
                continue
            kept = self.seen.setdefault(name, [])
            if value not in kept and len(kept) < VALUES_KEPT:
                kept.append(value)

    def add_whole(self, values: Mapping[str, Any]) -> None:
        """Add a newer reading of everything."""
        self.add(values)
        self.told = frozenset(values)

    def values(self, name: str) -> list[Any]:
        """All values kept of a known fact, with the newest."""
        kept, newest = self.seen.get(name, []), self.newest[name]
        return kept if newest in kept else [*kept, newest]

    def changed(self) -> dict[str, list[Any]]:
        """Facts that were not the same in all runs."""
        return {name: values for name, values in self.seen.items() if len(values) > 1}
