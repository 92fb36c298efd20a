"""What a plan's searches come to, in words for the plan's details: configurations, goals, time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from labconsole.model.inventory import Inventory
from labconsole.model.plan.plan import Plan
from labconsole.text.cells import count, span

REHEARSED = 200
"""Searches up to which their time is reckoned: each takes a millisecond or two, on the way to the screen."""

Words = tuple[str, str, str]
"""Label, text, tone."""


def search_words(plan: Plan, path: Path, inventory: Inventory, boots_s: Mapping[str, float]) -> list[Words]:
    """Nothing for a plan that does not search."""
    if plan.search is None:
        return []
    searches = len(plan.searches)
    places = f"{count(searches)} configuration{'s' if searches != 1 else ''}"
    words = [
        ("searches", f"{', '.join(plan.search.goals)} at {places}" + ("" if plan.grid else "; no grid"), ""),
        *([("", _takes(plan, inventory, boots_s), "strong")] if searches <= REHEARSED else []),
        ("", f"made by `labconsole replay {path}`" + (", after the grid" if plan.grid else ""), "muted"),
    ]
    return words


def _takes(plan: Plan, inventory: Inventory, boots_s: Mapping[str, float]) -> str:
    from labconsole.experiments.search.execution import estimate_searches, wanted_searches

    made = estimate_searches(wanted_searches(plan), inventory, boots_s)
    return f"about {span(made.total_s)}, {count(made.trials)} trials or more"
