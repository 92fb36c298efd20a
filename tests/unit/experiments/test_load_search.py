"""Load searches on a testbed that is a script: their trials, what a broken one leaves behind, where one goes on."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.engine.execution.progress import estimate_steps
from labconsole.errors import ConfigError, NodeLost
from labconsole.experiments.search.goals import LoadTrial, build_goals, relevant_bounds
from labconsole.experiments.search.procedure import check_search, counted, set_load
from labconsole.experiments.search.steps import LoadSearches
from labconsole.model.plan.search import Search
from labconsole.model.record.run import LedgerHop, Reason, RunRecord, StreamRecord
from labconsole.model.record.search import SearchRecord
from support.fake_session import make_inventory, make_record
from support.search_script import CAPACITY_PPS, QUICK, REQUEST, Script, Store, carry_out, made, make, searching


def loads(record: SearchRecord) -> list[tuple[str, float, float]]:
    return [(trial.for_test, trial.load_pps, trial.duration_s) for trial in record.trials]


def test_a_search_ends_with_bounds_and_gives_the_testbed_back_after_its_last_trial() -> None:
    session = Script()
    (record,) = made(session)
    (found,) = record.goals
    assert found.lower_bound_pps is not None
    assert found.upper_bound_pps is not None
    assert found.lower_bound_pps <= CAPACITY_PPS <= found.upper_bound_pps
    assert (record.status, found.limited_by, found.complete) == ("done", "uut", True)
    assert session.told[-1] == "given back"
    assert session.told.count("given back") == 1
    assert session.store.searches == [record]


def test_every_trial_is_a_run_in_the_store_with_its_place_and_the_bounds_follow_from_them_alone() -> None:
    session = Script()
    (record,) = made(session)
    assert [run.run_id for run in session.store.runs] == [trial.run_id for trial in record.trials]
    places = [run.plan for run in session.store.runs if run.plan is not None]
    assert [place.repetition for place in places] == list(range(1, len(record.trials) + 1))
    assert {place.hash for place in places} == {record.plan.hash}
    (goal,) = build_goals(QUICK)
    taken = [LoadTrial(**{k: v for k, v in trial.model_dump().items() if k != "for_test"}) for trial in record.trials]
    assert relevant_bounds(goal, taken) == (record.goals[0].lower_bound_pps, record.goals[0].upper_bound_pps)


def test_rfc_2544_in_one_search() -> None:
    everything = Search.model_validate(
        {
            "goals": ("ndr", "frame-loss", "back-to-back", "latency"),
            "trial_s": 10.0,
            "duration_sum_s": 10.0,
            "width_ratio": 0.05,
            "frame_loss": {"trial_s": 0.5},
            "back_to_back": {"trial_s": 1.0, "repetitions": 3},
            "latency": {"trial_s": 0.5, "repetitions": 2},
        }
    )
    (record,) = made(Script(), searching(everything))
    assert record.status == "done"
    assert record.frame_loss is not None
    assert [point.loss_ratio for point in record.frame_loss][-2:] == [0.0, 0.0]
    assert record.back_to_back is not None
    assert len(record.back_to_back.bursts) == 3
    assert {trial.for_test for trial in record.trials} == {"load", "frame-loss", "back-to-back", "latency"}
    assert record.latency is not None
    assert record.latency.load_pps == record.goals[0].lower_bound_pps
    assert SearchRecord.model_validate_json(record.model_dump_json()) == record


@pytest.mark.parametrize("stops", [1, 2, 4])
def test_an_interrupted_search_goes_on_from_its_trials_and_ends_as_an_unbroken_one(stops: int) -> None:
    (unbroken,) = made(Script())
    store = Store()
    first = Script(store)
    first.before = lambda number: "stop" if number == stops else None
    outcome = make(first)
    assert outcome.stopped
    assert not outcome.steps.made
    assert not store.searches
    second = Script(store)
    (record,) = made(second)
    assert second.taken == len(unbroken.trials) - stops
    assert loads(record) == loads(unbroken)
    assert record.goals[0].lower_bound_pps == unbroken.goals[0].lower_bound_pps


def test_stored_trials_that_answer_another_question_are_not_believed() -> None:
    store = Store()
    make(Script(store))
    store.searches.clear()
    store.runs = [
        run.model_copy(update={"requested": run.requested.model_copy(update={"duration_s": 9.0})}) for run in store.runs
    ]
    session = Script(store)
    (record,) = made(session)
    assert session.taken == len(record.trials)


def test_an_invalid_trial_is_taken_again_and_enters_nothing() -> None:
    session = Script()
    session.before = lambda number: "invalid" if number in (1, 2) else None
    (record,) = made(session)
    assert record.status == "done"
    assert len(session.store.runs) == len(record.trials) + 2


def test_a_trial_that_stays_invalid_fails_its_search_and_the_next_one_begins() -> None:
    session = Script()
    session.before = lambda number: "invalid" if 3 <= number <= 5 else None
    failed, done = made(session, searching(searches=2))
    assert (failed.status, done.status) == ("failed", "done")
    assert failed.failure is not None
    assert "3 trials in a row are invalid" in failed.failure
    assert len(failed.trials) == 2
    assert not failed.goals[0].complete


def test_as_many_trials_as_a_search_may_take_end_it_with_what_it_knows() -> None:
    (record,) = made(Script(), searching(QUICK.model_copy(update={"max_trials": 3})))
    assert (record.status, record.failure) == ("failed", "ended after 3 trials, the maximum number of trials")
    assert len(record.trials) == 3


def test_a_search_whose_time_is_over_takes_no_further_trial() -> None:
    (record,) = made(Script(), searching(QUICK.model_copy(update={"within_s": 1e-9})))
    assert record.failure is not None
    assert "the time limit" in record.failure
    assert record.goals[0].limited_by == "undecided"
    assert not record.trials


def test_the_time_limit_is_one_limit_however_often_a_lost_node_has_the_search_taken_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr("labconsole.engine.execution.stop_conditions.time", SimpleNamespace(monotonic=lambda: clock[0]))

    def ten_seconds_each(number: int) -> str | None:
        clock[0] += 10.0
        return "lost" if number % 2 == 0 else None

    session = Script()
    session.before = ten_seconds_each
    (record,) = made(session, searching(QUICK.model_copy(update={"within_s": 55.0})))
    assert record.failure == "ended after 55 s, the time limit"
    assert session.taken == 6
    assert len(record.trials) == 3


def test_a_lost_node_is_waited_for_and_no_trial_is_taken_twice() -> None:
    session = Script()
    session.before = lambda number: "lost" if number == 3 else None
    (record,) = made(session)
    assert record.status == "done"
    assert "connected again" in session.told
    assert len(session.store.runs) == len(record.trials)


def test_a_node_that_is_lost_again_and_again_ends_the_searches() -> None:
    session = Script()
    session.before = lambda number: "lost"
    with pytest.raises(NodeLost):
        make(session)


def behind_the_port(record: RunRecord, *, lost: int, foreign: int) -> tuple[StreamRecord, ...]:
    """The streams, the first with a wire from the UUT's port that loses so many and carries others' besides."""
    first, *others = record.streams
    arrived = first.measured_packets or 0
    hops = [
        LedgerHop(hop="uut_out", node="uut", interface="eth5", packets=arrived + lost + foreign, lost_packets=0),
        LedgerHop(hop="sink_nic", node="snk1", interface="eth1", packets=arrived + foreign, lost_packets=lost),
    ]
    update = {"ledger": (*first.ledger[:-2], *hops), "sink_lost_packets": lost + foreign}
    return (first.model_copy(update=update), *others)


def test_frames_that_the_unit_sends_of_its_own_accord_are_no_loss_behind_it() -> None:
    """Spanning tree and ARP count at the UUT's port and at the sink's alike: nobody lost them."""
    record = make_record(REQUEST, "20261121T000000Z-000001", loss=0.01)
    streams = behind_the_port(record, lost=0, foreign=5)
    total = record.total.model_copy(update={"sink_lost_packets": 5})
    trial = counted(record.model_copy(update={"streams": streams, "total": total}), set_load(REQUEST, 1000.0, 1.0), 1e3)
    assert trial.lost_outside_packets == 0
    assert not trial.instrument_lost


def test_what_was_lost_by_the_source_and_the_sink_and_what_was_queued_goes_with_the_trial() -> None:
    record = make_record(REQUEST, "20261121T000000Z-000001", status="suspect")
    sides = {"source_lost_packets": 3, "uut_lost_packets": 0, "sink_lost_packets": 4, "queued_packets": 50}
    streams = behind_the_port(record, lost=4, foreign=0)
    record = record.model_copy(update={"total": record.total.model_copy(update=sides), "streams": streams})
    trial = counted(record, set_load(REQUEST, 1000.0, 1.0), 1000.0)
    assert (trial.source_lost_packets, trial.lost_outside_packets, trial.queued_packets) == (3, 4, 50)
    assert trial.forwarded_packets == trial.measured_packets - 50
    assert trial.instrument_lost


def test_sources_that_took_too_long_did_not_offer_the_load() -> None:
    record = make_record(REQUEST, "20261121T000000Z-000001", status="suspect")
    evidence = {"stream": "s1", "offered_duration_s": 1.25, "requested_s": 1.0}
    reasons = (Reason(code="duration_stretched", detail="", evidence=evidence),)
    record = record.model_copy(update={"verdict": record.verdict.model_copy(update={"reasons": reasons})})
    wanted_request = set_load(REQUEST, 1000.0, 1.0)
    asked = wanted_request.intended_packets
    assert asked is not None
    assert counted(record, wanted_request, 1000.0).intended_packets == round(asked * 1.25)
    assert counted(record, wanted_request, 1000.0, burst=True).intended_packets == asked


def test_a_cancelled_search_ends_its_trial_before_it_gives_the_testbed_back() -> None:
    async def work() -> list[str]:
        session: Any = Script(endless=True)
        search = asyncio.create_task(carry_out(session, searching()))
        await session.begun.wait()
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        told: list[str] = session.told
        return told

    assert asyncio.run(work()) == ["trial ended", "given back"]


def test_a_trial_too_short_for_one_packet_at_the_lowest_load_is_refused() -> None:
    short = Search(goals=("pdr-50%",), trial_s=0.02, lowest_ratio=1e-6)
    with pytest.raises(ConfigError, match="too low to send even one packet"):
        check_search(short, REQUEST, make_inventory())


@pytest.mark.parametrize(("goal", "least_s"), [("ndr", 10.0), ("pdr-0.01%", 10.0), ("pdr-0.5%", 2.0), ("pdr-5%", 0.2)])
def test_a_trial_in_which_the_queue_that_passes_would_hide_the_loss_is_refused(goal: str, least_s: float) -> None:
    check_search(Search(goals=(goal,), trial_s=least_s, duration_sum_s=least_s), REQUEST, make_inventory())
    short = Search(goals=("pdr-50%", goal), trial_s=0.99 * least_s, duration_sum_s=least_s)
    with pytest.raises(ConfigError, match=f"is too short for {goal}") as refused:
        check_search(short, REQUEST, make_inventory())
    assert refused.value.allowed == f"{least_s:g} or more, or a goal that allows more loss"
    assert build_goals(Search(goals=(goal,)))[0].trial_duration_s == max(1.0, least_s)


def test_an_estimate_counts_the_trials_of_a_unit_that_behaves() -> None:
    plan = searching(searches=2)
    steps = LoadSearches(Store()).steps(plan)
    reckoned = estimate_steps(plan, steps, make_inventory(), {"raw": 0.0})
    assert len(reckoned.each_s) == 2
    assert reckoned.trials > 6
    assert reckoned.total_s > reckoned.trials
