"""Advice on how many set-ups a plan of guests needs, and to show which change, from its own stored trials.

It treats each quantity of each design point by itself, as engine/execution/advice.py does for forwarded traffic: jobs,
starts, flows and routes of a plan have little in common. With one trial per set-up the variation within a set-up is
unknown, so only set-ups are advised. One more repetition costs one trial of each point that is measured in the same
guests.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from labconsole.comparison.effects import LOSS_UNKNOWN
from labconsole.contracts.measured import FROM_MEMORY, HELD, MeasuredKind, MeasuredTrial, MeasuredValue, Quantity
from labconsole.engine.execution.advice import APART, Dimension, dimension, seconds_between
from labconsole.errors import MeasurementError
from labconsole.measure.paired_blocks import newest_trials
from labconsole.measure.statistics.as_json import components_json
from labconsole.measure.statistics.components import (
    MINIMUM_REPETITIONS,
    MINIMUM_SET_UPS,
    Components,
    advise,
    components,
    fewest_set_ups,
    set_ups_to_show,
    upper_variance,
    upper_variance_of_mean,
)
from labconsole.measure.statistics.set_ups import deviation, mean_of
from labconsole.model.plan.plan import Plan

CHANGES_RATIO: Final = (0.01, 0.02, 0.05, 0.1)
"""The changes for which the advice gives the number of set-ups that show them."""

BOTH: Final = "some trials may have read from memory, and some did not"
NOT_ITS_OWN: Final[Mapping[str, str]] = {
    "at least": "nothing was lost at the highest possible load, so it varies as the source or the link does",
    "unknown": LOSS_UNKNOWN,
    HELD: HELD,
    FROM_MEMORY: FROM_MEMORY,
    BOTH: BOTH,
}
"""Reasons for values that vary for other causes than the guests."""


@dataclass(frozen=True, slots=True)
class QuantityAdvice:
    """Advice for one quantity of one design point. ``set_ups``, ``repetitions``: stored (the mean, where set-ups
    differ).

    ``sd_ratio``: between the means of set-ups. ``spread``: the part of it within set-ups, or None with one trial in
    each. ``setup_s``: time to set the guests up. ``trial_s``: time for one more repetition of all points measured in
    them. ``to_show``: each change with the fewest set-ups that show it at the advised repetitions, with 80 % power,
    between two points of the same blocks and without other claims; None means more than 10 000. It is empty where
    nothing varied, because the number is unknown then.
    """

    platform: str
    point: str
    quantity: str
    set_ups: int
    repetitions: float
    sd_ratio: float
    spread: Components | None
    setup_s: float
    trial_s: float
    as_advised: Dimension
    as_planned: Dimension
    to_show: tuple[tuple[float, int | None], ...]

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "platform": self.platform,
            "point": self.point,
            "quantity": self.quantity,
            "set_ups": self.set_ups,
            "repetitions": self.repetitions,
            "sd_ratio": self.sd_ratio,
            "spread": components_json(self.spread),
            "setup_s": self.setup_s,
            "trial_s": self.trial_s,
            "as_advised": self.as_advised.to_json(),
            "as_planned": self.as_planned.to_json(),
            "to_show": self.to_show,
        }


@dataclass(frozen=True, slots=True)
class GuestsAdvice:
    """Advice for a plan of guests.

    ``set_ups``, ``repetitions``: the most that any quantity needs. ``claims``: the number in a report on what is
    stored. ``left_out``: quantities that the advice could not use, with the reason. ``trials_left_out``: excluded
    trials of points that it could use. ``total_s``: time for all blocks of this size, without the points in
    ``without_time``, of which no trial enters a mean, so that their duration is unknown.
    """

    accuracy_ratio: float
    claims: int
    each: tuple[QuantityAdvice, ...]
    left_out: tuple[tuple[str, str], ...]
    trials_left_out: tuple[tuple[str, str], ...]
    set_ups: int
    repetitions: int
    total_s: float
    without_time: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As ``plan advise --json`` prints it."""
        return {
            "accuracy_ratio": self.accuracy_ratio,
            "claims": self.claims,
            "each": [each.to_json() for each in self.each],
            "left_out": self.left_out,
            "trials_left_out": self.trials_left_out,
            "set_ups": self.set_ups,
            "repetitions": self.repetitions,
            "total_s": self.total_s,
            "without_time": self.without_time,
        }


