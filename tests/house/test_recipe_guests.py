"""A kind of guests is one folder: a copy of the package with a toy's is run, and nothing else of it is edited.

Its key is read from plans, its trials are taken, stored, listed, summed up, compared, reported and verified.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOY = ROOT / "tests" / "recipes" / "nap"
HOSTS = """\
testbed: bench
nodes:
  src1: {address: src1.lab, roles: [source]}
  uut: {address: uut.lab, roles: [uut], become: sudo}
  snk1: {address: snk1.lab, roles: [sink]}
streams:
  - {name: s1, source: src1/eth1, uut_in: eth1, uut_out: eth5, sink: snk1/eth1,
     source_ip: 198.18.1.1, sink_ip: 198.19.1.1, link_speed: 1Gbit}
platforms:
  lxc: {driver: container}
defaults: {settle_s: 0}
"""
PLAN = """\
plan: siesta
platforms: [lxc]
set_ups: 3
nap: {guests: [2], bed: [soft, hard], for_s: 2.0}
"""
COMMANDS = """\
import contextlib, io, json, sys
from labconsole.cli.main import main

ran = []
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(words)
        except SystemExit as exc:
            status = exc.code
    ran.append([status, out.getvalue(), err.getvalue()])
json.dump(ran, sys.stdout)
"""
NAPS = """\
import asyncio, json, sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

from labconsole.experiments.kinds import kinds
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.guest_kind import guest_kinds
from labconsole.model.plan.loader import load_plan
from labconsole.model.record.run import SetUp
from labconsole.store.open import open_store
from labconsole.tui.screens.plans.searches_table import describe_steps
from support.absent_guests import Bench, Stage


def guest(name, slept_s):
    async def ask(uut, line):
        await asyncio.sleep(0.01)
        return f"{slept_s}\\n"

    return SimpleNamespace(name=name, pid=None, ask=ask)


class Bedroom(Stage):
    trials = Counter()

    async def stand(self, platform, members, turn, how):
        crew = SimpleNamespace(members=[guest(each.name, 2.0 + number) for number, each in enumerate(members)],
                               attestation={}, attest=None)
        self.trials[turn] += 1
        set_up = SetUp(id=f"set-up-{turn[1]}", started_at="2026-01-01T00:00:00.000Z", setup_s=1.0, trial=self.trials[turn])
        return SimpleNamespace(crew=crew, uut=None, begin_trial=lambda: set_up)

    def environment(self, nodes, settings=None):
        return {"nodes": {}}


place = Path(sys.argv[1])
inventory = load_inventory(place / "hosts.yaml")
plan = load_plan(place / "plan.yaml", inventory)
kind = guest_kinds()["nap"]
with open_store(str(place / "naps.sqlite")) as store:
    (experiment,) = (each for each in kinds(store) if each.steps(plan))
    steps = experiment.steps(plan)
    for step in steps:
        asyncio.run(step.take(Bench(inventory, Bedroom(None), kind.record)))
    again = experiment.stored(steps, inventory.fingerprint())
