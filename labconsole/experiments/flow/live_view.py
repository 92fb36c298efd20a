"""Live view of flows: each guest's rate during a trial and its result afterwards. Pure.

Live rates are the UUT's counters of the guests' interfaces, of their limiters, or of the queue that they share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from labconsole.contracts.picture import CopyState, OverTime, PictureCurve, PictureGuest, StepPicture
from labconsole.engine.crew_sink import CountingWatch
from labconsole.experiments.flow.quantities import quantities, sent_bps
from labconsole.experiments.flow.rates import HEADER_BYTES, bin_rates, sent_to_at_once
from labconsole.experiments.flow.record import FlowRecord, LimiterRecord, ReceiverRecord, RingGuestRecord, SenderRecord
from labconsole.model.flow_scenarios import DiskBeside, weights_text
from labconsole.text.cells import UNKNOWN, format_mbit, format_percent, format_rounded
from labconsole.units import format_rate_bps
from labconsole.wire.counters import CountersSampled
from labconsole.wire.queues import QueueState

OUT, INTO = "rx_bytes", "tx_bytes"
"""Counters of a UUT interface to a guest: for what the guest sends, and for what it is sent."""

MEGA = 1e6
FRAMES, PAYLOAD = "Mbit/s of frames", "Mbit/s of payload"
TITLES = {OUT: "What guests send", INTO: "What is handed to guests"}
PASSED, AT_SINK = "Let through, by guest", "At the sink, by guest"
"""Titles that fit, with the unit, above a chart of 66 cells."""

MOST_NAMED, MOST_IN_BRIEF = 8, 4


class SendingWatch(CountingWatch):
    """Watches guests that send or receive (``way``).

    ``guests``: index of each one's interface on the UUT, to its name. ``moments``: requested changes, known beforehand.
    ``limiters``: the guests' limiters, read back. ``passed``: the interfaces are those of the limiters.
    """

    def __init__(
        self,
        guests: Mapping[int, str],
        way: str = OUT,
        moments: Sequence[tuple[float, str]] = (),
        limiters: Mapping[str, LimiterRecord] | None = None,
        *,
        passed: bool = False,
    ) -> None:
        super().__init__(guests, way, 8 / MEGA)
        self.guests, self._way, self._moments = dict(guests), way, list(moments)
        self._passed = passed
        self._levels = limit_levels(limiters or {})

    def mark(self, at_ns: int, label: str) -> None:
        """Mark a change that took effect, by the UUT's monotonic clock. Marks before the first sample are dropped."""
        if (at_s := self.since_begun_s(at_ns)) is not None:
            self._moments.append((round(at_s, 2), label))

    def shown(self) -> OverTime:
        """The chart of the rates so far."""
        title = PASSED if self._passed else TITLES[self._way]
        return replace(self.over_time(title, FRAMES, sorted(self._moments)), levels=self._levels)


class SharingWatch(SendingWatch):
    """Watches guests that share a queue by weights: the frames of ``frame_bytes`` that passed it, by class."""

    def __init__(self, guests: Sequence[str], frame_bytes: int) -> None:
        super().__init__(dict(enumerate(guests)), passed=True)
        self._frame_bytes = frame_bytes

    def see(self, sample: CountersSampled) -> bool:
        """Always False: these counters do not distinguish classes."""
        return False

    def see_classes(self, at_ns: int, state: QueueState) -> bool:
        """Count the packets of each class. Returns whether a point was added. ``at_ns``: the UUT's monotonic clock."""
        known = [(place, each.packets) for place, each in enumerate(state.classes) if place in self.guests]
        added = False
        for place, packets in known:
            if packets is not None:
                added |= self._count(place, at_ns, packets * self._frame_bytes)
        return added


def limit_levels(limiters: Mapping[str, LimiterRecord], layers: float = 1.0) -> tuple[tuple[float, str], ...]:
    """The limits that could be read back, in Mbit/s, each with its guests. ``layers``: ratio of what the limits' layer
    counts to what is drawn.
    """
    guests: dict[int, list[str]] = {}
    for name, limiter in limiters.items():
        if limiter.rate_bps is not None:
            guests.setdefault(limiter.rate_bps, []).append(name)
    return tuple(
        (rate_bps / MEGA / layers, f"{_named(names)} ≤ {format_rate_bps(rate_bps)}")
        for rate_bps, names in sorted(guests.items())
    )


