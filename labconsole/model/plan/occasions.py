"""Repeated measurement of a plan: each occasion has runs of its own. Pure.

Replaying a completely measured plan takes no trials. To find out whether something changed since, an operator measures
the same points again under the name of an occasion. Name and hash of the plan include it, so that resuming, places and
set-ups stay within one occasion; the points keep their numbers and their order. Hashes of searches and guest
experiments include it too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from labconsole.errors import ConfigError
from labconsole.model.plan.plan import Plan
from labconsole.model.record.baseline import ALLOWED_NAMES, NAME

AT: Final = "@"
"""Separator between the names of plan and occasion."""


def build_occasion_plan(plan: Plan, occasion: str) -> Plan:
    """The plan with runs of its own for an occasion. Raises ConfigError for an invalid name."""
    if NAME.fullmatch(occasion) is None:
        raise ConfigError("is not a name", key="--occasion", value=occasion, allowed=ALLOWED_NAMES)
    found = replace(plan, name=f"{plan.name}{AT}{occasion}", occasion=occasion)
    return found if found.guests is None else replace(found, guests=replace(found.guests, salt=found.salt))


def build_occasion_plans(plan: Plan, plan_names: Iterable[str | None]) -> list[Plan]:
    """The plan on every occasion in these plan names of records."""
    occasions = {occasion for name in plan_names if name and (occasion := parse_occasion(name)) is not None}
    return [build_occasion_plan(plan, occasion) for occasion in sorted(occasions)]


def parse_occasion(plan_name: str) -> str | None:
    """The occasion in a record's plan name, or None if it has none."""
    occasion = plan_name.rpartition(AT)[2] if AT in plan_name else ""
    return occasion if NAME.fullmatch(occasion) else None