def guests_advice(
    plan: Plan, kind: MeasuredKind, records: Iterable[Any], accuracy_ratio: float, claims: int
) -> GuestsAdvice:
    """Return the advice for a plan. ``records``: everything stored of its trials on this testbed.

    Raises MeasurementError if there are too few trials.
    """
    guests_plan = plan.guests
    assert guests_plan is not None
    at: dict[str, Any] = dict(zip(guests_plan.hashes, guests_plan.trials, strict=True))
    every = [record for record in records if record.plan.hash in at]
    newest = {id(record) for record in newest_trials(every)}
    by_point: dict[int, list[tuple[Any, MeasuredTrial]]] = {}
    crews: dict[Hashable, list[int]] = {}
    of_crew: dict[Hashable, list[Any]] = {}
    why_not: dict[int, Counter[str | None]] = {}
    for record, measured in zip(every, kind.trials(every, {}), strict=True):
        point = at[record.plan.hash].point
        of_crew.setdefault(_crew(point), []).append(record)
        if id(record) not in newest:
            continue
        if not measured.values:
            why_not.setdefault(point.index, Counter())[measured.left_out] += 1
            continue
        if point.index not in by_point:
            crews.setdefault(_crew(point), []).append(point.index)
        by_point.setdefault(point.index, []).append((record, measured))
    costs_s = {
        crew: (
            _setup_s(of_crew[crew]),
            sum(_trial_s([record for record, _ in by_point[index]]) for index in indices),
        )
        for crew, indices in crews.items()
    }
    each: list[QuantityAdvice] = []
    left_out: list[tuple[str, str]] = []
    trials_left_out: list[tuple[str, str]] = []
    for point in guests_plan.points:
        own = [measured for _, measured in by_point.get(point.index, ())]
        out = ", ".join(f"{many} {code}" for code, many in why_not.get(point.index, {}).items())
        if not own:
            left_out.append((point.words(), f"no trial enters a mean{f': {out}' if out else ''}"))
        elif out:
            trials_left_out.append((own[0].words, out))
        for quantity in dict.fromkeys(name for measured in own for name in measured.values):
            try:
                each.append(_build_quantity_advice(plan, own, quantity, costs_s[_crew(point)], accuracy_ratio, claims))
            except MeasurementError as exc:
                also = f"; left out: {out}" if out else ""
                left_out.append((f"{own[0].words}: {quantity.name}", f"{exc}{also}"))
    if not each:
        why = "; ".join(dict.fromkeys(why for _, why in left_out)) if every else "no trial of it is stored here"
        if left_out and all(why.partition(";")[0] in NOT_ITS_OWN.values() for _, why in left_out):
            raise MeasurementError(f"plan {plan.name} cannot be dimensioned: {why}")
        within = f"with repetitions: {MINIMUM_REPETITIONS} to know what varies within"
        first = f"first measure it with set_ups: {MINIMUM_SET_UPS} ({within}), {APART}"
        raise MeasurementError(f"plan {plan.name} cannot be dimensioned yet ({why}): {first}")
    set_ups = max(advice.as_advised.set_ups for advice in each)
    repetitions = max(advice.as_advised.repetitions for advice in each)
    return GuestsAdvice(
        accuracy_ratio=accuracy_ratio,
        claims=claims,
        each=tuple(each),
        left_out=tuple(left_out),
        trials_left_out=tuple(trials_left_out),
        set_ups=set_ups,
        repetitions=repetitions,
        total_s=set_ups * sum(setup_s + repetitions * trial_s for setup_s, trial_s in costs_s.values()),
        without_time=tuple(point.words() for point in guests_plan.points if point.index not in by_point),
    )


