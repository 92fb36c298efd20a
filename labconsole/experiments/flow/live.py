"""What guests send while they send it, by the counters of their interfaces on the UUT: for whoever watches. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labconsole.contracts.picture import CopyState, OverTime, PictureCurve, PictureGuest, StepPicture
from labconsole.experiments.flow.figures import bin_rates
from labconsole.model.disk_beside import DiskBeside
from labconsole.model.record.flow import FlowRecord
from labconsole.model.weights import WeightSteps, weights_text
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import CountersSampled

OUT, INTO = STAT_NAMES.index("rx_bytes"), STAT_NAMES.index("tx_bytes")
"""What an interface of the UUT to a guest counts as it sends, and as it is sent to."""

LEAST_STEP_S = 0.2
"""Between two points of a curve: what is shorter is mostly the noise of when it was read."""

MOST_POINTS = 400
MEGA = 1e6
FRAMES = {OUT: "Mbit/s of frames out of each guest, as it sends", INTO: "Mbit/s of frames handed to each guest"}
TITLES = {OUT: "What guests send", INTO: "What guests are sent"}
PAYLOAD = "Mbit/s of payload at the sink"


class SendingWatch:
    """Takes samples of the UUT's counters. ``guests``: the index of each one's interface there, to its name; ``way``:
    OUT of them, or INTO them.
    """

    def __init__(self, guests: Mapping[int, str], way: int = OUT) -> None:
        self.guests, self._way = dict(guests), way
        self._begun_ns: int | None = None
        self._last: dict[int, tuple[int, int]] = {}
        self._curves: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in guests.values()}

    def see(self, sample: CountersSampled) -> bool:
        """Whether a point was added. The first sample is where time begins."""
        added = False
        for index, values in sample.namespaces.get("", ()):
            if index in self.guests and len(values) > self._way:
                added |= self._count(index, sample.monotonic_ns, values[self._way])
        return added

    def _count(self, index: int, at_ns: int, counted: int) -> bool:
        self._begun_ns = at_ns if self._begun_ns is None else self._begun_ns
        former_ns, former = self._last.setdefault(index, (at_ns, counted))
        took_s = (at_ns - former_ns) / 1e9
        if took_s < LEAST_STEP_S:
            return False
        self._last[index] = at_ns, counted
        seconds, values = self._curves[self.guests[index]]
        seconds.append((at_ns - self._begun_ns) / 1e9)
        values.append(max(0, counted - former) * 8 / took_s / MEGA)
        del seconds[:-MOST_POINTS], values[:-MOST_POINTS]
        return True

    def over_time(self, moments: Sequence[tuple[float, str]] = ()) -> OverTime:
        """What was seen so far."""
        curves = tuple(
            PictureCurve(name=name, seconds=tuple(seconds), values=tuple(values))
            for name, (seconds, values) in self._curves.items()
        )
        return OverTime(title=TITLES[self._way], unit=FRAMES[self._way], curves=curves, moments=tuple(moments))


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
    moments = moments_of(asked.second_after_s, asked.weights, asked.disk)
    over_time = OverTime(title="What came of each guest", unit=PAYLOAD, curves=curves, moments=moments)
    return StepPicture(found=tuple(words), guests=guests, over_time=over_time if record.flows else None)


def moments_of(
    second_after_s: float, weights: WeightSteps | None = None, disk: DiskBeside | None = None
) -> tuple[tuple[float, str], ...]:
    """When what is asked of the guests changes."""
    found = [(second_after_s, "the others begin")] if second_after_s else []
    steps = () if weights is None or len(weights.steps) == 1 else weights.steps
    found += [(number * weights.every_s, weights_text(each)) for number, each in enumerate(steps) if weights]
    found += [(disk.from_s, "the last works on its disk"), (disk.to_s, "it ends")] if disk is not None else []
    return tuple(found)
