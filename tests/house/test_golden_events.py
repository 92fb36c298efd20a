"""What is printed while something is measured is what was printed: replays, searches, single trials, checks.

Sessions are scripts, so that nothing is really measured: trials end at once, and records of guests are made up.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.commands.check import checks
from labconsole.cli.commands.replay import execution
from labconsole.engine.observer_effect import ObserverEffect, ObserverProgress, ObserverRun
from labconsole.errors import MeasurementError
from labconsole.experiments.boot.procedure import BootStep
from labconsole.experiments.flow.procedure import FlowStep
from labconsole.experiments.job.procedure import JobStep
from labconsole.experiments.kinds import kinds
from labconsole.experiments.route.procedure import RouteStep
from labconsole.measure.statistics.repetitions import Difference
from labconsole.store.open import open_store
from support.boot_records import started
from support.execution_script import PLAN
from support.execution_script import Script as RunsScript
from support.fake_lab_session import LabSession
from support.flow_records import flow_record, inward_record, ring_record
from support.flow_scenarios import steps_of, weighted
from support.golden_outputs import fixed_identity, printed, same
from support.golden_sets import GOLDEN_SETS
from support.job_records import taken
from support.no_crews import NoCrews
from support.plugged_in import twice_installed
from support.route_records import route_record
from support.search_script import Script as SearchScript

EVENTS = GOLDEN_SETS / "events"
TEXT_AND_JSON = ((), ("--json",))
HEAD = "plan: p\nplatforms: [container]\nset_ups: 2\nmax_redo: 1\nsettle_s: 0\n"
SEARCHING = """\
plan: searched
platforms: [raw]
frame_sizes: [1000, 1500]
sources: [1]
settle_s: 0
drain_s: 0.1
search: {goals: [ndr, pdr-5%], trial_s: 10, duration_sum_s: 10, width_ratio: 0.05}
"""
TWICE = """\
plan: toys
platforms: [raw]
frame_sizes: [64]
targets: [10Mbit]
duration_s: 1
settle_s: 0
experiments: {twice: {times: 3}}
"""
GUESTS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "job": ("job: {jobs: [{job: wait, size: 3}], guests: [1, 2]}", lambda number: taken([4.0 + number / 100] * 2)),
    "boot": ("boot: {guests: [1, 2], start: [hot]}", lambda number: started(2.0 + number / 100, 50.0, guests=2)),
    "flow": ("flow: {guests: [1, 2]}", lambda number: flow_record([[500 + number] * 4, [500] * 4])),
    "ring": ("flow: {guests: [3, 4], pattern: [ring]}", lambda number: ring_record([40e6, 40e6 + number, 40e6])),
    "in": ("flow: {guests: [1, 2], pattern: [in]}", lambda number: inward_record([6000 + number, 6000])),
    "weights": (
        "flow: {guests: [2], bin_s: 0.1, weights: {every_s: 1.0, steps: [3:1, 1:3]}}",
        lambda number: weighted(steps_of("3:1", "1:3"), (0.75, 0.25)),
    ),
    "route": ("route: {guests: [1, 2], routes: [0]}", lambda number: route_record([200, 200 + number])),
}
"""From a name to what a plan asks of guests, and the record of its n-th trial."""

ALONE = {"job": ["--jobs", "wait", "--size", "3"], "boot": ["--start", "hot"], "flow": [], "route": ["--routes", "0"]}
"""Options of the command for each kind."""


@pytest.fixture(autouse=True)
def plain_surroundings(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 100 columns without colours."""
    for name, value in {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "TZ": "UTC", "HOME": str(own_home)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(own_home)
    (own_home / "hosts.yaml").write_text("# the session has its own\n")


def on(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find this session on its testbed, whatever they ask for; searches are numbered, and made at one time."""
    fixed_identity(monkeypatch)

    def drive(of: Any, nodes: Any, work: Any, listeners: Any, **_: Any) -> int:
        for listener in listeners if hasattr(session, "subscribe") else ():
            session.subscribe(listener)
        return int(asyncio.run(work(session)))

    own = {
        "load_testbed": lambda *_, **__: (session.inventory, session.store),
        "open_session": lambda *_, **__: session,
    }
    for name, instead in own.items():
        monkeypatch.setattr(f"labconsole.api.testbed.{name}", instead)
    monkeypatch.setattr("labconsole.cli.session_runner.run_session", drive)
    for module in (execution, checks):  # imported before, so that they are put back as they were
        for name, instead in {**own, "run_session": drive}.items():
            monkeypatch.setattr(module, name, instead)
    monkeypatch.setattr(execution, "exclusive_replay", lambda *_: nullcontext())


def twice_printed(
    words: list[str], begin: Callable[[], object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> str:
    """The command as text and as JSON, each after ``begin()``."""
    parts = []
    for form in TEXT_AND_JSON:
        begin()
        parts.append(printed([*words, *form], capsys, {tmp_path: "TMP"}, clock=True))
    return "\n".join(parts)


class NoGuests(NoCrews):
    """Knows nothing of the nodes."""

    uut = timekeeper = source = None

    def environment(self, nodes: object, settings: object = None) -> dict[str, Any]:
        return {"nodes": {}}


def grid(text: str, ends: list[Any], monkeypatch: pytest.MonkeyPatch, store: Any = None) -> Callable[[], object]:
    """Begin with a session whose trials end so."""

    def begin() -> None:
        left = iter(ends)
        script: Any = RunsScript(lambda trial, request: next(left, "valid"))
        script.stage = NoGuests()
        if store is not None:
            script.experiments, script.store = kinds(store), store
        script.check_background = lambda request: None
        on(script, monkeypatch)

    return begin


GRIDS: dict[str, tuple[str, list[Any]]] = {
    "runs": (PLAN, ["valid", "invalid", "valid", "suspect", MeasurementError("the guest does not boot"), "valid"]),
    "runs-in-blocks": (
        PLAN.replace("repetitions: 3", "repetitions: 1\nset_ups: 2"),
        ["valid", "broken", "valid", "suspect"],
    ),
}


@pytest.mark.parametrize("name", GRIDS)
def test_a_replay_of_runs_is_told_as_it_was(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (path := tmp_path / "plan.yaml").write_text(GRIDS[name][0])
    begin = grid(*GRIDS[name], monkeypatch)
    same(EVENTS / f"{name}.txt", twice_printed(["replay", str(path)], begin, tmp_path, capsys))


@pytest.mark.parametrize("name", GUESTS)
def test_a_replay_of_trials_of_guests_is_told_as_it_was(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first trial is taken again, the third cannot be measured at its second attempt."""
    (path := tmp_path / "plan.yaml").write_text(f"{HEAD}{GUESTS[name][0]}\n")
    begin = guests(name, tmp_path, monkeypatch)
    same(EVENTS / f"{name}.txt", twice_printed(["replay", str(path)], begin, tmp_path, capsys))


@pytest.mark.parametrize("name", ALONE)
def test_trials_of_guests_from_the_command_line_are_told_as_they_were(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = guests(name, tmp_path, monkeypatch)
    words = ["experiment", name, "--platforms", "container", "--guests", "1,2", "--set-ups", "2", *ALONE[name]]
    text = twice_printed([*words, "--dry-run"], begin, tmp_path, capsys)
    text += "\n" + twice_printed(words, begin, tmp_path, capsys)
    same(EVENTS / f"experiment-{name}.txt", text)


def guests(name: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    """Begin with a new store, and with trials of guests whose first and fourth are invalid, and whose fifth fails."""
    text, make = GUESTS[name]
    number = itertools.count(1)

    async def attempt(self: Any, bench: Any, attempt: int) -> Any:
        own = next(number)
        if own == 5:
            raise MeasurementError(f"{self.describe()}: the guest lacks a disk")
        record = make(own)
        if own in (1, 4):
            reasons = [{"code": "mark_lost" if name in ("job", "boot") else "no_packets", "detail": "nothing came"}]
            verdict = type(record.verdict).model_validate({"status": "invalid", "reasons": reasons})
            record = record.model_copy(update={"verdict": verdict, "status": "failed", "failure": "nothing came"})
        key = f"{self.kind.name}_id"
        return record.model_copy(update={key: f"20260102T000000Z-{own:06x}", "plan": self.ref(attempt)})

    def begin() -> None:
        nonlocal number
        number = itertools.count(1)
        (directory / "runs.sqlite").unlink(missing_ok=True)
        grid(text, [], monkeypatch, open_store(str(directory / "runs.sqlite")))()

    for step in (BootStep, FlowStep, JobStep, RouteStep):
        monkeypatch.setattr(step, "attempt", attempt)
    return begin


def test_a_plug_in_kind_is_told_listed_and_reported_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (path := tmp_path / "plan.yaml").write_text(TWICE)
    (hosts := tmp_path / "lab.yaml").write_text((GOLDEN_SETS / "kinds" / "hosts.yaml").read_text())
    stored = tmp_path / "runs.sqlite"
    with twice_installed(tmp_path, monkeypatch):
        places = {tmp_path: "TMP"}
        dry = ["replay", str(path), "--dry-run", "--hosts", str(hosts), "--store", str(tmp_path / "none.sqlite")]
        parts = [printed([*dry, *form], capsys, places) for form in TEXT_AND_JSON]
        with monkeypatch.context() as patch:
            for form in TEXT_AND_JSON:
                stored.unlink(missing_ok=True)
                script: Any = RunsScript(lambda trial, request: "valid")
                script.experiments = kinds(open_store(str(stored)))
                script.check_background = lambda request: None
                on(script, patch)
                parts.append(printed(["replay", str(path), *form], capsys, places, clock=True))
        commands = (["report"], ["report", "--json"], ["verify"], ["verify", "--json"], ["runs", "export"])
        parts += [printed([*words, "--store", str(stored)], capsys, places) for words in commands]
    same(EVENTS / "plug-in.txt", "\n".join(parts))


def test_a_replay_of_searches_is_told_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (path := tmp_path / "plan.yaml").write_text(SEARCHING)

    def begin() -> None:
        script: Any = SearchScript()
        script.before = lambda number: "invalid" if number == 2 else "refused" if number > 18 else None
        script.check_background = lambda request: None
        on(script, monkeypatch)

    same(EVENTS / "searches.txt", twice_printed(["replay", str(path)], begin, tmp_path, capsys))


def test_one_search_is_told_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["search", "--frame-size", "1000", "--goals", "pdr-5%", "--max-trials", "6"]
    text = twice_printed(words, lambda: on(SearchScript(), monkeypatch), tmp_path, capsys)
    same(EVENTS / "one-search.txt", text)


class OneRun(LabSession):
    """Takes telemetry for a trial like others."""

    async def run(self, *args: Any, role: str = "measured", **named: Any) -> Any:
        return await super().run(*args, **named)


def test_single_trials_and_checks_are_told_as_they_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ["run", "--platform", "raw", "--target", "10Mbit", "--duration", "1", "--repetitions", "2"]
    text = twice_printed(run, lambda: on(OneRun(loss=0.02), monkeypatch), tmp_path, capsys)
    for words in (["check"], ["check", "--brief"]):
        text += "\n" + twice_printed(words, lambda: on(OneRun(), monkeypatch), tmp_path, capsys)
    same(EVENTS / "run-and-check.txt", re.sub(r"(in|took) \d+\.\d s\b", r"\1 S s", text))


def test_the_observer_effect_is_told_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tuple(
        ObserverRun(
            pair=pair, observe=observe, status="valid", reasons=(), loss_ratio=0.01 * pair, measured_pps=1e5 + pair
        )
        for pair in (1, 2)
        for observe in ("quiet", "live")
    )

    async def observed(session: Any, request: Any, pairs: int, tell: Any, **_: Any) -> ObserverEffect:
        tell(ObserverProgress(done=0, total=len(runs), last=None))
        for done, each in enumerate(runs, 1):
            tell(ObserverProgress(done=done, total=len(runs), last=each))
        found = Difference(mean=0.001, ci_low=-0.001, ci_high=0.003, degrees=2.0, detectable=False)
        return ObserverEffect(
            request=request.words(), seed=7, runs=runs, loss_ratio=found, measured_pps=found, left_out=0
        )

    def begin() -> None:
        on(OneRun(), monkeypatch)
        monkeypatch.setattr(checks, "observer_effect", observed)

    words = ["check", "--observer-effect", "2", "--platform", "raw"]
    same(EVENTS / "observer-effect.txt", twice_printed(words, begin, tmp_path, capsys))
