"""Under which names a plan is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labconsole.model.plan.occasions import AT

if TYPE_CHECKING:
    from labconsole.model.record.summary import RunFilter
    from labconsole.store.writing import RunStore


def names_of(plan_name: str, store: RunStore, where: RunFilter) -> list[str]:
    """Its own, and those of its occasions, as far as anything is stored of them."""
    from labconsole.model.record.kinds import record_kinds

    names = {run.plan_name for run in store.list(where)}
    for kind in record_kinds().values():
        names |= {kind.columns(record).plan_name for record in store.experiments(kind, where)}
    return sorted(name for name in names if name and plan_name in (name, name.rpartition(AT)[0]))
