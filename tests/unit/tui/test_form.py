"""The set-up panel's reading of its fields, and the console's state from events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labconsole.engine.live.events import NodeChanged, NodeState, Phase, PhaseChanged, TrialFinished, TrialStarted
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.tui.console import form
from labconsole.tui.console.state import ConsoleState
from support.fake_session import INVENTORY, make_inventory, make_record

REQUEST = DesignPoint(platform="raw", frame=FrameSize(64), sources=3, target=10**8, duration_s=5)


def test_the_first_form_can_be_run_on_any_testbed() -> None:
    for speed in ("10Mbit", "1Gbit", "100Gbit"):
        inventory = make_inventory(streams=[{**stream, "link_speed": speed} for stream in INVENTORY["streams"]])
        assert form.read_form(form.initial_values(inventory), inventory).request is not None


def test_hints_say_rate_delay_and_share_of_the_line() -> None:
    inventory = make_inventory()
    values = replace(form.initial_values(inventory), target="100Mbit", frame_size="64")
    hint = form.read_form(values, inventory).hints["target"][0]
    assert "142\u2009045 packets/s" in hint
    assert "delay 7\u2009040 ns" in hint
    assert "10 % of 1 Gbit/s" in hint


def test_the_convention_of_the_frame_size_is_named() -> None:
    paper = make_inventory()
    rfc = make_inventory(defaults={"frame_size_includes_fcs": True})
    assert "without FCS" in form.read_form(form.initial_values(paper), paper).hints["frame_size"][0]
    assert "with FCS (RFC 2544)" in form.read_form(form.initial_values(rfc), rfc).hints["frame_size"][0]


@pytest.mark.parametrize(
    ("change", "field", "allowed"),
    [
        ({"target": "2Gbit"}, "target", "at most 1 Gbit/s"),
        ({"frame_size": "40"}, "frame_size", "60 or more"),
        ({"sources": "4"}, "sources", "1 to 3"),
        ({"duration": "0"}, "duration", "more than 0"),
        ({"duration": ""}, "duration", "seconds"),
        ({"target": "fast"}, "target", "max"),
        ({"repetitions": "0"}, "repetitions", "1 to 1000"),
        ({"frame_size": "٣"}, "frame_size", "bytes"),
    ],
)
def test_what_cannot_be_asked_is_refused_beside_its_field_with_what_is_allowed(
    change: dict[str, str], field: str, allowed: str
) -> None:
    inventory = make_inventory()
    reading = form.read_form(replace(form.initial_values(inventory), **change), inventory)
    assert reading.request is None
    assert allowed in reading.problems[field].allowed
    assert reading.problems[field].short


def test_everything_that_is_wrong_is_said_at_once() -> None:
    inventory = make_inventory()
    wrong = replace(form.initial_values(inventory), sources="4", duration="0", target="5Gbit")
    assert set(form.read_form(wrong, inventory).problems) == {"sources", "duration", "target"}


@pytest.mark.parametrize("text", ["100M", "100Mb", "100Mbi", "100Mbit"])
def test_an_unfinished_unit_is_understood(text: str) -> None:
    inventory = make_inventory()
    request = form.read_form(replace(form.initial_values(inventory), target=text), inventory).request
    assert request is not None
    assert request.target == 10**8


def started(state: ConsoleState, now_s: float, repetition: int = 1) -> None:
    state.apply(
        TrialStarted(run_id=f"r{repetition}", request=REQUEST, repetition=repetition, repetitions=3),
        now_s=now_s,
        wall_s=0,
    )


def test_the_phase_is_told_in_words_with_the_time_left() -> None:
    state = ConsoleState(wait_per_trial_s=7)
    assert state.step_wordings(0)[0] == "ready"
    started(state, 10)
    state.apply(PhaseChanged(run_id="r1", phase=Phase.SENDING, expected_s=5), now_s=12, wall_s=0)
    assert state.step_wordings(14)[0] == "sending, 3 s left"
    assert state.step_wordings(18)[0] == "sending"
    assert state.step_wordings(21)[0] == "sending, 4 s longer than expected"
    assert state.all_left_s(14) == 12 * 2 + 10, "what was spent on setting up is no part of these 12 s"


def test_settling_between_trials_is_shown_although_it_belongs_to_no_run() -> None:
    state = ConsoleState()
    started(state, 0)
    state.apply(PhaseChanged(run_id="", phase=Phase.SETTLING, expected_s=5), now_s=1, wall_s=0)
    assert state.step_wordings(2)[0] == "settling, 4 s left"


def test_the_time_left_in_all_follows_how_long_the_last_trial_took() -> None:
    state = ConsoleState(wait_per_trial_s=7)
    started(state, 0)
    started(state, 20, repetition=2)
    assert state.all_left_s(20) == 40


def test_saved_runs_and_runs_the_store_refused_are_told_apart() -> None:
    state = ConsoleState()
    state.apply(TrialFinished(record=make_record(REQUEST, "a"), saved=True), now_s=0, wall_s=0)
    state.apply(TrialFinished(record=make_record(REQUEST, "b"), saved=False), now_s=0, wall_s=0)
    assert [run_id for run_id, _ in state.saved_runs] == ["a"]
    assert [n.severity for n in state.notes] == ["information", "error"]


def test_a_lost_node_is_an_error_in_the_event_line() -> None:
    state = ConsoleState()
    state.apply(NodeChanged(node="snk1", state=NodeState.LOST, message="the link went away"), now_s=0, wall_s=0)
    assert state.notes[-1].severity == "error"
    assert state.notes[-1].text == "snk1 lost: the link went away"


def test_notes_are_bounded() -> None:
    state = ConsoleState()
    for i in range(1000):
        state.note(0, str(i))
    assert len(state.notes) <= 200
