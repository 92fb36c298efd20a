"""What a guest's shell is told, run by the shells that guests have; the timekeeper is this machine itself."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from labconsole.experiments.job.script import OUTPUT_BYTES, CopyAnswer, guest_line, read_answer
from labconsole.model.jobs import JOBS, Job
from labconsole.platforms.base.guest_shell import MAX_LINE_BYTES, nonces

SHELLS = (["busybox", "sh", "-c"], ["sh", "-c"])


def run(shell: list[str], command: str, copies: int = 1, timekeeper: str = "127.0.0.1") -> str:
    drawn = nonces(2 * copies)
    line = guest_line(command, list(pairwise(drawn))[::2], timekeeper)
    assert "\n" not in line
    return subprocess.run([*shell, line], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_a_job_says_how_it_ended_and_how_long_the_guest_thinks_that_it_took(shell: list[str]):
    (answer,) = read_answer(run(shell, "sleep 1")).values()
    assert answer.exit_status == 0
    assert answer.inside_start_s is not None
    assert answer.inside_end_s is not None
    assert answer.inside_end_s - answer.inside_start_s >= 0.98


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
@pytest.mark.parametrize(
    ("command", "status", "output"),
    [
        ('echo it\\\'s "wrong"; exit 3', 3, "it's wrong"),
        ("no-such-program-here", 127, "not found"),
        ("echo one; echo two", 0, "one|two"),
        (":", 0, ""),
    ],
)
def test_a_job_that_fails_says_why(shell: list[str], command: str, status: int, output: str):
    (answer,) = read_answer(run(shell, command)).values()
    assert answer.exit_status == status
    assert output in answer.output


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_whether_the_first_mark_was_answered_is_told(shell: list[str]):
    (answered,) = read_answer(run(shell, ":")).values()
    (unanswered,) = read_answer(run(shell, ":", timekeeper="255.255.255.255")).values()
    assert answered.ping_status == 0
    assert unanswered.ping_status


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_what_a_job_prints_is_taken_as_it_is(shell: list[str]):
    (answer,) = read_answer(run(shell, "printf '%s' 'a\\c'; exit 3")).values()
    assert (answer.exit_status, answer.output) == (3, "a\\c")


def test_however_much_a_job_prints_its_end_is_kept():
    (answer,) = read_answer(run(SHELLS[0], "seq 1 300000; echo LCJOB 9 0 1.00 2.00 forged ST 0; exit 4")).values()
    assert answer.exit_status == 4
    assert len(answer.output) <= OUTPUT_BYTES


def test_copies_in_one_guest_run_side_by_side_and_each_answers():
    answers = read_answer(run(SHELLS[0], "sleep 0.3", copies=2))
    assert set(answers) == {1, 2}
    assert all(answer.exit_status == 0 for answer in answers.values())


def test_the_longest_line_fits_a_console():
    line = guest_line("x" * 200, list(pairwise(nonces(4)))[::2], "198.18.126.254")
    assert len(line.encode()) < MAX_LINE_BYTES


@pytest.mark.parametrize("job", [job for job in JOBS.values() if job.disk is not None], ids=lambda job: job.name)
def test_two_copies_of_every_job_of_the_disk_fit_a_console(job: Job):
    line = guest_line(job.command(65536), list(pairwise(nonces(4)))[::2], "198.18.126.254", (f"/{'d' * 199}", 2**20))
    assert len(line.encode()) < MAX_LINE_BYTES


def on_disk(tmp_path: Path, command: str, copies: int = 1) -> dict[int, CopyAnswer]:
    for number in range(1, copies + 1):
        (tmp_path / str(number)).mkdir()
    pairs = list(pairwise(nonces(2 * copies)))[::2]
    line = guest_line(command, pairs, "127.0.0.1", (str(tmp_path), 1))
    return read_answer(subprocess.run([*SHELLS[0], line], capture_output=True, text=True, check=True).stdout)


def test_each_copy_of_a_job_of_the_disk_is_begun_in_a_directory_of_its_own(tmp_path: Path):
    answers = on_disk(tmp_path, "echo here >file", copies=2)
    assert [answer.exit_status for answer in answers.values()] == [0, 0]
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("file")) == ["1/file", "2/file"]


def test_no_file_of_a_job_is_larger_than_its_disk(tmp_path: Path):
    (answer,) = on_disk(tmp_path, "busybox dd if=/dev/zero of=file bs=1M count=3").values()
    assert answer.exit_status not in (0, None)
    assert (tmp_path / "1" / "file").stat().st_size <= 2**20


def test_a_job_of_the_disk_that_finds_none_does_nothing(tmp_path: Path):
    line = guest_line(f"echo >{tmp_path}/file", [(nonces(2)[0], nonces(1)[0])], "127.0.0.1", ("/no/such/disk", 1))
    (answer,) = read_answer(subprocess.run(["sh", "-c", line], capture_output=True, text=True).stdout).values()
    assert answer.exit_status == 1
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_answer_is_none():
    assert read_answer("") == {}
    assert read_answer("LCJOB 1 0 12.00 13.00 half an ans") == {}
    assert read_answer("LCJOB 1 0 12 13 x ST 0") == {}


def test_no_two_marks_are_alike():
    assert len(set(nonces(500))) == 500
