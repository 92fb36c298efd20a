"""The names under which a plan is stored."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from labconsole.model.plan.occasions import AT

if TYPE_CHECKING:
    from labconsole.model.record.summary import RunFilter
    from labconsole.store.writing import RunStore


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
    from labconsole.model.record.kinds import record_kinds

    names = {run.plan_name for run in store.list(where)}
    for kind in record_kinds().values():
        names |= {kind.columns(record).plan_name for record in store.experiments(kind, where)}
    return {name for name in names if name}
