"""What a kind of record that is no run measures, as a comparison needs it: quantities of trials at design points.

Each kind declares itself as ``MEASURED`` in the file ``measured.py`` of its room, by the definitions of its report.
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
"""Of times that say nothing of what runs the guests, why: words of reports, comparisons and gates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """What is measured. Values are in ``unit``; people read them in ``shown_unit``, of which one is ``scale`` of it."""

    name: str
    unit: str
    better: Better
    shown_unit: str
    scale: float = 1.0
    places: int = 1


class MeasuredValue(NamedTuple):
    """One value, in the unit of its quantity.

    ``bound``: "at least" where nothing was lost of all that could be offered, so that more may be possible; "none"
    where not even the least was reached (``value`` None); "unknown" where it is not known what was lost; HELD where it
    was as good as its link allows; FROM_MEMORY where it is to be that of a disk, and may be that of a cache.
    ``width_ratio``: the steps that the value moves in, as a share of it; None: none that matter. ``resolution``: what a
    single value is known to, in its unit, where a mean of several is known better, such as one packet of a count.
    """

    value: float | None
    bound: Bound = "exact"
    width_ratio: float | None = None
    resolution: float | None = None


class TrialTurn(NamedTuple):
    """Of which turns in a block a trial's is one (``of``), and when it was first begun."""

    of: Hashable
    begun: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTrial:
    """One record. ``hash``: what it means; of several with one hash on a testbed one stands.

    ``factors``: the design point as it was asked for; ``words``: the same for people. ``work``: what has to be alike
    before a difference is one of the machine, such as the program of a job. ``conditions``: what else it was measured
    under, such as the kernel; None: not known. ``nodes``: facts of each, as its record has them.

    ``set_up``: the replicate, ``boot_id``: of the unit under test; None: not known. ``block``: by what it is paired,
    ``turn``: its order there; None: by nothing. ``planned``: how many trials of its point its plan asks for.

    ``values``: empty where it enters nothing, and ``left_out`` says why. ``from_memory``: what it read may have come
    from there, so that it compares with its like alone. ``run_ids``: the runs that it is made of.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredKind:
    """``compared``: the factors that two sides may be compared by, where each side has one value.

    ``trials``: of all records of the kind in a store, in any order, with the runs that are stored there by their ids:
    also of what enters nothing, since that parts a block as well.
    """

    kind: RecordKind[Any]
    compared: tuple[str, ...]
    trials: Callable[[Sequence[Any], Mapping[str, RunSummary]], list[MeasuredTrial]]
