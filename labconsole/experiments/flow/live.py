"""What guests send while they send it, by the UUT's counters of their interfaces, of what limits them or of the queue
that they share: for whoever watches. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from labconsole.contracts.picture import CopyState, OverTime, PictureCurve, PictureGuest, StepPicture
from labconsole.engine.crew_watch import CountingWatch
from labconsole.experiments.flow.figures import HEADER_BYTES, bin_rates
from labconsole.model.disk_beside import DiskBeside
from labconsole.model.record.flow import FlowRecord, LimiterSeen
from labconsole.model.weights import weights_text
from labconsole.units import format_rate_bps
from labconsole.wire.counters import CountersSampled
from labconsole.wire.queues import QueueState

OUT, INTO = "rx_bytes", "tx_bytes"
"""What an interface of the UUT to a guest counts as it sends, and as it is sent to."""

MEGA = 1e6
FRAMES = {OUT: "Mbit/s of frames out of each guest, as it sends", INTO: "Mbit/s of frames handed to each guest"}
TITLES = {OUT: "What guests send", INTO: "What guests are sent"}
PASSED = "Mbit/s of frames of each guest that passed what holds it"
PAYLOAD = "Mbit/s of payload at the sink"


class SendingWatch(CountingWatch):
    """Of guests that send, or are sent to (``way``). ``guests``: the index of each one's interface on the UUT, to its
    name. ``moments``: what was asked for beforehand; ``limiters``: what holds guests, read back; ``passed``: the
    interfaces are those of what holds them.
    """

    def __init__(
        self,
        guests: Mapping[int, str],
        way: str = OUT,
        moments: Sequence[tuple[float, str]] = (),
        limiters: Mapping[str, LimiterSeen] | None = None,
        *,
        passed: bool = False,
    ) -> None:
        super().__init__(guests, way, 8 / MEGA)
        self.guests, self._way, self._moments = dict(guests), way, list(moments)
        self._passed = passed
        self._levels = limit_levels(limiters or {})

    def mark(self, at_ns: int, words: str) -> None:
        """Something took effect, by the UUT's monotonic clock. Before the first sample there is no place for it."""
        if (at_s := self.since_begun_s(at_ns)) is not None:
            self._moments.append((round(at_s, 2), words))

    def shown(self) -> OverTime:
        """What was seen so far."""
        unit = PASSED if self._passed else FRAMES[self._way]
        return replace(self.over_time(TITLES[self._way], unit, sorted(self._moments)), levels=self._levels)


class SharingWatch(SendingWatch):
    """Of guests that share a queue by weights: what passed it, by their classes, of frames of so many bytes."""

    def __init__(self, guests: Sequence[str], frame_bytes: int) -> None:
        super().__init__(dict(enumerate(guests)), passed=True)
        self._frame_bytes = frame_bytes

    def see(self, sample: CountersSampled) -> bool:
        """The counters say nothing of classes."""
        return False

    def see_classes(self, at_ns: int, state: QueueState) -> bool:
        """Whether a point was added. ``at_ns``: by the UUT's monotonic clock."""
        known = [(place, each.packets) for place, each in enumerate(state.classes) if place in self.guests]
        added = False
        for place, packets in known:
            if packets is not None:
                added |= self._count(place, at_ns, packets * self._frame_bytes)
        return added


def limit_levels(limiters: Mapping[str, LimiterSeen], layers: float = 1.0) -> tuple[tuple[float, str], ...]:
    """The limits of these guests that could be read back, each with those that have it, in Mbit/s; ``layers``: how
    much more their layer counts than that which is drawn.
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


def picture_of(record: FlowRecord, words: Sequence[str]) -> StepPicture:
    """What a trial that is over says of its guests, bin by bin."""
    if not record.senders:
        names = [*(each.guest for each in record.ring), *(each.guest for each in record.receivers)]
        done = tuple(PictureGuest(name=name, state=CopyState.DONE) for name in names)
        return StepPicture(found=tuple(words), guests=done)
    asked = record.requested
    bins = round(asked.duration_s / asked.bin_s)
    curves = tuple(
        PictureCurve(
            name=sender.guest,
            seconds=tuple((number + 0.5) * asked.bin_s for number in range(bins)),
            values=tuple(
                rate / MEGA for rate in bin_rates(record.flows, sender.guest, bins, asked.payload_bytes, asked.bin_s)
            ),
        )
        for sender in record.senders
    )
    guests = tuple(PictureGuest(name=sender.guest, state=CopyState.DONE) for sender in record.senders)
    steps = () if record.weights is None else record.weights.steps
    taken = [(each.taken_s, weights_text(each.weights)) for each in steps if each.taken_s is not None]
    limiters = {each.guest: each.limiter for each in record.senders if each.limiter is not None} if not steps else {}
    over_time = OverTime(
        title="What came of each guest",
        unit=PAYLOAD,
        curves=curves,
        moments=tuple(sorted([*moments_of(asked.second_after_s, asked.disk), *taken])),
        levels=limit_levels(limiters, (asked.payload_bytes + HEADER_BYTES) / asked.payload_bytes),
    )
    return StepPicture(found=tuple(words), guests=guests, over_time=over_time if record.flows else None)


def moments_of(second_after_s: float, disk: DiskBeside | None = None) -> tuple[tuple[float, str], ...]:
    """When what guests are told to do changes."""
    found = [(second_after_s, "the others begin")] if second_after_s else []
    found += [(disk.from_s, "the last works on its disk"), (disk.to_s, "it ends")] if disk is not None else []
    return tuple(found)
