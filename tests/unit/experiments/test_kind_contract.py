"""What every kind whose trials share guests does when these do not come: a record with its reason, and a point without it.

``boot``, whose guests serve one trial, is in test_boot_without_guests.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from labconsole.cli.main import main
from labconsole.errors import Aborted, AgentError, GuestLacks, LabError, MeasurementError, TooLittleMemory
from labconsole.experiments.flow.kind import KIND as FLOW_KIND
from labconsole.experiments.flow.measured import MEASURED as FLOWS_MEASURED
from labconsole.experiments.flow.record import RECORD as FLOW
from labconsole.experiments.flow.steps import EXPERIMENT as FLOWS
from labconsole.experiments.flow.summary import summarize_flows
from labconsole.experiments.flow.verify import recompute_flow
from labconsole.experiments.job.kind import KIND as JOB_KIND
from labconsole.experiments.job.measured import MEASURED as JOBS_MEASURED
from labconsole.experiments.job.record import RECORD as JOB
from labconsole.experiments.job.steps import Jobs as JOBS
from labconsole.experiments.job.summary import summarize_jobs
from labconsole.experiments.job.verify import recompute_job
from labconsole.experiments.route.kind import KIND as ROUTE_KIND
from labconsole.experiments.route.measured import MEASURED as ROUTES_MEASURED
from labconsole.experiments.route.record import RECORD as ROUTE
from labconsole.experiments.route.steps import EXPERIMENT as ROUTES
from labconsole.experiments.route.summary import summarize_routes
from labconsole.experiments.route.verify import recompute_route
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.guest_kind import guest_kinds
from labconsole.model.plan.loader import load_plan
from labconsole.report.trial_text import trial_lines, trial_table
from labconsole.store.open import open_store
from support.absent_guests import Bench, Stage
from support.flow_records import flow_record
from support.job_records import taken as finished_job
from support.route_records import route_record
from support.testbeds import GOOD

SILENT = AgentError("uut", "guest g2 did not answer within 60 s", code="guest_silent")
TOO_LITTLE = TooLittleMemory("uut", "2 guests are given 256 MiB of memory, and 100 are there")


class Kind(NamedTuple):
    """``done``: another trial of the same point that came to something; ``seen``: what a record has of guests."""

    text: str
    steps: Any
    of: Any
    recompute: Callable[[Any], list[Any]]
    lines: Callable[[Any], list[str]]
    summarize: Callable[[Any], Any]
    measured: Any
    done: Callable[[], Any]
    seen: tuple[str, ...]
    total: str | None
    ids: str


FLOW_TRIALS = Kind(
    "flow: {guests: [2]}",
    FLOWS,
    FLOW,
    recompute_flow,
    partial(trial_lines, FLOW_KIND),
    summarize_flows,
    FLOWS_MEASURED,
    lambda: flow_record([[500] * 4, [500] * 4]),
    ("flows", "senders", "ring", "receivers"),
    "sum_bps",
    "flow_ids",
)
KINDS = {
    "flow": FLOW_TRIALS,
    "in a ring": FLOW_TRIALS._replace(text="flow: {guests: [3], pattern: [ring]}"),
    "inward": FLOW_TRIALS._replace(text="flow: {guests: [2], pattern: [in]}"),
    "by weights": FLOW_TRIALS._replace(text="flow: {guests: [2], weights: {every_s: 4.0, steps: [3:1, 1:3]}}"),
    "beside a disk": FLOW_TRIALS._replace(text="flow: {guests: [2], disk: [{job: disk-zero, from_s: 3.0, to_s: 6.0}]}"),
    "route": Kind(
        "route: {guests: [2], routes: [0]}",
        ROUTES,
        ROUTE,
        recompute_route,
        partial(trial_lines, ROUTE_KIND),
        summarize_routes,
        ROUTES_MEASURED,
        lambda: route_record([200, 200]),
        ("routers",),
        "sum_pps",
        "route_ids",
    ),
    "job": Kind(
        "job: {jobs: [wait], guests: [2]}",
        JOBS,
        JOB,
        recompute_job,
        partial(trial_lines, JOB_KIND),
        summarize_jobs,
        JOBS_MEASURED,
        lambda: finished_job([1.0, 1.1], guests=2, platform="lxc"),
        ("copies",),
        None,
        "job_ids",
    ),
}
SHARING = {kind.name for kind in guest_kinds().values()} - {"boot"}


def test_every_kind_whose_trials_share_guests_is_here() -> None:
    assert {kind.of.name for kind in KINDS.values()} == SHARING


def taken(tmp_path: Path, kind: Kind, problem: LabError) -> tuple[Bench, Any]:
    """What is stored of a trial whose guests end so, each time."""
    (hosts := tmp_path / "hosts.yaml").write_text(GOOD)
    (path := tmp_path / "plan.yaml").write_text(f"plan: p\nplatforms: [lxc]\nmax_redo: 2\n{kind.text}\n")
    bench = Bench(load_inventory(hosts), Stage(problem), kind.of)
    (step,) = kind.steps(bench).steps(load_plan(path))
    return bench, asyncio.run(step.take(bench))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("problem", "code", "attempts"),
    [
        (TOO_LITTLE, "no_memory", 0),
        (AgentError("uut", "no room on disk: /var/tmp has 300 MiB left", code="no_space"), "no_space", 0),
        (SILENT, "guests_missing", 0),
        (MeasurementError("guest g1 of platform lxc has no disk"), "not_measured", 3),
        (GuestLacks("guest g1 of platform lxc has no interface on the UUT"), "not_measured", 1),
    ],
)
def test_it_is_stored_with_its_reason(tmp_path: Path, name: str, problem: LabError, code: str, attempts: int) -> None:
    kind = KINDS[name]
    bench, record = taken(tmp_path, kind, problem)
    assert bench.saved == [record] and len(bench.over_words) == attempts
    assert bench.stage.asked == max(1, attempts)
    assert [bool(again) for again in bench.over_words] == [True] * (attempts - 1) + [False] * (attempts > 0)
    assert (record.status, record.set_up) == ("failed", None)
    assert kind.total is None or getattr(record, kind.total) is None
    assert not any(getattr(record, each) for each in kind.seen)
    assert [each.code for each in record.verdict.reasons] == [code]
    assert (record.failure or "").startswith(getattr(problem, "message", str(problem))[:20])
    assert kind.recompute(record) == []
    assert type(record).model_validate_json(record.model_dump_json(), strict=True) == record
    assert any(code in line for line in kind.lines(record))
    assert len(trial_table(guest_kinds()[kind.of.name], [record])) == 1


@pytest.mark.parametrize("name", ["flow", "in a ring", "inward", "route", "job"])
def test_a_record_that_lacks_its_guests_without_such_a_reason_is_told(tmp_path: Path, name: str) -> None:
    kind = KINDS[name]
    _, record = taken(tmp_path, kind, SILENT)
    forged = record.model_copy(update={"verdict": record.verdict.model_copy(update={"reasons": ()})})
    assert "set_up" in [each.where for each in kind.recompute(forged)]
    if kind.total is not None:
        rated = record.model_copy(update={kind.total: 1e6})
        assert [each.where for each in kind.recompute(rated)] == [kind.total]
    done = kind.done().model_copy(update={"set_up": None, "verdict": record.verdict, "status": "failed"})
    assert "set_up" in [each.where for each in kind.recompute(done)]


@pytest.mark.parametrize("name", ["flow", "route", "job"])
def test_it_is_left_out_of_the_point_that_the_others_are_of(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, done = KINDS[name], KINDS[name].done()
    _, void = taken(tmp_path, kind, TOO_LITTLE)
    void = void.model_copy(
        update={
            "requested": done.requested,
            "testbed_fingerprint": done.testbed_fingerprint,
            "environment": done.environment,
        }
    )
    (point,) = kind.summarize([done, void]).points
    assert (len(getattr(point, kind.ids)), dict(point.left_out)) == (1, {"no_memory": 1})
    known = {each.id: each.left_out for each in kind.measured.trials([done, void], {})}
    assert sorted(known.values(), key=str) == [None, "no_memory"]
    store = tmp_path / "s.sqlite"
    with open_store(str(store)) as opened:
        for record in (done, void):
            opened.save_experiment(kind.of, record)
    assert main(["report", "--store", str(store), "--out", str(tmp_path / "out"), "--formats", "csv,html"]) == 0
    assert "no_memory" in (tmp_path / "out" / "trials.csv").read_text()
    assert main(["report", "--store", str(store), "--bundle", str(tmp_path / "b.tar.gz")]) == 0
    capsys.readouterr()
    assert main(["verify", str(tmp_path / "b.tar.gz")]) in (0, 1)
    of_done = getattr(done, f"{kind.of.name}_id")
    told = [line for line in capsys.readouterr().out.splitlines() if of_done not in line]
    assert not [line for line in told if "set_up" in line]


@pytest.mark.parametrize("redo", [0, 2])
def test_a_trial_that_was_ended_is_neither_stored_nor_taken_again(tmp_path: Path, redo: int) -> None:
    for kind in KINDS.values():
        (hosts := tmp_path / "hosts.yaml").write_text(GOOD)
        (path := tmp_path / "plan.yaml").write_text(f"plan: p\nplatforms: [lxc]\nmax_redo: {redo}\n{kind.text}\n")
        bench = Bench(load_inventory(hosts), Stage(Aborted("the plan was ended")), kind.of)
        (step,) = kind.steps(bench).steps(load_plan(path))
        with pytest.raises(Aborted):
            asyncio.run(step.take(bench))
        assert (bench.saved, bench.over_words, bench.stage.asked) == ([], [], 1)
        assert isinstance(step.kept(GuestLacks("no iproute2")), GuestLacks)
        assert not isinstance(step.kept(SILENT), GuestLacks)


@pytest.mark.parametrize("name", KINDS)
def test_what_no_guest_can_help_is_no_record(tmp_path: Path, name: str) -> None:
    with pytest.raises(AgentError, match="no bridge"):
        taken(tmp_path, KINDS[name], AgentError("uut", "there is no bridge", code="not_supported"))
