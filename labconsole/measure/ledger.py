"""The packet ledger of one stream: counts along its path, and losses named by the hop that packets did not reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from labconsole.model.record.run import LedgerHop


@dataclass(frozen=True, slots=True)
class HopCount:
    """Packets seen at one point of the path during the trial, or None if it could not be read.

    ``drops``: reason to packets, from counters at this place that grew during the trial.
    """

    hop: str
    node: str
    interface: str
    packets: int | None
    drops: Mapping[str, int] = field(default_factory=dict)


def build_ledger(counts: Sequence[HopCount], measured_packets: int | None) -> tuple[tuple[LedgerHop, ...], int | None]:
    """The ledger, and the number of packets that it cannot place.

    Each hop's loss is the difference to the last hop before it that has a count, so that the sum closes: generator -
    sum of losses - unplaced = measured. A negative loss (foreign packets joined) is kept unchanged. ``unplaced`` is
    what remains between the last counted hop and ``measured_packets``; None if either is unknown. Drops explain a loss
    and are no part of the sum.
    """
    hops: list[LedgerHop] = []
    previous: int | None = None
    for count in counts:
        lost = None if previous is None or count.packets is None else previous - count.packets
        hops.append(
            LedgerHop(
                hop=count.hop,
                node=count.node,
                interface=count.interface,
                packets=count.packets,
                lost_packets=lost,
                drops=dict(count.drops),
            )
        )
        if count.packets is not None:
            previous = count.packets
    unplaced = None if previous is None or measured_packets is None else previous - measured_packets
    return tuple(hops), unplaced


def frozen(counts: Sequence[HopCount]) -> list[int]:
    """Places in ``counts`` whose counter did not move although packets were counted before and after it.

    Such a counter does not work (some drivers stop theirs while a program handles packets below the kernel): its zero
    does not mean that everything was lost.
    """
    return [
        place
        for place, count in enumerate(counts)
        if count.packets == 0
        and any(earlier.packets for earlier in counts[:place])
        and any(later.packets for later in counts[place + 1 :])
    ]


def mask_counts(counts: Sequence[HopCount], places: Sequence[int]) -> list[HopCount]:
    """The counts, with those at ``places`` unknown."""
    return [replace(count, packets=None) if place in places else count for place, count in enumerate(counts)]
