"""Plans of jobs: their file, their points, their order, and what a trial is known by."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from labconsole.errors import ConfigError
from labconsole.experiments.job.plan import JobFactors, PlannedJobs, points
from labconsole.model.jobs import JOBS
from labconsole.model.plan.crews import CrewTrial, schedule
from labconsole.model.plan.loader import load_plan
from support.fake_session import make_inventory
from support.guest_plans import hash_of

PLAN = """\
plan: jobs
platforms: [raw]
set_ups: 2
repetitions: 3
job:
  jobs: [cpu-sqrt2, {job: wait, size: 2}]
  guests: [1, 2, 5]
  working: [one, all, one-two]
  cpu: [same]
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    return path


def test_a_plan_of_jobs_has_every_point_once_and_measures_no_grid(tmp_path: Path):
    plan = load_plan(written(tmp_path, PLAN), make_inventory())
    assert not plan.grid
    assert plan.guests is not None
    asked = {(point.job, point.size, point.guests, point.working) for point in plan.guests.points}
    # One guest works alone, whatever is asked for.
    assert asked == {
        (job, size, guests, working)
        for job, size in (("cpu-sqrt2", 2000), ("wait", 2))
        for guests, working in (
            (1, "one"),
            (2, "one"),
            (2, "all"),
            (2, "one-two"),
            (5, "one"),
            (5, "all"),
            (5, "one-two"),
        )
    }
    assert len(plan.guests.trials) == len(asked) * 2 * 3
    assert len(set(plan.guests.hashes)) == len(plan.guests.trials)


def test_one_guest_that_works_is_one_whatever_it_is_called():
    alone = PlannedJobs(JobFactors(jobs=("wait",), working=("all",)), ("raw",), 1, 1, seed=1)  # type: ignore[arg-type]
    assert [point.working for point in alone.points] == ["one"]
    assert alone.hashes == PlannedJobs(JobFactors(jobs=("wait",)), ("raw",), 1, 1, seed=1).hashes  # type: ignore[arg-type]


def test_each_block_has_every_crew_once_and_in_it_round_after_round():
    factors = JobFactors(jobs=("wait", "cpu-pi"), guests=(1, 2))  # type: ignore[arg-type]
    trials = schedule(points(factors, ["raw", "lxc"]), set_ups=3, repetitions=2, seed=5)
    assert [trial.position for trial in trials] == list(range(1, len(trials) + 1))
    orders = []
    for block in (1, 2, 3):
        of_block = [trial for trial in trials if trial.block == block]
        crews = list(dict.fromkeys(trial.point.crew for trial in of_block))
        assert len(crews) == 4
        assert [trial.point.crew for trial in of_block] == [crew for crew in crews for _ in range(4)]
        for crew in crews:
            inside = [trial for trial in of_block if trial.point.crew == crew]
            assert [trial.repetition for trial in inside] == [1, 1, 2, 2]
            assert {trial.point.job for trial in inside[:2]} == {"wait", "cpu-pi"}
        orders.append(crews)
    assert orders[1] == orders[0][::-1]
    assert orders[2] not in orders[:2], "the third block is drawn by itself"
    again = schedule(points(factors, ["raw", "lxc"]), set_ups=3, repetitions=2, seed=5)
    assert again == trials


def test_a_trial_keeps_its_meaning_when_the_plan_around_it_grows():
    small = PlannedJobs(JobFactors(jobs=("wait",)), ("raw",), 1, 1, seed=1)  # type: ignore[arg-type]
    large = PlannedJobs(JobFactors(jobs=("cpu-pi", "wait"), guests=(1, 4)), ("lxc", "raw"), 2, 2, seed=9)  # type: ignore[arg-type]
    assert set(small.hashes) < set(large.hashes)


