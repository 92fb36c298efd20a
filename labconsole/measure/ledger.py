"""The packet ledger of one stream: counts along its path, losses named by the hop not reached; as a text picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import wrap

from labconsole.measure.drop_causes import causes_of
from labconsole.model.record.run import LedgerHop, StreamRecord
from labconsole.units import format_count

# -- ledger ------------------------------------------------------------------------------------------------------------


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


# -- ledger picture ----------------------------------------------------------------------------------------------------
# The packet ledger of one stream as a text picture, for the terminal and for plain output.
#
# Pure. Each row is a list of (text, tone). A tone is one of "", "muted", "good", "warn", "bad", which a screen maps to
# a style and plain output omits, so that no meaning depends on colour. Rows are never wider than requested.

Row = list[tuple[str, str]]

DASH = "–"
MIN_BAR = 8
_BELOW = "  │    "
_EIGHTHS = " ▏▎▍▌▋▊▉"
_HOPS = {"source_nic": "source", "uut_in": "UUT in", "uut_out": "UUT out", "sink_nic": "sink"}


def format_hop(hop: str) -> str:
    """The display name of a hop: ``UUT in`` for ``uut_in``, which records use."""
    return _HOPS.get(hop, hop.replace("_", " "))


def ledger_rows(stream: StreamRecord, width: int) -> list[Row]:
    """Hop after hop with its count and a bar on a common scale; between two hops the loss and its reasons."""
    known = [hop.packets for hop in stream.ledger if hop.packets is not None]
    most = max(known, default=0)
    names = max((len(format_hop(hop.hop)) for hop in stream.ledger), default=0)
    places = max((len(_place(hop)) for hop in stream.ledger), default=0)
    counts = max((len(_count(hop.packets)) for hop in stream.ledger), default=1)
    room = width - names - places - counts - 6
    if room < MIN_BAR:  # on a narrow screen the picture is omitted first, then the place is cut
        room = 0
        places = max(0, min(places, width - names - counts - 4))
    rows: list[Row] = []
    sent = stream.offered_packets if stream.generator_packets is None else stream.generator_packets
    for hop in stream.ledger:
        rows += _loss_rows(hop, sent, width)
        row: Row = [
            (f"{format_hop(hop.hop):<{names}}  ", ""),
            (f"{_place(hop)[:places]:<{places}}  ", "muted"),
            (f"{_count(hop.packets):>{counts}}", "warn" if hop.packets is None else ""),
        ]
        if room and hop.packets is not None and most:
            row.append(("  " + bar(hop.packets / most, room), "good"))
        rows.append(row)
    if stream.unplaced_packets:
        rows.append([("  ├─ ", "muted"), (f"{_signed(-stream.unplaced_packets)} unplaced", "warn")])
    elif stream.unplaced_packets is None:
        rows.append([("  └─ ", "muted"), ("it is not known whether all packets are accounted for", "warn")])
    if stream.measured_packets is not None:
        rows.append(
            [("  └─ ", "muted"), (f"measured {_count(stream.measured_packets)}, by {stream.measured_from}", "")]
        )
    return [cut(row, width) for row in rows]


def format_drops(hop: LedgerHop) -> str:
    """The drop counters that grew at a hop, the largest first, or ""."""
    return ", ".join(_drops(hop))


def _moved(hop: LedgerHop) -> list[tuple[str, int]]:
    return sorted(hop.drops.items(), key=lambda item: (-item[1], item[0]))


def _drops(hop: LedgerHop) -> list[str]:
    return [f"{reason} {_count(packets)}" for reason, packets in _moved(hop)]


def _loss_rows(hop: LedgerHop, sent: int | None, width: int) -> list[Row]:
    """The lines between a hop and the previous one; none without a loss and without growth of drop counters.

    Counters that do not fit next to the loss are listed below it, one per line, followed by the meaning of the kernel's
    reasons.
    """
    drops = format_drops(hop)
    if not hop.lost_packets:
        return [[("  │  ", "muted"), (f"counted as dropped: {drops}", "muted")]] if drops else []
    if hop.lost_packets < 0:
        return [[("  ├─ ", "muted"), (f"{_signed(-hop.lost_packets)} foreign packets joined here", "warn")]]
    share = f" ({100 * hop.lost_packets / sent:.3g} %)" if sent else ""
    lost = f"{_signed(-hop.lost_packets)}{share} lost before {format_hop(hop.hop)}"
    row: Row = [("  ├─ ", "muted"), (lost, "bad"), (f": {drops or 'no counter says why'}", "")]
    if sum(len(text) for text, _ in row) <= width or not drops:
        return [row, *_causes(hop, width)]
    return [row[:2], *([(_BELOW, "muted"), (each, "")] for each in _drops(hop)), *_causes(hop, width)]


def _causes(hop: LedgerHop, width: int) -> list[Row]:
    room = max(width - len(_BELOW), 20)
    texts = [f"{cause.happened} ({cause.look})" for cause in causes_of(name for name, _ in _moved(hop))]
    return [[(_BELOW, "muted"), (line, "muted")] for text in texts for line in wrap(text, room)]


def _place(hop: LedgerHop) -> str:
    return f"{hop.node}/{hop.interface}"


def _count(value: int | None) -> str:
    return DASH if value is None else format_count(value)


def _signed(value: int) -> str:
    return f"−{format_count(-value)}" if value < 0 else f"+{format_count(value)}"


def bar(share: float, width: int) -> str:
    """A bar in eighths of a cell. Any part above zero is visible, and so is any missing part."""
    eighths = round(share * width * 8)
    if share > 0:
        eighths = max(eighths, 1)
    if share < 1:
        eighths = min(eighths, width * 8 - 1)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def cut(row: Row, width: int) -> Row:
    """A row, cut to the width."""
    kept: Row = []
    left = width
    for text, tone in row:
        if left <= 0:
            break
        if len(text) > left:
            text = text[: left - 1] + "…" if left > 1 else text[:left]
        kept.append((text, tone))
        left -= len(text)
    return kept
