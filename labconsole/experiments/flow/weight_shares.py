"""Shares of guests that share by weights, and their distance from their due, step by step. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from labconsole.experiments.flow.record import FlowRecord, WeightStepRecord
from labconsole.measure.statistics.bounded_means import deviation_over_set_ups, drop_interval
from labconsole.measure.statistics.set_ups import SetUpMean, mean_over_set_ups
from labconsole.model.weights import Weights


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
