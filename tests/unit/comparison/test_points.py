"""Points of runs and of other trials are one sort of point to everything that compares."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from labconsole.comparison.changes import Side, find_changes
from labconsole.comparison.loading import SideSelection, load_side, select_trials
from labconsole.comparison.outliers import find_scatter
from labconsole.comparison.points import RUN, ComparedPoint, RunPoint, TrialPoint, build_points
from labconsole.contracts.measured import HELD, MeasuredTrial, MeasuredValue, Quantity
from labconsole.experiments.kinds import load_measured_kinds
from labconsole.measure.statistics.effects import holm
from labconsole.model.query import parse_query
from labconsole.model.record.summary import RunFilter
from labconsole.report.planned_trials import TRIAL_FIELDS, select_records
from labconsole.store.importing import import_records
from labconsole.store.open import open_store
from support.measured_sides import around, jobs, keep
from support.report_runs import set_ups_of

OF_ONE_SORT = {"summary", "begun", "orders", "plan_names", "trials", "values", "turns"}
"""What the points are made of."""

TIME = Quantity(name="time", unit="s", better="lower", shown_unit="s")


def trial(value: MeasuredValue, number: int = 1, **changes: Any) -> MeasuredTrial:
    fields: dict[str, Any] = {
        "kind": "job",
        "id": f"job-{number}",
        "hash": f"hash-{number}",
        "plan_name": "nightly@today",
        "status": "done",
        "started_at": f"2026-01-01T00:00:{number:02}Z",
        "testbed": "bench",
        "testbed_fingerprint": "f" * 16,
        "emulated": False,
        "factors": {"platform": "lxc"},
        "words": "lxc, wait",
        "values": {TIME: value},
        "left_out": None,
        "set_up": f"set-up {number}",
        "boot_id": "boot",
        "conditions": {"kernel": "6.1", "hypervisor": None},
        "nodes": {},
    }
    return MeasuredTrial(**{**fields, **changes})


def side_of(place: Path, word: str) -> Side:
    with open_store(str(place), write=False) as store:
        where = RunFilter(plan_name=word)
        selection = SideSelection(word, store.name, store, where, parse_query(""))
        return load_side(selection, load_measured_kinds(), lambda exc: pytest.fail(str(exc)))


def keep_runs(place: Path, name: str, values: list[float], first: int, *, offered_mbps: float = 100.0) -> None:
    records = set_ups_of(values, first, plan_hash=name * 16, offered_mbps=offered_mbps, boot=f"boot-of-{name}")
    for record in records:
        record["plan"]["name"] = name
        record["set_up"]["id"] += name
    with open_store(str(place)) as store:
        import_records(store, records)


def test_both_sorts_have_the_same_members() -> None:
    members = [{name for name in dir(sort) if not name.startswith("_")} for sort in get_args(ComparedPoint)]
    assert members[0] - OF_ONE_SORT == members[1] - OF_ONE_SORT
    assert all(len(each & OF_ONE_SORT) > 2 for each in members)


def test_runs_and_other_trials_of_two_sides_are_one_family(tmp_path: Path) -> None:
    place = tmp_path / "s.sqlite"
    keep_runs(place, "a", around(60.0, 1), 0)
    keep_runs(place, "b", around(58.8, 2), 100)
    keep(place, [*jobs("a", around(4.0, 3)), *jobs("b", around(4.06, 4))])
    changes = find_changes(side_of(place, "a"), side_of(place, "b"), 0.02, load_measured_kinds())
    (of_runs,), (of_jobs,) = changes.changes, changes.quantities.changes
    assert changes.matched.changes == (of_runs, of_jobs)
    assert (of_runs.key.kind, of_jobs.key.kind) == (RUN, "job")
    assert changes.size == 2
    own = [each.effect.p for each in changes.matched.changes if each.effect is not None and each.effect.p is not None]
    assert [each.adjusted_p for each in changes.matched.changes] == holm(own)
    assert of_runs.better is False and of_jobs.better is False


def test_a_baseline_scatters_over_the_points_of_both_sorts(tmp_path: Path) -> None:
    place = tmp_path / "s.sqlite"
    keep_runs(place, "a", around(60.0, 1), 0)
    keep(place, jobs("a", around(4.0, 3)))
    names = [each.point for each in find_scatter(side_of(place, "a"))]
    assert len(names) == 2
    assert [name.endswith(": time") for name in names] == [False, True]


@pytest.mark.parametrize(
    ("offered_mbps", "values", "bounds"),
    [
        (100.0, [60.0, 60.1, 59.9], {"exact"}),
        (50.0, [50.0, 50.0, 50.0], {"at least"}),
        (50.0, [50.0, 45.0, 50.0], {"at least", "exact"}),
    ],
)
def test_what_a_run_lost_says_what_its_rate_is(
    tmp_path: Path, offered_mbps: float, values: list[float], bounds: set[str]
) -> None:
    place = tmp_path / "s.sqlite"
    keep_runs(place, "a", values, 0, offered_mbps=offered_mbps)
    (point,) = side_of(place, "a").points
    assert isinstance(point, RunPoint)
    assert point.bounds == bounds
    assert (point.full_mean is None) is (bounds == {"exact"})
    assert point.limited_ratio == pytest.approx(sum(value == offered_mbps for value in values) / len(values))


def test_a_point_of_trials_knows_the_share_that_a_limit_held() -> None:
    values = [MeasuredValue(4.0), MeasuredValue(5.0, HELD), MeasuredValue(6.0, "at least"), MeasuredValue(None, "none")]
    (point,) = build_points([trial(value, number) for number, value in enumerate(values, 1)])
    assert isinstance(point, TrialPoint)
    assert (point.limited_ratio, point.full_mean) == (0.5, 6.0)
    assert point.describe_failure(build_points([trial(MeasuredValue(4.0))])[0]) == (
        "the goal was not met even at the lowest load in 1 of 4 searches"
    )
    assert point.describe_failure(point) is None


@pytest.mark.parametrize(
    ("words", "selected"),
    [
        ("platform=lxc", True),
        ("platform=uml", False),
        ("testbed=bench", True),
        ("fingerprint=ffff", False),
        ("emulated=no", True),
        ("plan~today", True),
        ("kernel=6.1", True),
        ("kernel=6.6", False),
        ("hypervisor=", True),
        ("size=64", False),
    ],
)
def test_a_filter_reads_a_measured_trial_as_it_reads_a_run(words: str, selected: bool) -> None:
    found = select_trials([trial(MeasuredValue(4.0))], parse_query(words), set())
    assert bool(found) is selected


@pytest.mark.parametrize("field", TRIAL_FIELDS)
def test_a_filter_reads_a_record_of_guests_as_it_reads_its_measured_trial(field: str) -> None:
    records = jobs("nightly", [4.0, 4.1])
    (kind,) = [each for each in load_measured_kinds() if each.kind.name == "job"]
    trials = kind.trials(records, {})
    for words in (f"{field}=", f"{field}!=", f"{field}~6.1" if field != "emulated" else "emulated=no"):
        query = parse_query(words)
        by_record = {record.plan.hash for record in select_records(records, query)}  # type: ignore[attr-defined]
        assert by_record == {each.hash for each in select_trials(trials, query, set())}
