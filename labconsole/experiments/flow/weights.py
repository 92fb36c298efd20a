"""Guests that share the link by weights: the UUT's queue, its reports, and the shares of each step. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from labconsole.experiments.flow.plan import SETTLED_S, FlowPoint
from labconsole.experiments.flow.rates import HEADER_BYTES, bin_rates, line_bps
from labconsole.experiments.flow.record import (
    FlowRecord,
    FlowRequested,
    LimiterRecord,
    SinkFlowRecord,
    WeightsRecord,
    WeightStepRecord,
)
from labconsole.measure.fairness import share_ratio, utilization_ratio, weight_error, whole_bins
from labconsole.measure.statistics.bounded_means import deviation_over_set_ups, drop_interval
from labconsole.measure.statistics.set_ups import SetUpMean, mean_over_set_ups
from labconsole.model.flow_scenarios import Weights, WeightSteps, weights_text
from labconsole.model.record.run import Reason
from labconsole.network.traffic_control import MOST_QUEUE_PACKETS, SharedQueue, SharingGuest
from labconsole.verdict.reasons import reason
from labconsole.wire.queues import (
    LEAST_CLASS_BPS,
    MAX_CLASSES,
    MOST_BURST_S,
    MOST_CLASS_BPS,
    ChangeRates,
    QueueState,
    RatesTaken,
    TakenChange,
    TakenChanges,
)

# -- the queue and its steps -------------------------------------------------------------------------------------------
# The queue's rate is a little below what the link carries, so that guests wait in it and not at the NIC. The NIC's own
# queueing discipline is left alone.

QUEUE = "lcqw"
KIND = "htb on ifb"
LINK_RATIO = 0.985
"""The queue's rate as a share of what the link carries."""

BURST_S, LEAST_BURST_BYTES = 0.001, 3028
QUEUE_S = 0.25
"""Longest wait of each guest's frames if it has all of the link."""

LEAST_QUEUE_PACKETS = 20
LATE_S = 0.01
RATE_ERROR = 0.001
FILLED_RATIO = 0.97
"""Least share of the queue that is used if all guests want their part of it."""


class Sharer(Protocol):
    """A guest behind an interface of its own."""

    @property
    def address(self) -> str: ...
    @property
    def host_interface(self) -> str | None: ...


def link_bps(link_speed_bps: int, payload_bytes: int) -> int:
    """The queue's rate, in whole frames without check sequence."""
    frames = (payload_bytes + HEADER_BYTES) / payload_bytes
    return int(LINK_RATIO * line_bps(link_speed_bps, payload_bytes) * frames)


def _most_bps(limits_bps: Sequence[int], guests: int, all_bps: int) -> tuple[int, ...]:
    """The highest rate of each guest."""
    return tuple(limits_bps[place % len(limits_bps)] if limits_bps else all_bps for place in range(guests))


def _burst_bytes(all_bps: int) -> int:
    """The burst allowed after a pause."""
    return max(LEAST_BURST_BYTES, round(all_bps / 8 * BURST_S))


def weights_misfit(point: FlowPoint, link_speed_bps: int) -> str | None:
    """Why no queue of this link can have these weights, or None if one can."""
    if point.weights is None:
        return None
    if point.guests > MAX_CLASSES:
        return f"one queue shares among {MAX_CLASSES} guests at most"
    all_bps = link_bps(link_speed_bps, point.payload_bytes)
    if all_bps > MOST_CLASS_BPS:
        return f"a queue lets {MOST_CLASS_BPS} bit/s through at most, and would let {all_bps} of this link"
    most_bps = _most_bps(point.limits, point.guests, all_bps)
    for step, rates in zip(point.weights.steps, point.weights.rates_bps(all_bps, most_bps), strict=True):
        if min(rates) < LEAST_CLASS_BPS:
            return (
                f"{weights_text(step)} of the link are {min(rates)} to {max(rates)} bit/s, and a queue gives a guest "
                f"{LEAST_CLASS_BPS} bit/s at least"
            )
        if _burst_bytes(all_bps) * 8 > MOST_BURST_S * min(rates):
            return (
                f"{weights_text(step)} of the link are {min(rates)} to {max(rates)} bit/s, and a queue with "
                f"{_burst_bytes(all_bps)} bytes of burst gives a guest {_burst_bytes(all_bps) * 8 // MOST_BURST_S + 1} "
                "bit/s at least"
            )
    return None


