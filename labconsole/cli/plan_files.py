"""Plans that a command line names by their files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from labconsole.errors import ConfigError
from labconsole.model.plan.plan import Plan


def refuse_twice(paths: Sequence[Path], plans: Sequence[Plan]) -> None:
    """Two files with one meaning are one plan: nothing would follow from the second. Raises ConfigError."""
    seen: dict[object, Path] = {}
    for path, plan in zip(paths, plans, strict=True):
        meaning = (plan.hash(), plan.grid, plan.search, plan.of_guests)
        if meaning in seen:
            raise ConfigError(
                f"describes the same measurements as {seen[meaning]}; remove one of the two", file=str(path)
            )
        seen[meaning] = path