def _named(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more"


def build_picture(record: FlowRecord, lines: Sequence[str]) -> StepPicture:
    """Build the picture of a completed trial: its text and its guests' rates, bin by bin."""
    guests, brief = build_picture_guests(record), format_brief(record)
    if not record.senders:
        return StepPicture(found=tuple(lines), brief=brief, guests=guests)
    requested = record.requested
    bins = round(requested.duration_s / requested.bin_s)
    curves = tuple(
        PictureCurve(
            name=sender.guest,
            seconds=tuple((number + 0.5) * requested.bin_s for number in range(bins)),
            values=tuple(
                rate / MEGA
                for rate in bin_rates(record.flows, sender.guest, bins, requested.payload_bytes, requested.bin_s)
            ),
        )
        for sender in record.senders
    )
    steps = () if record.weights is None else record.weights.steps
    taken = [(each.taken_s, weights_text(each.weights)) for each in steps if each.taken_s is not None]
    limiters = {each.guest: each.limiter for each in record.senders if each.limiter is not None} if not steps else {}
    over_time = OverTime(
        title=AT_SINK,
        unit=PAYLOAD,
        curves=curves,
        moments=tuple(sorted([*build_moments(requested.second_after_s, requested.disk), *taken])),
        levels=limit_levels(limiters, (requested.payload_bytes + HEADER_BYTES) / requested.payload_bytes),
    )
    return StepPicture(found=tuple(lines), brief=brief, guests=guests, over_time=over_time if record.flows else None)


Found = list[tuple[str, str]]
"""Cells of a guest's row: heading of a column, and text."""


def build_picture_guests(record: FlowRecord) -> tuple[PictureGuest, ...]:
    """The results of a completed trial's guests: what each sent, read or forwarded."""
    attained, limited = quantities(record).attained, bool(record.requested.limits_bps)
    found = [(each.guest, _sent(record, place, attained.get(each.guest))) for place, each in enumerate(record.senders)]
    found += [(each.guest, _forwarded(each, record.window_s, limited)) for each in record.ring]
    found += [(each.guest, _read(each)) for each in record.receivers]
    return tuple(PictureGuest(name=name, state=CopyState.DONE, found=tuple(cells)) for name, cells in found)


def _sent(record: FlowRecord, place: int, attained: float | None) -> Found:
    each = record.senders[place]
    several = len(record.senders) > 1
    own = ("Mbit/s at sink", format_mbit(each.payload_bps))
    found = [("Mbit/s while all send", format_mbit(each.shared_bps)) if several else own]
    if record.requested.limits_bps:
        found += [_limit(each), ("attained", UNKNOWN if attained is None else f"{attained:.4f}")]
    if record.weights is not None and len(record.weights.steps) == 1:
        step = record.weights.steps[0]
        share = f"{step.share_ratios[place]:.4f}" if place < len(step.share_ratios) else UNKNOWN
        weight = str(step.weights[place]) if place < len(step.weights) else UNKNOWN
        found += [("weight", weight), ("share", share)]
    found += _lost(each.lost_packets, each.host_packets)
    found += [own] if several else []
    return [*found, ("Mbit/s sent", format_mbit(sent_bps(each, record.requested.payload_bytes)))]


def _forwarded(each: RingGuestRecord, window_s: float | None, limited: bool) -> Found:
    into_bps = None if each.in_bytes is None or not window_s else each.in_bytes * 8 / window_s
    return [
        ("sends to", each.to),
        ("Mbit/s of frames out", format_mbit(each.out_bps)),
        *([_limit(each)] if limited else []),
        ("Mbit/s of frames in", format_mbit(into_bps)),
        ("Mbit/s by its word", format_mbit(each.said_bps)),
    ]


def _read(each: ReceiverRecord) -> Found:
    return [
        ("Mbit/s read", format_mbit(each.payload_bps)),
        *_lost(each.lost_packets, each.sent_packets),
        ("lost at", format_losses(each)),
        ("Mbit/s sent to it", format_mbit(each.offered_bps)),
    ]


def _limit(each: SenderRecord | RingGuestRecord) -> tuple[str, str]:
    return "limit Mbit/s", format_mbit(None if each.limiter is None else each.limiter.rate_bps)


def _lost(lost_packets: int | None, sent_packets: int | None) -> Found:
    ratio = None if lost_packets is None or not sent_packets else lost_packets / sent_packets
    return [("lost", format_rounded(lost_packets)), ("lost %", format_percent(ratio))]


def format_losses(each: ReceiverRecord) -> str:
    """Losses of a receiving guest by place, such as ``guest_socket_full 12, unplaced 1``."""
    places = [(loss.hop, loss.packets) for loss in each.losses if loss.packets]
    places += [("unplaced", each.unplaced_packets)] if each.unplaced_packets else []
    return ", ".join(f"{hop} {packets}" for hop, packets in places)


def format_brief(record: FlowRecord) -> str:
    """Short result in Mbit/s, the main part first: ``95.71, g1 47.86, g2 47.85, Jain 0.9999, 100.00% of the line``."""
    if record.sum_bps is None:
        return ""
    parts = [format_mbit(record.sum_bps)]
    each = [
        *((sender.guest, sender.shared_bps) for sender in record.senders),
        *((guest.guest, guest.out_bps) for guest in record.ring),
        *((guest.guest, guest.payload_bps) for guest in record.receivers),
    ]
    if 1 < len(each) <= MOST_IN_BRIEF:
        parts += [f"{guest} {format_mbit(rate)}" for guest, rate in each]
    parts += [f"Jain {record.jain:.4f}"] if record.jain is not None and len(each) > 1 else []
    parts += [filled] if (filled := format_line_share(record)) else []
    return ", ".join(parts)


def format_line_share(record: FlowRecord) -> str:
    """The sum as a share of the link, such as ``100.00% of the line``. Rates over different times do not add up to a
    rate, so the text gives these times instead.
    """
    if record.line_ratio is None:
        return ""
    if not sent_to_at_once(record.receivers):
        times_s = [each.sent_s for each in record.receivers if each.sent_s is not None]
        return f"each over its own time, {min(times_s):.3f} to {max(times_s):.3f} s"
    return f"{record.line_ratio:.2%} of the line"


def build_moments(second_after_s: float, disk: DiskBeside | None = None) -> tuple[tuple[float, str], ...]:
    """Times at which the guests' requested behaviour changes, each with a label."""
    found = [(second_after_s, "the others begin")] if second_after_s else []
    found += [(disk.from_s, "the last works on its disk"), (disk.to_s, "it ends")] if disk is not None else []
    return tuple(found)
