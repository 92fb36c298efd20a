"""A plan's searches executed, one configuration after the other: what is finished is skipped, what is begun goes on.

A search that cannot be brought to its end (a trial that stays invalid, too many trials) is stored as failed, and the
next begins; a node that is lost is waited for, and the search goes on from its stored trials.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from labconsole.engine.execution.attempts import ENDS_ALL
from labconsole.engine.execution.hooks import run_command
from labconsole.engine.execution.pending import Take
from labconsole.errors import Aborted, LabError, MeasurementError, NodeLost, NodeUnreachable
from labconsole.experiments.search.course import rehearse
from labconsole.experiments.search.procedure import (
    SearchSession,
    SearchStore,
    Wanted,
    check_search,
    line_rate_pps,
    search_load,
)
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.plan.conduct import Stop
from labconsole.model.plan.estimate import PLATFORM_SWITCH_S, TRIAL_OVERHEAD_S
from labconsole.model.plan.plan import Plan
from labconsole.model.plan.search import Configuration, search_hash
from labconsole.model.record.run import RunRecord
from labconsole.model.record.search import SearchRecord

BACK_WITHIN_S = 120.0
"""How long a lost node is waited for: a reboot takes about that."""

MAX_SETBACKS = 2
"""How often a node may be lost without a trial in between before the searches end."""


class SearchCampaignSession(SearchSession, Protocol):
    """What a plan's searches need of the session."""

    @property
    def boots_s(self) -> Mapping[str, float]: ...
    def batch(
        self,
        request: DesignPoint,
        *,
        purpose: str | None = None,
        take_over: bool = False,
        left_s: float | None = None,
    ) -> AbstractAsyncContextManager[Take]: ...
    def nodes_of(self, request: DesignPoint) -> list[str]: ...
    async def wait_connected(self, nodes: Iterable[str], *, within_s: float) -> None: ...


class HasSearches(Protocol):
    """What can be asked about searches without touching the testbed."""

    @property
    def inventory(self) -> Inventory: ...
    @property
    def store(self) -> SearchStore: ...


