"""The quantities that a kind of experiment measures at design points, for comparisons.

Runs have their own. Each other kind declares itself as ``MEASURED`` in the file ``measured.py`` of its room, by the
definitions of its report.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from labconsole.model.record.kind import RecordKind
from labconsole.model.record.summary import RunSummary

Better = Literal["higher", "lower"]
Bound = Literal["exact", "at least", "none", "unknown", "held by the link", "read from memory"]

HELD: Final = "held by the link"
FROM_MEMORY: Final = "read from memory"
"""The reason given in reports, comparisons and gates for times that do not characterize what runs the guests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A measured quantity. Values are in ``unit``; people read ``shown_unit``, one of which is ``scale`` of it."""

    name: str
    unit: str
    better: Better
    shown_unit: str
    scale: float = 1.0
    places: int = 1


class MeasuredValue(NamedTuple):
    """One value, in the unit of its quantity.

    ``bound``: "at least" where nothing was lost at the highest possible load, so that more may be possible; "none"
    where even the lowest load failed (``value`` is None); "unknown" where the loss is unknown; ``HELD`` where the value
    reached the link's limit; FROM_MEMORY where a disk was to be measured but a cache may have answered.
    ``width_ratio``: the steps in which the value moves, as a share of it, or None if they do not matter.
    ``resolution``: the resolution of a single value, in its unit, where a mean of several is known better, such as one
    packet of a count.
    """

    value: float | None
    bound: Bound = "exact"
    width_ratio: float | None = None
    resolution: float | None = None


class TrialTurn(NamedTuple):
    """The position of a trial in its block: one of the turns ``of`` this key, first ``begun`` at this time."""

    of: Hashable
    begun: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTrial:
    """One record. ``hash``: its meaning; of several records with one hash on a testbed, one counts.

    ``factors``: the design point as requested. ``words``: the same for people. ``work``: what must be equal before a
    difference can be attributed to the machine, such as the program of a job. ``conditions``: other conditions of the
    measurement, such as the kernel, with None for unknown ones. ``nodes``: facts of each node, as in its record.

    ``set_up``: the replicate, ``boot_id``: of the unit under test, each None if unknown. ``block``: the key for
    pairing, ``turn``: its order in the block, each None if the trial is not paired. ``planned``: the number of trials
    of its point in the plan.

    ``values``: empty if the trial is excluded; ``left_out`` says why. ``from_memory``: its data may have come from
    memory, so that it is only compared with trials of which the same is true. ``run_ids``: the runs it consists of.
    """

    kind: str
    id: str
    hash: str
    plan_name: str
    status: str
    started_at: str
    testbed: str
    testbed_fingerprint: str
    emulated: bool
    factors: Mapping[str, Hashable]
    words: str
    values: Mapping[Quantity, MeasuredValue]
    left_out: str | None
    set_up: Hashable | None
    boot_id: str | None
    block: Hashable | None = None
    turn: TrialTurn | None = None
    planned: int | None = None
    work: str = ""
    from_memory: bool = False
    conditions: Mapping[str, str | None]
    nodes: Mapping[str, Any]
    margin_ratio: float | None = None
    run_ids: Sequence[str] = ()

    # Filters test these fields under the names that runs have them.

    @property
    def platform(self) -> str:
        return str(self.factors["platform"])

    @property
    def uut_kernel(self) -> str:
        """The kernel of the unit under test, or "" if unknown."""
        return self.conditions.get("kernel") or ""

    @property
    def hypervisor(self) -> str:
        """The hypervisor with its version, or "" if unknown."""
        return self.conditions.get("hypervisor") or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredKind:
    """A kind of record that comparisons can use.

    ``compared``: the factors by which two sides may be compared, if each side has one value of them.

    ``trials``: turns all records of the kind in a store, in any order, and the stored runs by ID, into measured trials.
    It returns excluded records, too, because they also split a block.
    """

    kind: RecordKind[Any]
    compared: tuple[str, ...]
    trials: Callable[[Sequence[Any], Mapping[str, RunSummary]], list[MeasuredTrial]]
