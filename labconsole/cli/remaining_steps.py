"""Shared parts of the steps in a replay: how a plan's steps ended, and which of them are left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from labconsole.contracts.experiment import Stage, Step
from labconsole.engine.crew_experiment import describe_refusals, drop_incomplete_blocks
from labconsole.engine.execution.progress import Outcome
from labconsole.engine.execution.steps_estimate import StepsEstimate, estimate_steps
from labconsole.engine.testbed import Testbed
from labconsole.errors import Aborted, ConfigError
from labconsole.model.inventory import Inventory
from labconsole.model.plan.plan import Plan
from labconsole.store.writing import RunStore

Chosen = frozenset[int] | None
"""The selected points of a plan, or None for all."""

S = TypeVar("S", bound=Step, covariant=True)


class Kind(Protocol[S]):
    """Queries on a kind of experiment before anything is measured."""

    def refuse(
        self, steps: Sequence[Any], plan: Plan, inventory: Inventory, stage: Stage
    ) -> Mapping[str, ConfigError]: ...
    def steps(self, plan: Plan, only: Chosen = None, salt: str = "") -> Sequence[S]: ...
    def stored(self, steps: Sequence[Any], testbed_fingerprint: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class RemainingSteps(Generic[S]):
    """The steps that are not stored yet, and their estimated duration on well-behaved units. ``stored``: the number of
    stored ones. ``refused``: sentences on impossible steps, with reasons.
    """

    steps: Sequence[S]
    asked: int
    """The number of requested steps."""
    stored: int
    refused: Sequence[str]
    reckoned: StepsEstimate


def find_remaining_steps(
    kind: Kind[S], plan: Plan, only: Chosen, session: Testbed[RunStore], *, retake: bool = False, salt: str = ""
) -> RemainingSteps[S]:
    """The remaining steps of this kind in a plan. ``retake``: see drop_incomplete_blocks(). ``salt``: part of the
    hashes, for steps that no stored one may replace. Blocking: reads the store. Raises ConfigError.
    """
    every = kind.steps(plan, only, salt)
    refusals = kind.refuse(every, plan, session.inventory, session.stage)
    askable = [each for each in every if each.hash not in refusals]
    stored = kind.stored(askable, session.inventory.fingerprint())
    if retake:
        stored = drop_incomplete_blocks(askable, stored)
    todo = [each for each in askable if each.hash not in stored]
    sentences = describe_refusals(every, refusals)
    estimated = estimate_steps(plan, todo, session.inventory, session.boots_s)
    return RemainingSteps(todo, len(every), sum(each.hash in stored for each in askable), sentences, estimated)


def exit_status(outcome: Outcome) -> int:
    """The exit status for how a plan's steps ended."""
    if outcome.problem is not None:
        return outcome.problem.exit_code
    return Aborted.exit_code if outcome.stopped else 0 if outcome.steps_complete else 1


def describe_ending(outcome: Outcome) -> str:
    """A short description of the ending."""
    return "stopped" if outcome.cut_short else f"ended because {outcome.ended_by}" if outcome.ended_by else "done"