@pytest.mark.parametrize(
    "other",
    [{"cpu_shares": (2, 1)}, {"cpu_quota_ratio": 0.5}, {"memory_mib": 64}],
    ids=str,
)
def test_what_every_guest_has_belongs_to_the_meaning(other: dict[str, object]):
    plain = JobFactors(jobs=("wait",))  # type: ignore[arg-type]
    (point,) = points(plain, ["lxc"])
    trial = CrewTrial(point, 1, 1, 1)
    assert hash_of(PlannedJobs, plain, trial) != hash_of(PlannedJobs, plain.model_copy(update=other), trial)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("job: {jobs: [cpu-py]}", "plan.yaml:5: job.jobs[0].job: is not a job, got 'cpu-py'; allowed: cpu-pi"),
        ("job: {jobs: [wait, wait]}", "job.jobs: lists a value twice"),
        ("job: {jobs: [wait, {job: wait, size: 5}]}", "job.jobs: lists a value twice"),
        ("job: {jobs: [wait], working: [one-two]}", "job: selects nothing: one-two needs two guests"),
        ("job: {jobs: [wait], cpu_shares: ['1024']}", "job.cpu_shares[0]"),
        ("job: {jobs: [wait], cpu_quota_ratio: true}", "job.cpu_quota_ratio"),
        ("job: {jobs: [wait], guests: [0]}", "job.guests[0]: should be greater than or equal to 1, got 0"),
        ("job: {jobs: [wait], guests: [251]}", "job.guests[0]: should be less than or equal to 250, got 251"),
        ("job: {jobs: [wait], working: [some]}", "job.working[0]"),
        ("job: {jobs: [wait], limit_s: 0}", "job.limit_s"),
        ("job: {jobs: []}", "job.jobs"),
        ("job:", "plan.yaml:5: job: is empty; allowed: jobs, guests, working, cpu, limit_s, cpu_shares"),
        ("boot:", "plan.yaml:5: boot: is empty; allowed: guests, start, limit_s, memory_mib"),
        ("flow:", "plan.yaml:5: flow: is empty; allowed: pattern, guests, cpu, offered"),
        ("route:", "plan.yaml:5: route: is empty; allowed: guests, cpu, routes, destinations"),
        ("frame_sizes:", "plan.yaml:5: frame_sizes: is empty"),
        ("targets: [max]\njob: {jobs: [wait]}", "plan.yaml:5: targets: cannot be combined with job"),
        ("search: {goals: [ndr]}\njob: {jobs: [wait]}", "plan.yaml:5: search: cannot be combined with job"),
        ("job: {jobs: [wait], cups: same}", "job.cups: unknown key"),
    ],
)
def test_a_wrong_file_is_refused_in_words(tmp_path: Path, change: str, said: str):
    head = "plan: jobs\nplatforms: [raw]\nset_ups: 2\nrepetitions: 3\n"
    with pytest.raises(ConfigError) as caught:
        load_plan(written(tmp_path, head + change + "\n"), make_inventory())
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"jobs": [{"job": "cpu-pi", "size": 4}]}, "jobs[0].size: is not a size for cpu-pi, got 4; allowed: 1000 to"),
        ({"jobs": []}, "jobs: has 0 entries; allowed: 1 or more"),
        ({"jobs": ["wait"], "guests": [2], "cpu_shares": [5, 6, 7]}, "cpu_shares: has 3 weights for 2 guests"),
        (
            {"jobs": [{"job": "memory-set", "size": 64}], "memory_mib": 128},
            "memory_mib: is too little for memory-set (64 MiB), which holds 128 MiB of arrays, got 128; allowed: more than",
        ),
    ],
)
def test_what_no_guest_can_do_is_refused_with_its_line(tmp_path: Path, said: dict[str, object], complaint: str):
    file = tmp_path / "bad.yaml"
    file.write_text("plan: p\nplatforms: [lxc]\n\njob: " + json.dumps(said) + "\n")
    with pytest.raises(ConfigError) as caught:
        load_plan(file)
    assert str(caught.value).startswith(f"{file}:4: job.{complaint}")


def test_a_guest_may_have_what_its_job_holds_and_more():
    wish = {"job": "memory-set", "size": 64}
    JobFactors.model_validate({"jobs": [wish], "memory_mib": 129})
    with pytest.raises(ValueError, match="holds 256 MiB"):
        JobFactors.model_validate({"jobs": [wish], "memory_mib": 129, "working": ["one-two"], "guests": [2]})


KNOWN_HASHES = {
    "cpu-sqrt2": "job-4eba79851d4aa42d",
    "disk-read": "job-a72acba3d41ece82",
    "disk-mixed": "job-d1ec0ab8394c7a8a",
    "disk-zero": "job-00617ed53ed7a128",
    "tcp": "job-b27660b12df54110",
    "serve-http": "job-d38151f67c5e12b2",
    "serve-https": "job-39888cd4293b0f88",
    "wait": "job-40ec8e9fa2d49622",
}


@pytest.mark.parametrize("name", KNOWN_HASHES)
def test_a_hash_stays_what_it_was_and_tells_what_is_run_beside_a_job(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What makes its file, serves it or is at the other end: another such line is another job."""
    factors = JobFactors.model_validate({"jobs": (name,)})
    (point,) = points(factors, ("lxc",))
    trial = CrewTrial(point, 1, 1, 1)
    assert hash_of(PlannedJobs, factors, trial) == KNOWN_HASHES[name]
    job = JOBS[name]
    others = []
    if job.disk is not None and job.disk.make:
        others.append(replace(job, disk=replace(job.disk, make="busybox dd if=/dev/urandom of=read")))
    if job.requests is not None:
        others.append(replace(job, requests=replace(job.requests, server="nginx {place}")))
    if job.server is not None:
        others.append(replace(job, server=replace(job.server, argv=("iperf3", "-s"))))
    for other in others:
        monkeypatch.setitem(JOBS, name, other)
        assert hash_of(PlannedJobs, factors, trial) != KNOWN_HASHES[name]