def build_queue(
    point: FlowPoint, weights: WeightSteps, guests: Sequence[Sharer], link_speed_bps: int, begin_s: float
) -> tuple[SharedQueue, ChangeRates]:
    """The queue at its start, and its changes. ``begin_s``: time limit for its first use."""
    all_bps = link_bps(link_speed_bps, point.payload_bytes)
    most_bps = _most_bps(point.limits, len(guests), all_bps)
    rates_bps = weights.rates_bps(all_bps, most_bps)
    burst_bytes = _burst_bytes(all_bps)
    queue_packets = round(all_bps / 8 * QUEUE_S / (point.payload_bytes + HEADER_BYTES))
    queue_packets = min(MOST_QUEUE_PACKETS, max(LEAST_QUEUE_PACKETS, queue_packets))
    sharing = [
        SharingGuest(interface=guest.host_interface or "", address=guest.address, rate_bps=rate, most_bps=most)
        for guest, rate, most in zip(guests, rates_bps[0], most_bps, strict=True)
    ]
    queue = SharedQueue(
        queue=QUEUE, rate_bps=all_bps, burst_bytes=burst_bytes, queue_packets=queue_packets, guests=sharing
    )
    changes = ChangeRates(
        queue=QUEUE,
        rates_bps=rates_bps,
        most_bps=list(most_bps),
        burst_bytes=burst_bytes,
        every_s=weights.every_s,
        begin_s=begin_s,
    )
    return queue, changes


def describe_applied_weights(taken: RatesTaken, weights: WeightSteps, wanted: ChangeRates) -> str:
    """The weights in force, as text for the live view; says so if the rates read back are not theirs."""
    if taken.place >= len(weights.steps):
        return "weights other than requested"
    rates_bps = wanted.rates_bps[taken.place]
    in_force = len(taken.rates_bps) == len(rates_bps) and all(map(_is_rate, taken.rates_bps, rates_bps))
    text = weights_text(weights.steps[taken.place])
    return text if in_force else f"not {text}"


def build_class_limiters(state: QueueState) -> tuple[LimiterRecord, ...]:
    """Each guest's class as a limiter with the guest's highest rate."""
    return tuple(
        LimiterRecord(
            kind=KIND,
            interface=QUEUE,
            rate_bps=each.most_bps,
            burst_bytes=None,
            passed_packets=each.packets,
            dropped_packets=each.dropped_packets,
        )
        for each in state.classes
    )


def derive_weights(
    requested: FlowRequested,
    flows: Sequence[SinkFlowRecord],
    guests: Sequence[str],
    shared_bins: tuple[int | None, int | None],
    *,
    all_bps: int,
    taken: TakenChanges | None,
    kept_bps: Sequence[int | None],
) -> WeightsRecord | None:
    """The result of each step, or None if no weights were requested. ``taken``: None without a report from the UUT.
    ``kept_bps``: rates of the last step, at its end.
    """
    if requested.weights is None:
        return None
    begun_ns = None if taken is None else taken.begun_ns
    changes: Sequence[TakenChange] = () if taken is None else taken.changes
    steps = []
    for number, weights in enumerate(requested.weights.steps):
        change = changes[number] if number < len(changes) else None
        late_ns = None if change is None or change.taken_ns is None else change.taken_ns - (begun_ns or 0)
        last = number == len(requested.weights.steps) - 1
        found = WeightStepRecord(
            weights=weights,
            due_s=number * requested.weights.every_s,
            taken_s=None if late_ns is None else max(0, late_ns) / 1e9,
            rates_bps=() if change is None else tuple(change.rates_bps),
            kept_bps=tuple(kept_bps) if last else () if change is None else tuple(change.kept_bps or ()),
            complaint="" if change is None else change.complaint or "",
        )
        steps.append(_add_shares(found, requested, flows, guests, shared_bins, all_bps))
    errors = [each.error_ratio for each in steps if each.error_ratio is not None]
    return WeightsRecord(
        interface=QUEUE,
        link_bps=all_bps,
        looked_ns=None if taken is None else taken.looked_ns,
        begun_ns=begun_ns,
        steps=tuple(steps),
        mean_error_ratio=sum(errors) / len(errors) if errors and len(errors) == len(steps) else None,
    )


