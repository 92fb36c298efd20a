"""Means of trials of guests, over simulated plans whose blocks differ and whose repetitions hardly do: 95 % of the
intervals hold the truth, and sides that are alike are not called different.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from labconsole.comparison.changes import match_points
from labconsole.comparison.points import build_points
from labconsole.experiments.boot.measured import MEASURED as BOOTS
from labconsole.experiments.boot.summary import summarize_boots
from labconsole.experiments.flow.measured import MEASURED as FLOWS
from labconsole.experiments.flow.summary import summarize_flows
from labconsole.experiments.job.measured import MEASURED as JOBS
from labconsole.experiments.job.summary import summarize_jobs
from labconsole.experiments.route.measured import MEASURED as ROUTES
from labconsole.experiments.route.summary import summarize_routes
from labconsole.measure.statistics.set_ups import SetUpMean
from support.boot_records import started
from support.flow_records import flow_record
from support.job_records import taken
from support.route_records import route_record

SET_UPS, REPETITIONS, PLANS = 5, 4, 1500
BETWEEN_RATIO, WITHIN_RATIO = 0.01, 0.002
TRUTH = 1000.0


class Kind(NamedTuple):
    """``record``: one trial; ``update``: what makes its value another; ``mean``: of a point, as its report has it."""

    record: Callable[[int], Any]
    id_name: str
    update: Callable[[Any, float], dict[str, Any]]
    mean: Callable[[Sequence[Any]], SetUpMean | None]
    measured: Any
    plans: int = PLANS


def _seconds(record: Any, value: float) -> dict[str, Any]:
    return {"copies": tuple(each.model_copy(update={"seconds": value}) for each in record.copies)}


KINDS = {
    "boot": Kind(
        lambda block: started(1.0, 50.0, block=block),
        "boot_id",
        lambda _, value: {"startup_s": value},
        lambda records: summarize_boots(records).points[0].startup_s,
        BOOTS,
    ),
    "job": Kind(
        lambda block: taken([1.0], guests=1, block=block),
        "job_id",
        _seconds,
        lambda records: summarize_jobs(records).points[0].seconds,
        JOBS,
    ),
    "flow": Kind(
        lambda block: flow_record([[500] * 4, [500] * 4], block=block),
        "flow_id",
        lambda _, value: {"sum_bps": value},
        lambda records: summarize_flows(records).points[0].sum_bps,
        FLOWS,
        plans=600,
    ),
    "route": Kind(
        lambda block: route_record([200], lost_inside=[4000], block=block),
        "route_id",
        lambda _, value: {"sum_pps": value},
        lambda records: summarize_routes(records).points[0].sum_pps,
        ROUTES,
    ),
}


def trials(kind: Kind, set_ups: int = SET_UPS, name: str = "p") -> list[Any]:
    """Every trial of a plan of one point, without its value."""
    found = []
    for block in range(1, set_ups + 1):
        record = kind.record(block)
        for repetition in range(1, REPETITIONS + 1):
            ref = record.plan.model_copy(
                update={
                    "name": name,
                    "hash": f"{name}-{block}-{repetition}",
                    "repetition": repetition,
                    "set_ups": set_ups,
                    "repetitions": REPETITIONS,
                }
            )
            update = {"plan": ref, kind.id_name: f"20260101T00{block:02}{repetition:02}Z-{name}"}
            if record.set_up is not None:
                update["set_up"] = record.set_up.model_copy(update={"id": f"{name}-{block}"})
            found.append(record.model_copy(update=update))
    return found


def simulated(kind: Kind, records: Sequence[Any], rng: np.random.Generator) -> list[Any]:
    """The same trials with values about the truth, of which each set-up has a level of its own."""
    levels: dict[int, float] = {}
    found = []
    for record in records:
        level = levels.setdefault(record.plan.block, TRUTH * (1 + BETWEEN_RATIO * rng.standard_normal()))
        found.append(record.model_copy(update=kind.update(record, level * (1 + WITHIN_RATIO * rng.standard_normal()))))
    return found


@pytest.mark.parametrize("name", KINDS)
def test_intervals_hold_the_truth_as_often_as_they_say(name: str) -> None:
    kind, rng = KINDS[name], np.random.default_rng(14)
    records, held = trials(kind), 0
    for _ in range(kind.plans):
        found = kind.mean(simulated(kind, records, rng))
        assert found is not None
        assert found.ci_low is not None
        assert found.ci_high is not None
        assert (found.set_ups, found.trials, found.scope) == (SET_UPS, SET_UPS * REPETITIONS, "set-ups")
        held += found.ci_low <= TRUTH <= found.ci_high
    assert 0.925 <= held / kind.plans <= 0.975


@pytest.mark.parametrize("name", KINDS)
def test_an_interval_of_one_set_up_says_that_it_is(name: str) -> None:
    kind = KINDS[name]
    found = kind.mean(simulated(kind, trials(kind, set_ups=1), np.random.default_rng(1)))
    assert found is not None
    assert (found.set_ups, found.trials, found.scope) == (1, REPETITIONS, "this set-up only")


@pytest.mark.parametrize("name", KINDS)
def test_sides_that_are_alike_are_compared_over_set_ups(name: str) -> None:
    """Of 400 comparisons without a change 20 are called different; by single trials it would be 200."""
    kind, rng, plans, wrong = KINDS[name], np.random.default_rng(15), 400, 0
    sides = [trials(kind, name=each) for each in ("old", "new")]
    for _ in range(plans):
        before, after = (build_points(kind.measured.trials(simulated(kind, side, rng), {})) for side in sides)
        changes = match_points(before, after, {}, one_place=True).changes
        (change,) = (each for each in changes if each.key.quantity.name != "memory used")
        assert (change.scope, len(change.after.replicates.means)) == ("set-ups", SET_UPS)
        assert change.effect is not None
        assert change.effect.p is not None
        wrong += change.effect.p <= 0.05
    assert wrong <= 34  # three deviations above 20
