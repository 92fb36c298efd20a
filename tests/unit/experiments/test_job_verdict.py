"""The verdict on a trial of a job: each doubt provoked by what makes it, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from labconsole.experiments.job.record import CopyRecord
from labconsole.experiments.job.verdict import clock_notes, derive_reasons, judge
from labconsole.model.record.kind import EmptyJobs, ProgramRecord, TimekeeperRecord
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.observations import TrialObservations
from labconsole.verdict.reasons import interrupted_note, program_reasons
from support.fake_session import make_inventory
from support.job_records import job_data, job_record

RECORD = job_record(job_data())
EMPTY = EmptyJobs(each_s=(0.004, 0.006), mean_s=0.005, sd_s=0.0014)
assert RECORD.timekeeper is not None
TIMEKEEPER: TimekeeperRecord = RECORD.timekeeper


def codes(
    *copies: CopyRecord,
    timekeeper: dict[str, Any] | None = None,
    skew_s: float | None = None,
    swapped: int | None = 0,
    problems: tuple[str, ...] = (),
    empty: EmptyJobs | None = EMPTY,
    seen: TrialObservations | None = None,
) -> tuple[str, list[str]]:
    verdict = judge(
        seen or TrialObservations(run_id="r", started_at="2026-11-23T09:09:05.000Z"),
        copies or RECORD.copies,
        empty=empty,
        timekeeper=TIMEKEEPER.model_copy(update=timekeeper or {}),
        start_skew_s=skew_s,
        swapped_pages=swapped,
        guest_problems=problems,
        limits=Tolerances(),
        inventory=make_inventory(),
    )
    return verdict.status, [each.code for each in verdict.reasons]


def copy(**changes: Any) -> CopyRecord:
    return RECORD.copies[0].model_copy(update=changes)


def test_a_trial_as_it_should_be_is_valid():
    assert codes() == ("valid", [])


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        (copy(exit_status=1), "job_failed"),
        (copy(exit_status=127), "job_failed"),
        (copy(exit_status=None), "guests_missing"),
        (copy(ping_status=1), "mark_lost"),
        (copy(ping_status=127, start_request_ns=None, start_reply_ns=None), "mark_lost"),
        (copy(start_reply_ns=None), "mark_lost"),
        (copy(start_request_ns=None), "mark_lost"),
        (copy(end_request_ns=None, exit_status=None), "mark_lost"),
        (copy(outside_s=-0.5, seconds=None), "mark_forged"),
    ],
)
def test_what_is_wrong_with_a_copy_voids_the_trial(seen: CopyRecord, code: str):
    assert codes(seen, RECORD.copies[1]) == ("invalid", [code])


def test_the_reason_of_a_job_that_does_not_exist_says_so():
    verdict = judge(
        TrialObservations(run_id="r", started_at="2026-11-23T09:09:05.000Z"),
        [copy(exit_status=127)],
        empty=EMPTY,
        timekeeper=None,
        start_skew_s=None,
        swapped_pages=0,
        guest_problems=(),
        limits=Tolerances(),
        inventory=make_inventory(),
    )
    assert "its program does not exist there" in verdict.reasons[0].detail


@pytest.mark.parametrize("said", ["sh: iperf: not found", "sh: 1: iperf: not found", "sh: fio: command not found | 5"])
def test_so_does_that_of_one_whose_program_stands_before_a_pipe(said: str):
    """Whose status is that of the pipe's end."""
    verdict = judge(
        TrialObservations(run_id="r", started_at="2026-11-23T09:09:05.000Z"),
        [copy(exit_status=1, output=said)],
        empty=EMPTY,
        timekeeper=None,
        start_skew_s=None,
        swapped_pages=0,
        guest_problems=(),
        limits=Tolerances(),
        inventory=make_inventory(),
    )
    told = f"g1: the job ended with status 1, its program does not exist there: {said}"
    assert verdict.reasons[0].detail == told


def test_what_was_not_found_by_a_program_is_not_said_of_the_program():
    seen = copy(exit_status=1, output="wget: server returned error: HTTP/1.1 404 Not Found")
    (why,) = derive_reasons(
        [seen],
        empty=EMPTY,
        timekeeper=None,
        start_skew_s=None,
        swapped_pages=0,
        disk=None,
        program=None,
        limits=Tolerances(),
    )
    assert "exist" not in why.detail