def _add_shares(
    step: WeightStepRecord,
    requested: FlowRequested,
    flows: Sequence[SinkFlowRecord],
    guests: Sequence[str],
    shared_bins: tuple[int | None, int | None],
    all_bps: int,
) -> WeightStepRecord:
    """The step with its bins.

    Bin 0 begins with the first packet at the sink. The steps' time begins with the first packets in the queue on the
    way, which the UUT sees some milliseconds late. So in the bins' time a change takes effect at the reported time or a
    little later, and the first 0.2 s after it do not count.
    """
    first_shared, stop_shared = shared_bins
    if step.taken_s is None or first_shared is None or stop_shared is None or requested.weights is None:
        return step
    bin_ns = round(requested.bin_s * 1e9)
    last = step.weights == requested.weights.steps[-1] and step.due_s >= _last_due_s(requested.weights)
    end_s = stop_shared * requested.bin_s if last else step.due_s + requested.weights.every_s
    first, stop = whole_bins(round((step.taken_s + SETTLED_S) * 1e9), round(end_s * 1e9), 0, bin_ns)
    first, stop = max(first, first_shared), min(stop, stop_shared)
    if stop <= first:
        return step
    rates = [bin_rates(flows, guest, stop, requested.payload_bytes, requested.bin_s)[first:] for guest in guests]
    shares = [share_ratio(rates, place) for place in range(len(guests))]
    if None in shares:
        return step
    frames = (requested.payload_bytes + HEADER_BYTES) / requested.payload_bytes
    found = {
        "first_bin": first,
        "stop_bin": stop,
        "share_ratios": tuple(shares),
        "error_ratio": None if requested.limits_bps else weight_error(rates, step.weights),
        "filled_ratio": utilization_ratio(rates, all_bps / frames),
    }
    return step.model_copy(update=found)


def _last_due_s(weights: WeightSteps) -> float:
    return (len(weights.steps) - 1) * weights.every_s


def weight_reasons(requested: FlowRequested, weights: WeightsRecord | None) -> Iterator[Reason]:
    """Reasons against a trial whose guests were to share by weights."""
    if requested.weights is None:
        return
    if weights is None or weights.begun_ns is None:
        yield reason("weights_missing", "the unit under test does not say that weights were in force")
        return
    if weights.looked_ns is None or weights.begun_ns - weights.looked_ns > LATE_S * 1e9:
        detail = "when guests began to send was seen late, so that it is not known in which bins weights changed"
        yield reason("weights_late", detail, looked_ns=weights.looked_ns, begun_ns=weights.begun_ns)
    most_bps = _most_bps(requested.limits_bps, requested.guests, weights.link_bps)
    wanted_bps = requested.weights.rates_bps(weights.link_bps, most_bps)
    for step, rates_bps in zip(weights.steps, wanted_bps, strict=True):
        yield from _step_reasons(step, rates_bps, min(weights.link_bps, sum(most_bps)) / weights.link_bps)


def _step_reasons(step: WeightStepRecord, wanted_bps: Sequence[int], most_ratio: float) -> Iterator[Reason]:
    """Reasons against one step. ``most_ratio``: share of the queue that the guests may have in total."""
    label = f"weights {weights_text(step.weights)}, due after {step.due_s:g} s"
    if step.taken_s is None:
        why = f": {step.complaint}" if step.complaint else ""
        yield reason("weights_missing", f"{label}, did not take effect{why}", due_s=step.due_s)
        return
    for found, when in ((step.rates_bps, "when they were read back"), (step.kept_bps, "at the end of their time")):
        if len(found) != len(wanted_bps) or not all(map(_is_rate, found, wanted_bps)):
            rates = ", ".join("none" if each is None else str(each) for each in found) or "none"
            detail = f"{label}, were not in force {when}: the guests' rates were {rates} bit/s"
            yield reason("weights_missing", detail, due_s=step.due_s)
            break
    if step.taken_s - step.due_s > LATE_S:
        late_s = step.taken_s - step.due_s
        yield reason(
            "weights_late", f"{label}, took effect {late_s * 1e3:.1f} ms late", due_s=step.due_s, late_s=late_s
        )
    if step.first_bin is None:
        yield reason("rate_uncertain", f"{label}: no bin in which all guests send lies wholly in it", due_s=step.due_s)
    elif step.filled_ratio is not None and step.filled_ratio < FILLED_RATIO * most_ratio:
        detail = f"{label}: the guests used {step.filled_ratio:.1%} of what they share: they do not offer enough to "
        "use all of it"
        yield reason("offered_short", detail, due_s=step.due_s, filled_ratio=step.filled_ratio)