print(json.dumps({
    "kinds": list(guest_kinds()), "stored": len(again), "words": [step.describe() for step in steps],
    "columns": [step.format_factors() for step in steps], "details": describe_steps(plan, None),
    "pictures": [step.picture(again[step.hash]).found for step in steps],
}))
"""


class Ran(NamedTuple):
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str


class Copy:
    """A copy of the package with the toy's folder, in a place with a testbed's file and a plan."""

    def __init__(self, place: Path) -> None:
        self.place = place
        shutil.copytree(
            ROOT / "labconsole", place / "site" / "labconsole", ignore=shutil.ignore_patterns("__pycache__")
        )
        shutil.copytree(TOY, place / "site" / "labconsole" / "experiments" / "nap")
        (place / "hosts.yaml").write_text(HOSTS)
        (place / "plan.yaml").write_text(PLAN)

    def python(self, code: str, *words: str, say: str = "") -> Any:
        """What a program prints as JSON, in which the copy is labconsole."""
        paths = os.pathsep.join([str(self.place / "site"), str(ROOT / "tests")])
        environment = {**os.environ, "PYTHONPATH": paths, "COLUMNS": "120", "XDG_DATA_HOME": str(self.place / "data")}
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            cwd=self.place,
            env=environment,
            input=say,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def run(self, *commands: str) -> list[Ran]:
        """Run ``labconsole`` with these words, one after the other."""
        return [Ran(*each) for each in self.python(COMMANDS, say=json.dumps([each.split() for each in commands]))]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("copy"))


def test_a_folder_is_a_kind_of_guests(copy: Copy) -> None:
    """What its key means, and what it would do, before anything is measured."""
    for name, text in (
        ("both.yaml", f"{PLAN}targets: [1Mbit]\n"),
        ("empty.yaml", "plan: p\nplatforms: [lxc]\nnap:\n"),
        ("wrong.yaml", PLAN.replace("for_s: 2.0", "for_s: 0.5")),
    ):
        (copy.place / name).write_text(text)
    schema, kinds, own, completion, dry, planned, short, both, empty, wrong = copy.run(
        "schema plan",
        "experiment --help",
        "experiment nap --help",
        "completion bash",
        "experiment nap --platforms lxc --guests 3 --for 4 --dry-run",
        "replay plan.yaml --dry-run",
        "experiment nap --platforms lxc --for 0.5 --dry-run",
        "replay both.yaml --dry-run",
        "replay empty.yaml --dry-run",
        "replay wrong.yaml --dry-run",
    )
    described = json.loads(schema.out)
    assert list(described["properties"])[-1] == "nap" and "NapFactors" in described["$defs"]
    assert ["platforms", "nap"] in [each["required"] for each in described["oneOf"]]
    assert "nap guests that sleep" in " ".join(kinds.out.split())
    assert "--for S" in own.out and "The nap key of a plan does the same" in " ".join(own.out.split())
    assert "soft hard" in completion.out
    assert dry.out.splitlines()[0] == "nap lxc: 3 guests in a soft bed"
    assert "1 of 1 naps to measure" in dry.out and "for the requested time asleep" in dry.out
    assert planned.out.count("nap lxc: 2 guests in a") == 6 and "siesta: 6 of 6 naps to measure" in planned.out
    assert (short.status, short.err.split(": ")[1]) == (2, "--for")
    assert "cannot be combined with nap: a plan has frames to forward or guests that sleep" in both.err
    assert "nap: is empty; allowed: guests, bed, for_s, memory_mib" in empty.err
    assert "nap.for_s" in wrong.err


def test_its_trials_are_taken_shown_reported_and_verified(copy: Copy) -> None:
    took = copy.python(NAPS, str(copy.place))
    assert took["kinds"] == ["job", "boot", "flow", "route", "nap"]
    assert took["stored"] == 6 and took["pictures"] == [["3.0 s"]] * 6
    assert took["columns"][0].keys() == {"platform", "guests", "bed", "set-up", "repetition"}
    assert took["details"][0] == ["naps", "of 2 guests for 2 s", ""]
    store = "--store naps.sqlite"
    planned, listed, summed, shown, advice, _, _, verified = copy.run(
        f"replay plan.yaml --dry-run {store}",
        f"experiment nap --list {store}",
        f"experiment nap --summary --json {store}",
        f"experiment nap --list --json {store}",
        f"plan advise plan.yaml {store}",
        f"runs export --format jsonl --out naps.jsonl {store}",
        f"report --out report {store}",
        f"verify {store}",
    )
    assert "0 of 6 naps to measure (6 already stored)" in planned.out
    assert listed.out.count("guests in a soft bed: 3.0 s, valid") == 3
    assert json.loads(summed.out) == {"naps_summary": {"longest_s": [3.0] * 6}}
    record = json.loads(shown.out.splitlines()[0])["nap"]
    (one,) = copy.run(f"experiment nap --show {record['nap_id']} {store}")
    assert "  g1 slept 2 s\n  g2 slept 3 s\n  valid\n" in one.out
    assert "lxc: 2 guests, soft: longest nap" in advice.out and "set_ups: 3, repetitions: 1 is enough" in advice.out
    assert "6 naps verified: every derived number follows" in verified.out and verified.status == 0
    assert (copy.place / "report" / "naps.csv").read_text().splitlines()[:2] == ["platform,longest_s", "lxc,3.0"]
    # Elsewhere, with a number that does not follow.
    lines = (copy.place / "naps.jsonl").read_text().replace('"longest_s": 3.0', '"longest_s": 4.0')
    (copy.place / "forged.jsonl").write_text(lines)
    imported, forged, compared = copy.run(
        "runs import forged.jsonl --store forged.sqlite",
        "verify --store forged.sqlite",
        "compare naps.sqlite forged.sqlite",
    )
    assert "6 naps" in imported.out
    assert "6 trials would be on both sides" in compared.err
    assert forged.status == 1 and forged.out.count("longest_s") == 6