@pytest.mark.parametrize(
    ("seen", "status", "code"),
    [
        ({"timekeeper": {"doubled": ("g1/1",)}}, "invalid", "mark_forged"),
        ({"timekeeper": {"strange_packets": 1}}, "invalid", "mark_forged"),
        ({"timekeeper": {"dropped_packets": 1}}, "suspect", "not_observed"),
        ({"timekeeper": {"wall_moved_ns": 4_000_000}}, "suspect", "clock_stepped"),
        ({"timekeeper": {"wall_moved_ns": -4_000_000}}, "suspect", "clock_stepped"),
        ({"swapped": 1}, "invalid", "swapped"),
        ({"problems": ("g2 ended",)}, "invalid", "guests_missing"),
        ({"skew_s": 0.031}, "suspect", "start_skew"),
        ({"empty": EMPTY.model_copy(update={"sd_s": 0.031})}, "suspect", "job_short"),
    ],
    ids=str,
)
def test_what_is_wrong_around_the_copies_is_told(seen: dict[str, Any], status: str, code: str):
    assert codes(**seen) == (status, [code])


@pytest.mark.parametrize(
    "seen",
    [
        {"timekeeper": {"wall_moved_ns": 900_000}},
        {"skew_s": 0.029},
        {"swapped": None},
        {"empty": EMPTY.model_copy(update={"sd_s": 0.029})},
    ],
    ids=str,
)
def test_what_is_within_bounds_is_no_doubt(seen: dict[str, Any]):
    assert codes(**seen) == ("valid", [])


def test_the_worst_clock_of_a_guest_is_told_whichever_copy_it_is_of():
    copies = [copy(clock_ratio=ratio, copy_number=number) for number, ratio in enumerate((0.5, 0.9), 1)]
    for order in (copies, copies[::-1]):
        (note,) = clock_notes(order)
        assert note["clock_ratios"] == {"g1": 0.5}
        assert "g1's 0.500 times as long (one that waits for a processor" in note["detail"]
    assert list(clock_notes([copy(clock_ratio=1.012)])) == []


def test_a_copy_that_is_short_beside_what_a_job_that_does_nothing_takes_is_doubted():
    """Of four copies on a processor each waits three times as long for its pings as one alone, which nobody took off."""
    slow = EmptyJobs(each_s=(0.29, 0.31), mean_s=0.3, sd_s=0.001)
    four = [copy(guest=f"g{number}") for number in range(1, 5)]
    assert codes(*four, empty=slow) == ("suspect", ["job_short"])
    assert codes(four[0], empty=slow) == ("valid", [])
    assert codes(*four) == ("valid", [])


def test_less_time_by_the_clock_around_than_by_the_one_outside_is_no_time():
    assert codes(copy(host_s=2.9)) == ("invalid", ["witnesses_disagree"])
    assert codes(copy(host_s=2.98)) == ("valid", [])
    assert codes(copy(host_s=None)) == ("valid", [])


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (ProgramRecord(name="pi", sha256=("a" * 64,)), []),
        (ProgramRecord(name="pi", sha256=("a" * 64, "b" * 64)), ["programs_differ"]),
        (ProgramRecord(name="pi", sha256=("a" * 64,), unknown=1), ["not_observed"]),
        (ProgramRecord(name="pi", sha256=(), unknown=2), ["not_observed"]),
    ],
)
def test_a_program_that_is_not_known_of_every_guest_is_doubted(program: ProgramRecord, expected: list[str]):
    assert [each.code for each in program_reasons(program)] == expected


def test_what_could_not_be_asked_of_a_node_is_doubted():
    """Whoever else used its processors is not known."""
    seen = TrialObservations(run_id="r", started_at="2026-11-23T09:09:05.000Z")
    seen.notes.append({"node": "uut", "kind": "not_observed", "detail": "surroundings: no such operation"})
    assert codes(seen=seen) == ("suspect", ["not_observed"])


def test_a_timekeeper_that_did_not_listen_all_the_time_is_doubted():
    seen = TrialObservations(run_id="r", started_at="2026-11-23T09:09:05.000Z")
    seen.notes.append(interrupted_note("snk1", "Network is down"))
    assert codes(seen=seen) == ("suspect", ["not_observed"])
