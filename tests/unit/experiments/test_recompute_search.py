"""A stored search computed again: nothing differs, and whatever is changed in it is found."""

from __future__ import annotations

from typing import Any

import pytest

from labconsole.experiments.search.verify import Counts, counts_of, recompute_search
from labconsole.model.record.search import SearchRecord
from support.search_script import EVERYTHING, Script, make, searching


@pytest.fixture(scope="module")
def session() -> Script:
    script = Script()
    make(script, searching(EVERYTHING))
    return script


@pytest.fixture
def counted(session: Script) -> dict[str, Counts]:
    return {run.run_id: counts_of(run) for run in session.store.runs}


def test_nothing_differs_in_a_search_as_it_was_stored(session: Script, counted: dict[str, Counts]) -> None:
    (record,) = session.store.searches
    assert recompute_search(SearchRecord.model_validate_json(record.model_dump_json()), counted) == []


def changed(record: SearchRecord, what: str) -> SearchRecord:
    data: dict[str, Any] = record.to_json()
    goal, trial = data["goals"][0], data["trials"][0]
    if what == "lower_bound":
        goal["lower_bound_pps"] = goal["upper_bound_pps"]
    elif what == "limited_by":
        goal["limited_by"] = "generator"
    elif what == "measured_packets":
        trial["measured_packets"] = trial["offered_packets"]
    elif what == "queued_packets":
        trial["queued_packets"] = 1
    elif what == "frame_loss":
        data["frame_loss"][0]["loss_ratio"] = 0.0
    elif what == "packets":
        data["back_to_back"]["bursts"][0]["packets"] += 1
    else:
        data["back_to_back"]["mean_packets"] += 1
    return SearchRecord.model_validate(data)


@pytest.mark.parametrize(
    ("what", "where"),
    [
        ("lower_bound", "goals[0].lower_bound_pps"),
        ("limited_by", "goals[0].limited_by"),
        ("measured_packets", "trials[0].measured_packets"),
        ("queued_packets", "trials[0].queued_packets"),
        ("frame_loss", "frame_loss[0].loss_ratio"),
        ("packets", "back_to_back.bursts[0]"),
        ("mean", "back_to_back.mean_packets"),
    ],
)
def test_what_was_changed_is_named(session: Script, counted: dict[str, Counts], what: str, where: str) -> None:
    (record,) = session.store.searches
    assert where in [found.where for found in recompute_search(changed(record, what), counted)]


def test_a_trial_whose_run_is_not_there_is_named(session: Script, counted: dict[str, Counts]) -> None:
    (record,) = session.store.searches
    del counted[record.trials[3].run_id]
    (found,) = recompute_search(record, counted)
    assert (found.where, found.stored, found.recomputed) == ("trials[3].run_id", record.trials[3].run_id, None)