def _is_rate(found_bps: int | None, wanted_bps: int) -> bool:
    return found_bps is not None and abs(found_bps - wanted_bps) <= RATE_ERROR * wanted_bps


# -- weight shares -----------------------------------------------------------------------------------------------------
# Shares of guests that share by weights, and their distance from their due, step by step.


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightStepResult:
    """Weights at a point: the share of everything that arrives that the first guest is due, and the share that it has.

    ``deviations``: each guest's share less its due, signed (empty if the guests have limits, too). The deviations at a
    point and the first guest's shares are one family with simultaneous intervals. No interval is closer than one of the
    ``packets`` that arrived in the trial with the fewest. ``error_ratio``: mean distance of the guests from their due.
    It is above zero by chance alone, and has no interval.
    """

    weights: Weights
    due_ratio: float
    first_share_ratio: SetUpMean | None
    error_ratio: SetUpMean | None
    deviations: tuple[SetUpMean | None, ...] = ()
    packets: int | None = None

    @property
    def farthest(self) -> tuple[int, SetUpMean] | None:
        """Place and deviation of the guest that is farthest from its due, or None if nothing is known."""
        known = [(place, each) for place, each in enumerate(self.deviations) if each is not None]
        return max(known, key=lambda each: abs(each[1].mean), default=None)


def weight_steps(
    steps: Sequence[Weights], by_set_up: Mapping[str, Sequence[FlowRecord]], *, limited: bool
) -> tuple[WeightStepResult, ...]:
    """The result of each step. ``by_set_up``: the included trials. ``limited``: their guests have limits as well."""
    guests = len(steps[0]) if steps else 0
    family = len(steps) * (guests if guests > 2 else 1)  # of two guests, one's share determines the other's
    return tuple(_step(number, weights, by_set_up, family, limited) for number, weights in enumerate(steps))


def _step(
    number: int, weights: Weights, by_set_up: Mapping[str, Sequence[FlowRecord]], family: int, limited: bool
) -> WeightStepResult:
    seen = {
        set_up: [(record, record.weights.steps[number]) for record in group if record.weights is not None]
        for set_up, group in by_set_up.items()
    }

    def values(take: Callable[[WeightStepRecord], float | None]) -> dict[str, list[float]]:
        found = {set_up: [take(step) for _, step in group] for set_up, group in seen.items()}
        known = {set_up: [each for each in group if each is not None] for set_up, group in found.items()}
        return {set_up: group for set_up, group in known.items() if group}

    packets = min(
        (count for group in seen.values() for record, step in group if (count := _packets(record, step))), default=None
    )
    floor = 0.0 if packets is None else 1 / packets

    def share(place: int, due_ratio: float) -> SetUpMean | None:
        shares = values(lambda step: step.share_ratios[place] if step.share_ratios else None)
        return deviation_over_set_ups(shares, due_ratio, family, floor)

    errors = values(lambda step: step.error_ratio)
    due = [weight / sum(weights) for weight in weights]
    return WeightStepResult(
        weights=weights,
        due_ratio=due[0],
        first_share_ratio=share(0, 0.0),
        error_ratio=drop_interval(mean_over_set_ups(errors)) if errors else None,
        deviations=() if limited else tuple(share(place, ratio) for place, ratio in enumerate(due)),
        packets=packets,
    )


def _packets(record: FlowRecord, step: WeightStepRecord) -> int:
    """Packets of all guests that arrived in the bins of the step."""
    return sum(sum(flow.bin_packets[step.first_bin : step.stop_bin]) for flow in record.flows) if step.stop_bin else 0
