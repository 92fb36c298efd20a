"""A plan that is measured again and again: each time, an occasion, has runs of its own. Pure.

A plan that is measured already is done: replaying it takes nothing. Whoever asks whether something changed since
measures the same points once more, under a name for the occasion. Name and hash of the plan have it, so that resuming,
places and set-ups are those of one occasion; the points keep their numbers and their order. Searches, and what guests
do, have it in the hashes that they are found again by.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from labconsole.errors import ConfigError
from labconsole.model.plan.plan import Plan
from labconsole.model.record.baseline import NAME, NAME_WORDS

AT: Final = "@"
"""Between the name of a plan and that of the occasion."""


def build_occasion_plan(plan: Plan, occasion: str) -> Plan:
    """The plan with runs of its own. Raises ConfigError for what is no name."""
    if NAME.fullmatch(occasion) is None:
        raise ConfigError("is not a name", key="--occasion", value=occasion, allowed=NAME_WORDS)
    found = replace(plan, name=f"{plan.name}{AT}{occasion}", occasion=occasion)
    return found if found.of_guests is None else replace(found, of_guests=replace(found.of_guests, salt=found.salt))


def build_occasion_plans(plan: Plan, plan_names: Iterable[str | None]) -> list[Plan]:
    """The plan on every occasion that these names, as records have them, tell of."""
    told = {occasion for name in plan_names if name and (occasion := parse_occasion(name)) is not None}
    return [build_occasion_plan(plan, occasion) for occasion in sorted(told)]


def parse_occasion(plan_name: str) -> str | None:
    """As the name in a record has it; None: it has none."""
    occasion = plan_name.rpartition(AT)[2] if AT in plan_name else ""
    return occasion if NAME.fullmatch(occasion) else None
