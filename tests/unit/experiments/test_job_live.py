"""How far copies of a job are, in words, by the marks that came so far."""

from __future__ import annotations

import pytest

from labconsole.experiments.job.kind import KIND as JOB_KIND
from labconsole.experiments.job.live_view import (
    MOST_NAMED,
    build_picture_guests,
    describe_progress,
    driving_note,
    format_times,
    guests_at_work,
)
from labconsole.experiments.job.procedure import describe_result
from labconsole.measure.external_timing import Marks
from labconsole.report.trial_text import trial_lines
from labconsole.wire.guests import AskedGuests
from support.job_records import job_data, job_record

WAITS = Marks()
WORKS = Marks(start_request_ns=1, start_reply_ns=2)
ENDED = Marks(start_request_ns=1, start_reply_ns=2, end_request_ns=1_500_000_002)


def test_each_of_a_few_copies_has_its_own_words():
    assert describe_progress({"g1/1": ENDED, "g2/1": WORKS, "g2/2": WAITS}) == [
        "g1: ended after 1.500 s",
        "g2: at work",
        "g2/2: waits",
    ]


def test_many_copies_are_counted():
    many = {f"g{number}/1": ENDED if number < 5 else WORKS if number < 9 else WAITS for number in range(MOST_NAMED + 8)}
    assert describe_progress(many) == ["9 of 20 have begun, 5 have ended, after 1.5 to 1.5 s"]
    assert describe_progress(dict.fromkeys(many, WAITS)) == ["0 of 20 have begun, 0 have ended"]


def test_what_driving_the_guests_cost_is_told_as_a_share_of_the_time_in_which_all_worked():
    told = driving_note("uut", AskedGuests(guests=[], waited_s=10.0, waited_cpu_s=0.05, cpu_s=0.08))
    assert (told["node"], told["kind"], told["cpu_ratio"]) == ("uut", "driving", 0.005)
    assert told["detail"] == "driving 0 guests took 0.50% of one of its processors while all worked, 0.080 s in all"


def test_without_a_time_in_which_all_worked_no_share_is_made_up():
    assert driving_note("uut", AskedGuests(guests=[], waited_s=0.0, waited_cpu_s=0.0, cpu_s=0.08))["cpu_ratio"] is None


def test_every_guest_has_a_row_with_its_marks_from_the_first_one_on():
    later = Marks(start_request_ns=5, start_reply_ns=500_000_002)
    rows = guests_at_work(["g1", "g2", "g3"], {"g1/1": ENDED, "g2/1": later, "g2/2": WAITS}, {"g2/1": 7.0})
    assert [(row.name, row.state.value, row.begun_s, row.ended_s, row.seconds, row.heard_s) for row in rows] == [
        ("g1", "done", 0.0, 1.5, 1.5, None),
        ("g2", "works", 0.5, None, None, 7.0),
        ("g2/2", "waits", None, None, None, None),
        ("g3", "stands", None, None, None, None),
    ]


def test_a_trial_that_is_over_has_rows_by_its_record():
    rows = build_picture_guests(job_record(job_data()).copies)
    assert [(row.name, row.state.value) for row in rows] == [("g1", "done"), ("g2", "done")]
    assert [row.seconds for row in rows] == pytest.approx([2.995, 2.9949995])
    assert rows[1].begun_s == pytest.approx(5e-7)


def test_a_job_that_failed_sooner_than_an_empty_one_ends_took_no_time():
    """The record keeps what was measured."""
    data = job_data()
    copies = [{**copy, "exit_status": 127, "outside_s": 0.004, "seconds": -0.001} for copy in data["copies"]]
    record = job_record({**data, "copies": tuple(copies)})
    assert record.copies[0].seconds == -0.001
    assert format_times(record) == "–, failed"
    assert describe_result(record) == ["g1: not known, clock ratio 1.003", "g2: not known, clock ratio 1.003"]
    assert [guest.seconds for guest in build_picture_guests(record.copies)] == [None, None]
    lines = trial_lines(JOB_KIND, record)
    assert lines[1] == "  time by the clock outside: –, failed"
    assert lines[2].split("; ")[0] == "  g1           –"
    copies[1]["seconds"] = 0.25
    assert format_times(job_record({**data, "copies": tuple(copies)})) == "failed after 0.250 s"