@dataclass(slots=True)
class SearchOutcome:
    """How a plan's searches ended. ``skipped`` were finished before; ``refused``: what could not be searched at all.

    ``stopped``: by the operator; ``ended_by``: by which of the plan's conditions. Then not all were begun or ended.
    """

    made: list[SearchRecord] = field(default_factory=list)
    skipped: int = 0
    trials: int = 0
    refused: list[str] = field(default_factory=list)
    stopped: bool = False
    ended_by: str = ""

    @property
    def failed(self) -> list[SearchRecord]:
        """Those that did not come to their end."""
        return [record for record in self.made if record.status == "failed"]

    @property
    def complete(self) -> bool:
        """Whether every search that was asked for is there."""
        return not (self.stopped or self.ended_by or self.refused or self.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEstimate:
    """What searches take on units that behave: noisy ones need more."""

    searches: int
    trials: int
    total_s: float


def wanted_searches(plan: Plan, only: frozenset[int] | None = None) -> list[Wanted]:
    """Every search of a plan that is resolved for its testbed; ``only`` where these points of it are."""
    if plan.search is None:
        return []
    tolerances = dict(plan.platform_tolerances)
    places = None if only is None else {_place(plan.points[index].request) for index in only}
    return [
        Wanted(
            search=plan.search,
            configuration=configuration,
            hash=search_hash(plan.search, configuration),
            plan_name=plan.name,
            seed=plan.seed,
            drain_s=plan.drain_s,
            settle_s=plan.settle_s,
            tolerances=tolerances.get(configuration.request.platform, plan.tolerances),
            max_redo=plan.max_redo,
        )
        for configuration in plan.searches
        if places is None or _place(configuration.request) in places
    ]


def _place(request: DesignPoint) -> DesignPoint:
    """The request without what is of its load."""
    return replace(request, target="max", duration_s=1.0)


def remaining_searches(plan: Plan, session: HasSearches, only: frozenset[int] | None = None) -> list[Wanted]:
    """The searches that are not finished on this testbed. Blocking: reads the store."""
    fingerprint = session.inventory.fingerprint()
    return [
        wanted
        for wanted in wanted_searches(plan, only)
        if session.store.finished_search(wanted.hash, fingerprint) is None
    ]


def check_searches(plan: Plan, inventory: Inventory) -> None:
    """Refuse before anything is touched what cannot be searched on this testbed. Raises ConfigError."""
    for wanted in wanted_searches(plan):
        check_search(wanted.search, wanted.request, inventory)


def estimate_searches(searches: Sequence[Wanted], inventory: Inventory, boots_s: Mapping[str, float]) -> SearchEstimate:
    """By rehearsing every search on a unit that drops what exceeds its capacity."""
    trials, total_s, platform = 0, 0.0, ""
    for wanted in searches:
        taken = rehearse(wanted.search, line_rate_pps(wanted.request, inventory))
        trials += len(taken)
        total_s += sum(taken) + len(taken) * _around_s(wanted, inventory)
        if wanted.request.platform != platform:
            platform = wanted.request.platform
            total_s += PLATFORM_SWITCH_S + boots_s[platform]
    return SearchEstimate(searches=len(searches), trials=trials, total_s=total_s)


def _around_s(wanted: Wanted, inventory: Inventory) -> float:
    """Of each trial, beside its traffic."""
    defaults = inventory.defaults
    drain_s = defaults.drain_s if wanted.drain_s is None else wanted.drain_s
    settle_s = defaults.settle_s if wanted.settle_s is None else wanted.settle_s
    return drain_s + settle_s + TRIAL_OVERHEAD_S


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """A search begins (``record`` None) or has ended; ``number`` from 1 of ``total``."""

    number: int
    total: int
    configuration: Configuration
    record: SearchRecord | None


class Halt:
    """Says to begin no further trial: the operator wants it, or one of the plan's conditions."""

    def __init__(self, stop: Stop | None = None) -> None:
        self._stop = stop or Stop()
        self._deadline = self._stop.deadline(datetime.now().astimezone())
        self._ends_at = None if self._stop.after_s is None else time.monotonic() + self._stop.after_s
        self.told = False

    def finish(self) -> None:
        """Let the running trial end and begin no other."""
        self.told = True

    @property
    def condition(self) -> str:
        """Which condition says so; empty when none does."""
        if self._ends_at is not None and time.monotonic() >= self._ends_at:
            return f"{self._stop.after_s:g} s of measuring are over"
        if self._deadline is not None and datetime.now().astimezone() >= self._deadline:
            return f"it is {self._deadline:%Y-%m-%d %H:%M}"
        return ""

    def __call__(self) -> bool:
        return self.told or bool(self.condition)


async def run_searches(
    plan: Plan,
    session: SearchCampaignSession,
    *,
    on_trial: Callable[[RunRecord], None] = lambda record: None,
    on_search: Callable[[SearchProgress], None] = lambda progress: None,
    only: frozenset[int] | None = None,
    halt: Halt | None = None,
    take_over: bool = False,
) -> SearchOutcome:
    """Make every search of the plan that is not finished, between its pre and post commands.

    The plan is resolved for this testbed (check_plan). Ends early, with ``stopped`` or ``ended_by`` set, when the
    session is aborted or ``halt`` says so. Raises LabError for what no other search would fare better with.
    """
    check_searches(plan, session.inventory)
    todo = await asyncio.to_thread(remaining_searches, plan, session, only)
    outcome = SearchOutcome(skipped=len(wanted_searches(plan, only)) - len(todo))
    if not todo:
        return outcome
    environment = {
        "LABCONSOLE_PLAN": plan.name,
        "LABCONSOLE_PLAN_HASH": plan.hash(),
        "LABCONSOLE_TESTBED": session.inventory.testbed,
        "LABCONSOLE_TRIALS": "",
    }
    ending = "failed"
    try:
        for command in plan.pre:
            await run_command(command, {**environment, "LABCONSOLE_ENDING": ""}, "pre")
        outcome = await make_searches(
            todo, session, outcome, purpose=f"plan {plan.name}", on_trial=on_trial, on_search=on_search,
            halt=halt or Halt(plan.stop), take_over=take_over,
        )  # fmt: skip
        ending = "stopped" if outcome.stopped or outcome.ended_by else "done"
    finally:
        for command in plan.post:
            try:
                await run_command(command, {**environment, "LABCONSOLE_ENDING": ending}, "post")
            except MeasurementError as exc:
                outcome.refused.append(str(exc))
    return outcome


async def make_searches(
    todo: Sequence[Wanted],
    session: SearchCampaignSession,
    outcome: SearchOutcome,
    *,
    purpose: str,
    on_trial: Callable[[RunRecord], None],
    on_search: Callable[[SearchProgress], None] = lambda progress: None,
    halt: Halt | None = None,
    take_over: bool = False,
) -> SearchOutcome:
    """Make these searches, in their order. See run_searches."""
    halt = halt or Halt()
    widest = max((wanted.request for wanted in todo), key=lambda request: request.sources)
    run = _Run(todo, session, outcome, on_trial, on_search, halt)
    setbacks, stuck_at = 0, -1
    while run.left and not (outcome.stopped or outcome.ended_by):
        try:
            async with session.batch(widest, purpose=purpose, take_over=take_over, left_s=run.left_s()) as take:
                take_over = False  # meant for who had it then, not for who takes it while a node is away
                await run.take_all(take)
        except Aborted:
            outcome.ended_by = "" if session.stopping or halt.told else halt.condition
            outcome.stopped = not outcome.ended_by
        except (NodeLost, NodeUnreachable):
            if session.stopping:
                outcome.stopped = True
                break
            setbacks = setbacks + 1 if stuck_at == outcome.trials else 1
            stuck_at = outcome.trials
            if setbacks > MAX_SETBACKS:
                raise
            await session.wait_connected(session.nodes_of(widest), within_s=BACK_WITHIN_S)
    return outcome


class _Run:
    """Search after search, while the testbed is held."""

    def __init__(
        self, todo: Sequence[Wanted], session: SearchCampaignSession, outcome: SearchOutcome,
        on_trial: Callable[[RunRecord], None], on_search: Callable[[SearchProgress], None], halt: Halt,
    ) -> None:  # fmt: skip
        self.left = list(todo)
        self._total, self._session, self._outcome = len(todo), session, outcome
        self._told, self._on_search, self._halt = on_trial, on_search, halt
        self._ends_at = time.monotonic() + estimate_searches(todo, session.inventory, session.boots_s).total_s

    def left_s(self) -> float:
        """By the estimate, for those who wait for the testbed."""
        return max(0.0, self._ends_at - time.monotonic())

    async def take_all(self, take: Take) -> None:
        """Raises Aborted when it is to stop, and what no other search would fare better with."""
        while self.left:
            wanted = self.left[0]
            if self._session.stopping or self._halt():
                raise Aborted("the searches were stopped")
            number = self._total - len(self.left) + 1
            self._on_search(SearchProgress(number, self._total, wanted.configuration, None))
            try:
                record = await search_load(
                    self._session, take, wanted, on_trial=self._count, left_s=self.left_s, halted=self._halt
                )
            except ENDS_ALL:
                raise
            except LabError as exc:
                self._outcome.refused.append(f"{wanted.configuration.describe()}: {exc}")
            else:
                self._outcome.made.append(record)
                self._on_search(SearchProgress(number, self._total, wanted.configuration, record))
            del self.left[0]

    def _count(self, record: RunRecord) -> None:
        self._outcome.trials += 1
        self._told(record)
