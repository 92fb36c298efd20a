"""A package of somebody else's, built and installed, is measured, exported and reported through the real command."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec

OUTSIDE = Path(__file__).resolve().parents[1] / "outside"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("installed")
    source = tmp_path_factory.mktemp("source") / "outside"
    shutil.copytree(OUTSIDE, source)
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(directory), str(source)]
    subprocess.run(argv, check=True, timeout=300)
    return directory


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"out{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=1))
    lab.down(name)


def labconsole(installed: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(installed)}
    argv = [sys.executable, "-m", "labconsole", *words]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=120)
    assert "Traceback" not in done.stderr
    return done


def test_its_driver_is_measured_its_exporter_exports_and_its_unit_reports(testbed, installed, tmp_path):
    hosts, store = tmp_path / "hosts.yaml", str(tmp_path / "runs.sqlite")
    text = testbed.hosts_file.read_text()
    hosts.write_text(text.replace("platforms:\n", "platforms:\n  shiny: {driver: mirror, polish: 2}\n"))
    run = labconsole(
        installed, "run", "--hosts", str(hosts), "--store", store, "--platform", "shiny", "--duration", "0.5", "--json"
    )
    assert run.returncode == 0, run.stderr
    record = json.loads(run.stdout)
    assert record["requested"]["platform"] == "shiny"
    assert record["total"]["loss_packets"] == 0
    exported = labconsole(installed, "runs", "export", "--store", store, "--format", "tsv")
    assert exported.stdout.splitlines()[1].split("\t")[0] == record["run_id"]
    report = labconsole(installed, "report", "--store", store, "--json")
    tables = {line["table"]: line for line in map(json.loads, report.stdout.splitlines()) if "table" in line}
    assert tables["busiest"]["rows"][0]["platform"] == "shiny"
    assert "plug-in broken of package labconsole-outside cannot be loaded: ModuleNotFoundError" in report.stderr

    # Nobody else could make its table again, so a bundle has none, and is verified with and without the package.
    bundle = tmp_path / "bundle.tar.gz"
    packed = labconsole(installed, "report", "--store", store, "--bundle", str(bundle), "--hosts", str(hosts))
    assert "left out, because others could not make it again: plug-in broken, busiest, twice" in packed.stderr
    for directory in (installed, tmp_path / "without"):
        verified = labconsole(directory, "verify", str(bundle))
        assert verified.returncode == 0, verified.stdout + verified.stderr

    looked = labconsole(installed, "doctor", "--store", store, "--json")
    plugs = [each for each in map(json.loads, looked.stdout.splitlines()) if each["subject"].startswith("plug-in")]
    assert [each["evidence"] for each in plugs if each["subject"] == "plug-in twice"] == [
        "of units",
        "of kinds",
        "of experiments",
    ]
    assert {each["subject"]: each["status"] for each in plugs} == {
        "plug-in twice": "ok",
        "plug-in mirror": "ok",
        "plug-in steady": "ok",
        "plug-in boastful": "ok",
        "plug-in homesick": "ok",
        "plug-in tsv": "ok",
        "plug-in busiest": "ok",
        "plug-in broken": "failed",
    }

    hosts.write_text(hosts.read_text().replace("polish: 2", "polish: 9"))
    wrong = labconsole(installed, "run", "--hosts", str(hosts), "--store", store, "--platform", "shiny")
    assert wrong.returncode == 2
    assert "polish" in wrong.stderr

    kit = (
        "from labconsole.testing import check_driver, check_exporter, check_generator, check_units\n"
        "from labconsole_outside import busiest, homesick, mirror, steady, tsv\n"
        f"check_driver(mirror, 'mirror', {{'polish': 3}}); check_exporter(tsv, {store!r}); check_units(busiest, {store!r})\n"
        "check_generator(steady, 'steady')\n"
        "for check in (lambda: check_driver(mirror, 'glass'), lambda: check_exporter(busiest, 'x'),\n"
        "              lambda: check_generator(homesick, 'homesick')):\n"
        "    try:\n        check()\n    except AssertionError as exc:\n        print(exc)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(installed)}
    checked = subprocess.run([sys.executable, "-c", kit], capture_output=True, text=True, env=env)
    assert checked.stdout.splitlines() == [
        "DRIVER.about.name is 'mirror', and hosts.yaml would have 'glass'",
        "labconsole_outside.busiest has no BINARY that is True or False",
        "labconsole_outside.homesick_node cannot be imported on a node: KeyError: 'A_VARIABLE_THAT_NOBODY_HAS'",
    ], checked.stderr


def test_its_generator_sends_and_what_is_stored_outlives_the_package(testbed, installed, tmp_path):
    store, hosts, plan = str(tmp_path / "runs.sqlite"), tmp_path / "hosts.yaml", tmp_path / "plan.yaml"
    hosts.write_text(testbed.hosts_file.read_text().replace("generator: auto", "generator: steady"))
    hosts.write_text(hosts.read_text() + "generators:\n  steady: {burst: 4}\n")
    plan.write_text(
        "plan: toys\nplatforms: [raw]\nframe_sizes: [64]\ntargets: [5Mbit]\nduration_s: 0.5\nsettle_s: 0\n"
        "generator: steady\n"
    )
    on = ("--hosts", str(hosts), "--store", store)
    run = labconsole(installed, "run", *on, "--duration", "1", "--target", "10Mbit", "--json")
    assert run.returncode == 0, run.stderr
    (stream,) = json.loads(run.stdout)["streams"]
    code = (OUTSIDE / "labconsole_outside" / "steady_node.py").read_bytes()
    assert stream["generator"] == "steady"
    assert stream["generator_version"] == f'1 sha256:{hashlib.sha256(code).hexdigest()} {{"burst":4}}'
    assert stream["generator_packets"] == stream["measured_packets"] == stream["intended_packets"] == 14205
    assert (stream["loss_packets"], stream["sequence"]["lost_runs"]) == (0, {})
    replayed = labconsole(installed, "replay", str(plan), *on)
    assert replayed.returncode == 0, replayed.stderr
    checked = labconsole(installed, "check", *on, "--json")
    found = [each for each in map(json.loads, checked.stdout.splitlines()) if each.get("id") == "tools.generator"]
    assert [each["evidence"] for each in found] == ["steady, a plug-in: one frame per system call; needs AF_PACKET"]

    hosts.write_text(hosts.read_text().replace("burst: 4", "burst: 99"))
    wrong = labconsole(installed, "run", *on)
    assert wrong.returncode == 2
    assert "generators.steady.burst: " in wrong.stderr
    hosts.write_text(hosts.read_text().replace("burst: 99", "burst: 4"))

    # One that counts what was never sent makes the run invalid; one that does not import sends nothing.
    boasts = labconsole(installed, "run", *on, "--duration", "1", "--generator", "boastful", "--json")
    assert boasts.returncode == 1, boasts.stderr
    record = json.loads(boasts.stdout)
    reasons = {reason["code"]: reason["detail"] for reason in record["verdict"]["reasons"]}
    assert record["verdict"]["status"] == "invalid"
    assert reasons["generator_failed"].startswith(
        "s1: generator boastful counts nonsense: 14212 packets sent, of 14205"
    )
    assert record["streams"][0]["generator_packets"] is None
    sick = labconsole(installed, "run", *on, "--generator", "homesick")
    assert sick.returncode == 3
    assert "src1: generator homesick cannot be imported on this node: KeyError" in sick.stderr

    # What was measured is read, reported and verified where nobody has it; nothing is measured there.
    bundle, gone = tmp_path / "bundle.tar.gz", tmp_path / "without"
    packed = labconsole(installed, "report", "--plan", str(plan), "--store", store, "--bundle", str(bundle), *on[:2])
    assert packed.returncode == 0, packed.stderr
    verified = labconsole(gone, "verify", str(bundle))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    shown = labconsole(gone, "runs", "list", "--store", store, "--json")
    assert [json.loads(line)["streams"][0]["generator"] for line in shown.stdout.splitlines()].count("steady") == 2
    reported = labconsole(gone, "report", "--plan", str(plan), "--store", store)
    assert reported.returncode == 0, reported.stderr
    refused = labconsole(gone, "replay", str(plan), "--hosts", str(testbed.hosts_file), "--store", store)
    assert refused.returncode == 2
    assert "plan.yaml:7: generator: is not one of the known words, got 'steady'" in refused.stderr


def test_its_kind_of_experiment_is_taken_by_a_plan_and_its_records_outlive_it(testbed, installed, tmp_path):
    store, plan, bundle = str(tmp_path / "runs.sqlite"), tmp_path / "plan.yaml", tmp_path / "bundle.tar.gz"
    plan.write_text(
        "plan: again\nplatforms: [raw]\nframe_sizes: [64]\nduration_s: 0.3\nsettle_s: 0\n"
        "experiments:\n  twice: {times: 2}\n"
    )
    on = ("--hosts", str(testbed.hosts_file), "--store", store)
    dry = labconsole(installed, "replay", str(plan), *on, "--dry-run")
    assert "the first point, 2 times\nagain: 1 of 1 steps to do (0 already stored), 2 trials or more" in dry.stdout
    taken = labconsole(installed, "replay", str(plan), *on, "--json")
    assert taken.returncode == 0, taken.stderr
    events = {line["event"]: line for line in map(json.loads, taken.stdout.splitlines()) if "event" in line}
    assert (events["step_finished"]["status"], events["steps_finished"]["made"]) == ("done", 1)
    again = labconsole(installed, "replay", str(plan), *on)
    assert "again: steps done; 0 made by 0 trials, 1 stored before" in again.stdout
    report = labconsole(installed, "report", "--store", store, "--json", "--bundle", str(bundle), *on[:2])
    assert report.returncode == 0, report.stderr
    shown = labconsole(installed, "report", "--store", store, "--json")
    tables = {line["table"]: line for line in map(json.loads, shown.stdout.splitlines()) if "table" in line}
    assert tables["twices"]["rows"] == [{"platform": "raw", "times": 2}]
    by_file = labconsole(installed, "report", "--plan", str(plan), "--store", store, "--json")
    tables = {line["table"]: line for line in map(json.loads, by_file.stdout.splitlines()) if "table" in line}
    assert tables["twices"]["rows"] == [{"platform": "raw", "times": 2}]
    for place in (("--store", store), (str(bundle),)):
        verified = labconsole(installed, "verify", *place)
        assert verified.returncode == 0, verified.stdout + verified.stderr

    # Where the package is gone, its records are kept, and said to be unreadable; the runs are still there.
    gone = tmp_path / "without"
    kept = labconsole(gone, "verify", "--store", store)
    assert "1 record of kind twice, which this version of labconsole does not know" in kept.stdout + kept.stderr
    assert "2 runs verified" in kept.stdout + kept.stderr
    unread = labconsole(gone, "verify", str(bundle))
    assert unread.returncode == 1
    assert "twice: no installed package reads records of this kind" in unread.stdout + unread.stderr
    refused = labconsole(gone, "replay", str(plan), *on)
    assert refused.returncode == 2
    assert "plan.yaml:7: experiments.twice: is a kind of experiment that no installed package has" in refused.stderr
    back = labconsole(installed, "verify", "--store", store)
    assert back.returncode == 0, back.stdout

    kit = (
        "from pathlib import Path\nfrom labconsole.model.inventory import load_inventory\n"
        "from labconsole.model.plan.loader import load_plan\nfrom labconsole.testing import check_experiment\n"
        "from labconsole_outside import busiest, twice, twice_record\n"
        f"hosts, plan = load_inventory(Path({str(testbed.hosts_file)!r})), load_plan(Path({str(plan)!r}))\n"
        "rest = plan, {'times': 2}, hosts, twice_record.KIND\ncheck_experiment(twice, 'twice', *rest)\n"
        "for module, name in ((busiest, 'twice'), (twice, 'thrice')):\n"
        "    try:\n        check_experiment(module, name, *rest)\n    except AssertionError as exc:\n        print(exc)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(installed)}
    checked = subprocess.run([sys.executable, "-c", kit], capture_output=True, text=True, env=env)
    assert checked.stdout.splitlines() == [
        "plug-in twice cannot be used: it has no EXPERIMENT that can be called",
        "its records are of kind 'twice', and the plan's key is 'thrice'",
    ], checked.stderr


def test_without_it_nothing_of_it_is_left(testbed, tmp_path):
    done = labconsole(tmp_path, "runs", "export", "--store", str(tmp_path / "x.sqlite"), "--format", "tsv")
    assert done.returncode == 2
    assert "invalid choice: 'tsv'" in done.stderr
