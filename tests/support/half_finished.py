"""Searches of a half-finished plan begun on a session that takes no trial: what comes next of each is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.runner import PlanRunner
from labconsole.engine.trial.setup import TrialRequest
from labconsole.errors import Aborted, ConfigError
from labconsole.experiments.search.procedure import LoadSearch
from labconsole.experiments.search.steps import LoadSearches
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import RunRecord
from labconsole.model.record.search import SearchRecord
from labconsole.store.writing import RunStore
from support.no_crews import NoCrews


class Stopped:
    """A session that takes no trial: it keeps what is asked of the first one, and stops."""

    operator = "op@host"

    def __init__(self, inventory: Inventory, store: RunStore) -> None:
        self.inventory, self.store = inventory, store
        self.boots_s = dict.fromkeys(self.inventory.platforms, 0.0)
        self.stopping, self.asked = False, dict[str, Any]()
        self.stage = NoCrews()

    def settings(self, plan: Plan | None = None) -> None:
        return None

    def nodes_of(self, request: DesignPoint) -> list[str]:
        return ["uut"]

    def announce_guest_trial(self, request: object, description: str, plan: str | None) -> None:
        return

    async def renew_lease(self, left_s: float | None) -> None:
        return

    async def settle(self, seconds: float) -> None:
        return

    async def wait_stopping(self) -> None:
        return

    @asynccontextmanager
    async def batch(self, request: DesignPoint, **_: Any) -> AsyncIterator[Callable[..., Awaitable[RunRecord]]]:
        yield self.take

    async def take(self, order: TrialRequest) -> RunRecord:
        assert order.plan is not None
        self.asked = {
            "trial": order.plan.repetition,
            "target_bps": order.request.target,
            "duration_s": order.request.duration_s,
        }
        raise Aborted("enough")


@dataclass
class Only:
    """A kind of experiment of which a plan asks for one step."""

    kind: LoadSearches
    step: LoadSearch

    def steps(self, plan: Plan, only: frozenset[int] | None = None, salt: str = "") -> list[LoadSearch]:
        return [self.step]

    def stored(self, steps: Sequence[LoadSearch], testbed_fingerprint: str) -> Mapping[str, SearchRecord]:
        return self.kind.stored(steps, testbed_fingerprint)

    def refuse(
        self, steps: Sequence[LoadSearch], plan: Plan, inventory: Inventory, stage: Any
    ) -> Mapping[str, ConfigError]:
        return self.kind.refuse(steps, plan, inventory, stage)


def next_trials(plan: Plan, inventory: Inventory, store: RunStore) -> list[dict[str, Any]]:
    """Of each search of the plan that is not finished, the trial that comes after those that are stored."""
    session: Any = Stopped(inventory, store)
    kind, found = LoadSearches(store), []
    steps = kind.steps(plan)
    stored = kind.stored(steps, inventory.fingerprint())
    for wanted in steps:
        if wanted.hash not in stored:
            session.experiments = (Only(kind, wanted),)
            with pytest.raises(Aborted, match="enough"):
                asyncio.run(PlanRunner([PlanExecution(replace(plan, grid=False), session)], session).run())
            found.append({"search": wanted.hash, **session.asked})
    return found