def _crew(point: Any) -> Hashable:
    """Return a key of the guests in which a point is measured. Points of boot trials share their guests with no
    other.
    """
    return (point.platform, point.index) if point.crew is None else (point.platform, point.crew)


def _build_quantity_advice(
    plan: Plan,
    own: Sequence[MeasuredTrial],
    quantity: Quantity,
    costs_s: tuple[float, float],
    accuracy_ratio: float,
    claims: int,
) -> QuantityAdvice:
    guests_plan = plan.guests
    assert guests_plan is not None
    by_set_up: dict[Hashable, list[float]] = {}
    if len({measured.from_memory for measured in own if quantity in measured.values}) > 1:
        raise MeasurementError(NOT_ITS_OWN[BOTH])
    for measured in own:
        known = measured.values.get(quantity, MeasuredValue(None))
        if known.bound != "exact":
            raise MeasurementError(NOT_ITS_OWN.get(known.bound, known.bound))
        if known.value is not None:
            by_set_up.setdefault(measured.set_up, []).append(known.value)
    if len(by_set_up) < MINIMUM_SET_UPS:
        raise MeasurementError(f"advice needs {MINIMUM_SET_UPS} set-ups, there are {len(by_set_up)}")
    if min(min(values) for values in by_set_up.values()) <= 0:
        raise MeasurementError("deviations are relative, and a value is zero or less")
    spread = _spread(by_set_up)
    means = [mean_of([math.log(value) for value in values]) for values in by_set_up.values()]
    sd_ratio = deviation(means) or 0.0
    setup_s, trial_s = costs_s
    if not trial_s:
        raise MeasurementError("its records do not say that a trial took any time")

    if spread is None:  # more than the planned repetitions do not make it larger
        repetitions = guests_plan.repetitions
        upper = planned = upper_variance(sd_ratio**2, len(means))
        set_ups = fewest_set_ups(upper, accuracy_ratio)
    else:
        advised = advise(spread, setup_s, trial_s, accuracy_ratio)
        repetitions, set_ups, upper = advised.repetitions, advised.set_ups, advised.variance_upper
        planned = upper_variance_of_mean(spread, guests_plan.repetitions)
    return QuantityAdvice(
        platform=str(own[0].factors["platform"]),
        point=own[0].words,
        quantity=quantity.name,
        set_ups=len(by_set_up),
        repetitions=len(by_set_up) / math.fsum(1 / len(values) for values in by_set_up.values()),
        sd_ratio=sd_ratio,
        spread=spread,
        setup_s=setup_s,
        trial_s=trial_s,
        as_advised=dimension(upper, set_ups, repetitions, setup_s, trial_s, claims),
        as_planned=dimension(planned, guests_plan.set_ups, guests_plan.repetitions, setup_s, trial_s, claims),
        to_show=tuple((change, set_ups_to_show(change, upper)) for change in CHANGES_RATIO) if upper else (),
    )


def _spread(by_set_up: Mapping[Hashable, Sequence[float]]) -> Components | None:
    """Return the components over the set-ups with two trials or more, if there are at least three of these."""
    several = {set_up: values for set_up, values in by_set_up.items() if len(values) >= MINIMUM_REPETITIONS}
    return components(several) if len(several) >= MINIMUM_SET_UPS else None


def _setup_s(records: Iterable[Any]) -> float:
    """Return the mean time from the beginning of a set-up to its first trial. Boot trials include it in their own
    time.
    """
    took: dict[str, float] = {}
    for record in records:
        if record.set_up is not None:
            until_s = seconds_between(record.set_up.started_at, record.started_at)
            took[record.set_up.id] = min(until_s, took.get(record.set_up.id, until_s))
    return fmean(took.values()) if took else 0.0


def _trial_s(records: Sequence[Any]) -> float:
    """Return the mean time from the beginning of a trial to the end of the pause after it."""
    return fmean(
        seconds_between(record.started_at, record.finished_at)
        + ((record.in_force.settle_s or 0.0) if record.in_force is not None else 0.0)
        for record in records
    )
