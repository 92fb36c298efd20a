"""What runs, one after the other, say of one thing, such as a node: how it is, and how it was. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from labconsole.measure.comparison import VOLATILE

VALUES_KEPT: Final = 6
"""Of a fact that differs from run to run."""

_NOTHING: Final = object()


@dataclass(slots=True)
class FactHistory:
    """What was found about one thing: the newest values, and for what differed among runs the earlier ones too.

    ``told``: what the newest whole reading says something of; how the rest was then is not known.
    """

    newest: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, list[Any]] = field(default_factory=dict)
    told: frozenset[str] = frozenset()

    def add(self, values: Mapping[str, Any]) -> None:
        """Take a newer reading."""
        for name, value in values.items():
            held = self.newest.get(name, _NOTHING)
            if held == value:
                continue
            self.newest[name] = value
            if name in VOLATILE:
                continue
            kept = self.seen.setdefault(name, [])
            if value not in kept and len(kept) < VALUES_KEPT:
                kept.append(value)

    def add_whole(self, values: Mapping[str, Any]) -> None:
        """Take a newer reading of everything."""
        self.add(values)
        self.told = frozenset(values)

    def values(self, name: str) -> list[Any]:
        """All that are kept of one that is known, with the newest."""
        kept, newest = self.seen.get(name, []), self.newest[name]
        return kept if newest in kept else [*kept, newest]

    def changed(self) -> dict[str, list[Any]]:
        """Facts that were not the same in all runs."""
        return {name: values for name, values in self.seen.items() if len(values) > 1}
