"""What trials of jobs and of starts of guests have in common when they are summed up. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from labconsole.measure.statistics.effects import holm
from labconsole.model.record.crew_trial import CrewTrialRef


class NodeOutside(Protocol):
    """What a record says of the node that is not the unit under test."""

    @property
    def node(self) -> str: ...


class TrialOfGuests(Protocol):
    """What their records have."""

    @property
    def testbed_fingerprint(self) -> str: ...
    @property
    def plan(self) -> CrewTrialRef: ...
    @property
    def status(self) -> str: ...
    @property
    def timekeeper(self) -> NodeOutside | None: ...
    @property
    def environment(self) -> Mapping[str, Any]: ...


T = TypeVar("T", bound=TrialOfGuests)


def newest_trials(every: Iterable[T]) -> list[T]:
    """Of the trials that a plan knows by one hash the last that can be stood behind, or else the last."""
    found: dict[tuple[str, str], T] = {}
    for record in every:
        key = record.testbed_fingerprint, record.plan.hash
        if key not in found or record.status == "done" or found[key].status != "done":
            found[key] = record
    return list(found.values())


def uut_kernel(record: TrialOfGuests) -> str:
    """Of the unit under test: of the nodes of a trial the one that is not the timekeeper; "" if it is not told."""
    keeper = None if record.timekeeper is None else record.timekeeper.node
    nodes = record.environment.get("nodes", {})
    for name, told in nodes.items() if isinstance(nodes, dict) else ():
        facts = told.get("facts") if isinstance(told, dict) else None
        if name != keeper and isinstance(facts, dict):
            return str(facts.get("kernel", ""))
    return ""


def adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """By Holm over those that there are."""
    known = iter(holm([p for p in p_values if p is not None]))
    return [None if p is None else next(known) for p in p_values]
