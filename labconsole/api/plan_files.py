"""Plans that a command line selects by their files, and the names under which a plan is stored."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from labconsole.errors import ConfigError, StoreHeld
from labconsole.model.identity import operator_name
from labconsole.model.inventory import Inventory
from labconsole.model.plan.plan import AT, Plan
from labconsole.store.writing import RunStore

if TYPE_CHECKING:
    from labconsole.model.record.summary import RunFilter


# -- names of stored plans ---------------------------------------------------------------------------------------------
# The names under which a plan is stored.


def find_names_like(word: str, store: RunStore) -> list[str]:
    """The word, or the names of plans and occasions that match it as a pattern, such as ``nightly@main-*``."""
    from labconsole.model.record.summary import RunFilter

    if not set(word) & set("*?["):
        return [word]
    return sorted(name for name in _all_names(store, RunFilter()) if fnmatchcase(name, word))


def find_names_of_plan(plan_name: str, store: RunStore, where: RunFilter) -> list[str]:
    """The plan's own name, and those of its occasions, if there are stored trials of them."""
    names = _all_names(store, where)
    return sorted(name for name in names if plan_name in (name, name.rpartition(AT)[0]))


def _all_names(store: RunStore, where: RunFilter) -> set[str]:
    from labconsole.model.record.kind import record_kinds

    names = {run.plan_name for run in store.list(where)}
    for kind in record_kinds().values():
        names |= {kind.columns(record).plan_name for record in store.experiments(kind, where)}
    return {name for name in names if name}


# -- plan files --------------------------------------------------------------------------------------------------------
# Plans that a command line selects by their files.


def refuse_twice(paths: Sequence[Path], plans: Sequence[Plan]) -> None:
    """Refuse two files with one meaning, which are one plan: the second would have no effect. Raises ConfigError."""
    seen: dict[object, Path] = {}
    for path, plan in zip(paths, plans, strict=True):
        meaning = (plan.hash(), plan.grid, plan.search, plan.guests)
        if meaning in seen:
            raise ConfigError(
                f"describes the same measurements as {seen[meaning]}; remove one of the two", file=str(path)
            )
        seen[meaning] = path


def load_plan_on_occasion(path: Path, occasion: str | None, hosts: Path | None) -> Plan:
    """A plan by its file, as measured on an occasion, or without one if None. Raises ConfigError.

    ``hosts``: the testbed file with defaults for what the plan omits, else ./hosts.yaml if there is one.
    """
    from labconsole.model.inventory import DEFAULT_INVENTORY, load_inventory
    from labconsole.model.plan.loader import load_plan
    from labconsole.model.plan.plan import build_occasion_plan

    place = hosts if hosts is not None else DEFAULT_INVENTORY if DEFAULT_INVENTORY.exists() else None
    plan = load_plan(path)
    if place is not None:
        plan = plan.resolved(load_inventory(place))
    return plan if occasion is None else build_occasion_plan(plan, occasion)


@contextmanager
def exclusive_replay(store: RunStore, inventory: Inventory, plans: Sequence[Plan]) -> Iterator[None]:
    """Keep every other replay on this testbed off this store during the block.

    Both would measure the missing trials. The lease keeps operators apart while one measures. This covers the rest:
    reading the store, commands, waiting. Raises StoreHeld, which names the holder.
    """
    since = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    holder = f"{operator_name()} since {since} (process {os.getpid()}), {', '.join(plan.name for plan in plans)}"
    with ExitStack() as opened:
        try:
            opened.enter_context(store.hold(f"replay-{inventory.fingerprint()[:12]}", holder))
        except StoreHeld as exc:
            raise StoreHeld("replaying into this store on this testbed", exc.holder) from None
        yield
