"""What searches and jobs of a replay have in common: how a plan's steps ended, and which of them are left to take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from labconsole.contracts.experiment import Stage, Step
from labconsole.engine.crew_step import describe_refusals, drop_incomplete_blocks
from labconsole.engine.execution.progress import Outcome
from labconsole.engine.execution.steps_estimate import StepsEstimate, estimate_steps
from labconsole.engine.testbed import Testbed
from labconsole.errors import Aborted, ConfigError
from labconsole.model.inventory import Inventory
from labconsole.model.plan.plan import Plan
from labconsole.store.writing import RunStore

Chosen = frozenset[int] | None
"""The points of a plan that were asked for; None: all."""

S = TypeVar("S", bound=Step, covariant=True)


class Kind(Protocol[S]):
    """Of a kind of experiment, what is asked before anything is taken."""

    def refuse(
        self, steps: Sequence[Any], plan: Plan, inventory: Inventory, stage: Stage
    ) -> Mapping[str, ConfigError]: ...
    def steps(self, plan: Plan, only: Chosen = None, salt: str = "") -> Sequence[S]: ...
    def stored(self, steps: Sequence[Any], testbed_fingerprint: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class RemainingSteps(Generic[S]):
    """The steps that are not stored yet, of ``asked``, and what they take on units that behave. ``stored``: how many
    are; ``refused``: which cannot be had, and why, in sentences.
    """

    steps: Sequence[S]
    asked: int
    stored: int
    refused: Sequence[str]
    reckoned: StepsEstimate


def find_remaining_steps(
    kind: Kind[S], plan: Plan, only: Chosen, session: Testbed[RunStore], *, retake: bool = False, salt: str = ""
) -> RemainingSteps[S]:
    """What is left of a plan's steps of this kind; ``retake``: see in_whole_blocks(); ``salt``: of steps that nothing
    stored stands for. Blocking: asks the store. Raises ConfigError.
    """
    every = kind.steps(plan, only, salt)
    refusals = kind.refuse(every, plan, session.inventory, session.stage)
    askable = [each for each in every if each.hash not in refusals]
    stored = kind.stored(askable, session.inventory.fingerprint())
    if retake:
        stored = drop_incomplete_blocks(askable, stored)
    todo = [each for each in askable if each.hash not in stored]
    words = describe_refusals(every, refusals)
    reckoned = estimate_steps(plan, todo, session.inventory, session.boots_s)
    return RemainingSteps(todo, len(every), sum(each.hash in stored for each in askable), words, reckoned)


def exit_status(outcome: Outcome) -> int:
    """What goes with how a plan's steps ended."""
    if outcome.problem is not None:
        return outcome.problem.exit_code
    return Aborted.exit_code if outcome.stopped else 0 if outcome.steps_complete else 1


def describe_ending(outcome: Outcome) -> str:
    """In a word, or a few."""
    return "stopped" if outcome.cut_short else f"ended because {outcome.ended_by}" if outcome.ended_by else "done"
