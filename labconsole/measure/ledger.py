"""The packet ledger of one stream: counts along its path, loss named by the hop before which it happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labconsole.model.record import Hop


@dataclass(frozen=True, slots=True)
class HopCount:
    """Packets seen at one point of the path during the trial; None where it could not be read."""

    hop: str
    node: str
    interface: str
    packets: int | None


def build_ledger(counts: Sequence[HopCount], measured_packets: int | None) -> tuple[tuple[Hop, ...], int | None]:
    """The ledger and what it cannot place.

    Each hop's loss is the difference to the last hop before it that has a count, so that the sum closes:
    generator - sum of losses - unplaced = measured. A negative loss (foreign packets joined) is kept as it is.
    ``unplaced`` is what remains between the last counted hop and ``measured_packets``; None if either is unknown.
    """
    hops: list[Hop] = []
    previous: int | None = None
    for count in counts:
        lost = None if previous is None or count.packets is None else previous - count.packets
        hops.append(
            Hop(hop=count.hop, node=count.node, interface=count.interface, packets=count.packets, lost_packets=lost)
        )
        if count.packets is not None:
            previous = count.packets
    unplaced = None if previous is None or measured_packets is None else previous - measured_packets
    return tuple(hops), unplaced
