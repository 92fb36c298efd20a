"""The plan files that the console offers: those in ``plans/`` beneath the directory it was started in.

Reading is blocking and remembers what it read: a file is parsed again only when it changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labconsole.errors import ConfigError, OtherTestbed
from labconsole.model.inventory import Inventory
from labconsole.model.plan.loader import AlsoCheck, load_plan
from labconsole.model.plan.plan import Plan

DIRECTORY = Path("plans")


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """One file: a plan resolved for this testbed, or why it is none (file, line, key, what is allowed)."""

    path: Path
    stamp: tuple[int, int]
    plan: Plan | None
    problem: str
    needs: tuple[str, ...] = ()
    """What this testbed lacks, in words: the plan is right in itself, and for another one."""

    @property
    def name(self) -> str:
        return self.path.name


def scan(inventory: Inventory, known: Mapping[Path, PlanEntry], also: AlsoCheck | None = None) -> list[PlanEntry]:
    """Every plan file, by name. Raises ConfigError when the directory cannot be read; absent, it is empty."""
    try:
        paths = sorted(p for p in DIRECTORY.iterdir() if p.suffix in (".yaml", ".yml") and not p.name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise ConfigError(f"could not be read: {exc.strerror or exc}", file=str(DIRECTORY)) from exc
    found = []
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue  # removed meanwhile, or a link to nowhere
        stamp = (status.st_mtime_ns, status.st_size)
        entry = known.get(path)
        found.append(entry if entry is not None and entry.stamp == stamp else read(path, stamp, inventory, also))
    return found


def read(path: Path, stamp: tuple[int, int], inventory: Inventory, also: AlsoCheck | None = None) -> PlanEntry:
    """One file."""
    try:
        return PlanEntry(path, stamp, load_plan(path, inventory, also=also), "")
    except OtherTestbed as exc:
        return PlanEntry(path, stamp, None, str(exc), exc.needs)
    except ConfigError as exc:
        return PlanEntry(path, stamp, None, "\n".join(exc.sentences))
