"""What guests send while they send it, by the counters of their interfaces on the UUT: for whoever watches. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labconsole.contracts.picture import CopyState, OverTime, PictureCurve, PictureGuest, StepPicture
from labconsole.engine.crew_watch import CountingWatch
from labconsole.experiments.flow.figures import bin_rates
from labconsole.model.disk_beside import DiskBeside
from labconsole.model.record.flow import FlowRecord
from labconsole.model.weights import WeightSteps, weights_text

OUT, INTO = "rx_bytes", "tx_bytes"
"""What an interface of the UUT to a guest counts as it sends, and as it is sent to."""

MEGA = 1e6
FRAMES = {OUT: "Mbit/s of frames out of each guest, as it sends", INTO: "Mbit/s of frames handed to each guest"}
TITLES = {OUT: "What guests send", INTO: "What guests are sent"}
PAYLOAD = "Mbit/s of payload at the sink"


class SendingWatch(CountingWatch):
    """Of guests that send, or are sent to (``way``). ``guests``: the index of each one's interface on the UUT, to its
    name.
    """

    def __init__(self, guests: Mapping[int, str], way: str = OUT) -> None:
        super().__init__(guests, way, 8 / MEGA)
        self.guests, self._way = dict(guests), way

    def shown(self, moments: Sequence[tuple[float, str]] = ()) -> OverTime:
        """What was seen so far."""
        return self.over_time(TITLES[self._way], FRAMES[self._way], moments)


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
