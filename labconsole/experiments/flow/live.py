"""What guests send while they send it, by the counters of their interfaces on the UUT: for whoever watches. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labconsole.contracts.picture import CopyState, OverTime, PictureCurve, PictureGuest, StepPicture
from labconsole.engine.crew_watch import CountingWatch
from labconsole.experiments.flow.figures import bin_rates
from labconsole.model.record.flow import FlowRecord

MEGA = 1e6
FRAMES = "Mbit/s of frames out of each guest, as it sends"
PAYLOAD = "Mbit/s of payload at the sink"


def sending_watch(guests: Mapping[int, str]) -> CountingWatch:
    """Of guests that send. ``guests``: the index of each one's interface on the UUT, to its name."""
    return CountingWatch(guests, "rx_bytes", 8 / MEGA)


def sending_over_time(watch: CountingWatch, moments: Sequence[tuple[float, str]] = ()) -> OverTime:
    """What they sent so far."""
    return watch.over_time("What guests send", FRAMES, moments)


def picture_of(record: FlowRecord, words: Sequence[str]) -> StepPicture:
    """What a trial that is over says of its guests, bin by bin."""
    if record.ring:
        done = tuple(PictureGuest(name=each.guest, state=CopyState.DONE) for each in record.ring)
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
    over_time = OverTime(
        title="What came of each guest", unit=PAYLOAD, curves=curves, moments=moments_of(asked.second_after_s)
    )
    return StepPicture(found=tuple(words), guests=guests, over_time=over_time if record.flows else None)


def moments_of(second_after_s: float) -> tuple[tuple[float, str], ...]:
    """When what is asked of the guests changes."""
    return ((second_after_s, "the others begin"),) if second_after_s else ()
