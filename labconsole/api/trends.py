"""Trends of a plan over its occasions: one implementation for the command and the console."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from labconsole.errors import StoreError
from labconsole.model.query import Query

if TYPE_CHECKING:
    from labconsole.report.occasion_loading import StoreContents
    from labconsole.report.trends import PlanTrends, Trend
    from labconsole.store.writing import RunStore


def load_plan_trends(
    plan: str,
    query: Query,
    store: RunStore,
    *,
    on_unreadable: Callable[[StoreError], None],
    tell: Callable[[str], None],
    everything: StoreContents | None = None,
    margin_ratio: float | None = None,
) -> list[Trend]:
    """Trends of every design point of a plan, named without an occasion. ``everything``: the store's contents, if they
    are loaded already. ``margin_ratio``: None for the plan's.

    Blocking. Raises ConfigError and StoreError.
    """
    from labconsole.report.occasion_loading import load_occasions
    from labconsole.report.trends import find_trends

    everything = everything or _everything(store)
    found = load_occasions(plan, query, store, everything, on_unreadable=on_unreadable, tell=tell)
    return find_trends(found.sides, found.told, margin_ratio)


def read_trends(plan: str | None, query: Query, store: RunStore) -> PlanTrends:
    """Load trends to look at. ``plan``: None for the one measured last of those with several occasions.

    Blocking. Raises ConfigError and StoreError.
    """
    from labconsole.report.occasion_loading import count_occasions
    from labconsole.report.trends import PlanTrends

    everything = _everything(store)
    plans = count_occasions(everything)
    messages: list[str] = []
    plan = plan or next(iter(plans), None)
    if plan is None:
        return PlanTrends(plans=plans)
    trends = load_plan_trends(
        plan,
        query,
        store,
        on_unreadable=lambda exc: messages.append(str(exc)),
        tell=messages.append,
        everything=everything,
    )
    return PlanTrends(plans=plans, plan=plan, trends=trends, told=messages)


def _everything(store: RunStore) -> StoreContents:
    from labconsole.experiments.kinds import load_measured_kinds
    from labconsole.report.occasion_loading import load_contents

    return load_contents(store, load_measured_kinds())
