"""Whether trials, and set-ups of a block, were measured in the order that their plan drew. Pure.

An operator who measures one platform after the other by hand (``--platforms A``, then ``B``) measures A before B in
every block. Drift of the machine then affects B each time, and looks like an effect. The draw prevents that.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import NamedTuple

from labconsole.measure.contiguous_set_ups import SetUpStarts
from labconsole.measure.groups import block_of
from labconsole.measure.run_row import RunRow
from labconsole.report.points import PointSummary, RunFacts

AS_LISTED = "as-listed"
"""The order without a draw: the same in every block, and in every pass through a set-up's points."""

ORDER_LISTED = "the plan lists the order instead of drawing it: set order: blocked-random, raise set_ups and replay"
NOT_AS_DRAWN = (
    "set-ups of one block were not taken in the order that the plan drew: raise set_ups and replay the whole plan"
)

MISTAKEN_SHARE = 3
"""An order counts as wrong if at least one in this number of blocks differs from the drawn one.

Two platforms that are always measured in the same order match the plan's in one of two blocks, since every second block
is the previous one reversed. One of four or more is a guest that did not boot at its turn.
"""


class SetUpOrder(NamedTuple):
    """When the first try at a run's set-up began, and the run's place in the plan's order.

    ``repetitions``: the number that the plan requested for its point then; positions are only comparable between equal
    numbers.
    """

    begun: str
    seed: int
    order: str | None
    position: int
    repetitions: int | None


SetUpOrders = Mapping[str, SetUpOrder]
"""By run id, for the runs whose records have it."""


def collect_orders(entered: Iterable[RunRow], begun: SetUpStarts, facts: Mapping[str, RunFacts]) -> SetUpOrders:
    """For every run of a block: the order in its record, and when its set-up was actually first tried."""
    found = {}
    for run in entered:
        first = begun.get((block_of(run), run.platform, run.background))
        known = facts.get(run.run_id)
        if first is not None and known is not None and known.place is not None:
            found[run.run_id] = SetUpOrder(first, *known.place)
    return found


def find_order_objection(
    one: PointSummary, other: PointSummary, blocks: Collection[Hashable], known: SetUpOrders
) -> str | None:
    """Why the order of two points forbids a comparison, or None if records show no reason.

    ``blocks``: those in which they are a pair. A point that is as listed in a third or more of its own blocks is
    compared with nothing: drift of the machine during a set-up affects the same point each time.
    """
    ours, theirs = _group_by_block(one, known), _group_by_block(other, known)
    if any(
        _too_many(sum(each.order == AS_LISTED for each in orders.values()), len(orders)) for orders in (ours, theirs)
    ):
        return ORDER_LISTED
    both = [block for block in blocks if block in ours and block in theirs]
    pairs = [(ours[block], theirs[block]) for block in both]
    repetitions = {(own.repetitions, other.repetitions) for own, other in pairs}
    against = sum(
        _contradicts_order(own, other, own.repetitions == other.repetitions or len(repetitions) == 1)
        for own, other in pairs
    )
    return NOT_AS_DRAWN if _too_many(against, len(blocks)) else None


def _too_many(against: int, blocks: int) -> bool:
    return against > 0 and blocks <= MISTAKEN_SHARE * against


def _group_by_block(point: PointSummary, known: SetUpOrders) -> dict[Hashable, SetUpOrder]:
    """Places of one set-up are adjacent, so that any of its runs represents it."""
    runs = zip(point.run_ids, point.blocks_of_runs, strict=True)
    return {block: known[run_id] for run_id, block in runs if run_id in known}


def _contradicts_order(one: SetUpOrder, other: SetUpOrder, of_one_plan: bool) -> bool:
    """``of_one_plan``: if False, the plan's repetitions were lowered between the two, and their order is unknown.

    Two set-ups that differ in every block do so by a plan that requests it.
    """
    if AS_LISTED in (one.order, other.order) or (one.seed, one.order) != (other.seed, other.order):
        return True
    if not of_one_plan or one.begun == other.begun:
        return False
    return (one.begun < other.begun) is not (one.position < other.position)
