"""Whatever ends a run, nothing is left on any node two seconds later, and what was measured before is still there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labconsole.api.testbed import load_testbed, open_session
from labconsole.engine.live.events import Phase
from labconsole.errors import AgentError, OnlyWatches
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.wire.survey import TakeSurvey
from support import faults
from support.live_lab import COMMAND, lab_state, labconsole, processes, records, wait_until
from support.requirements import missing, require

GONE_S = 2.0
"""The bound that docs/agent-protocol.md promises (section "End")."""


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"fault{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=2))
    lab.down(name)


def start_run(testbed: lab.LabStatus, store: Path, platform: str) -> subprocess.Popen:
    """A long run in the background; returns once its senders send and its captures capture."""
    process = subprocess.Popen(
        [
            *COMMAND,
            "run",
            "--platform",
            platform,
            "--sources",
            "2",
            "--target",
            "20Mbit",
            "--duration",
            "60",
            "--hosts",
            str(testbed.hosts_file),
            "--store",
            str(store),
            "--json",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    name = testbed.spec.name

    def sending() -> bool:
        assert process.poll() is None, process.stderr and process.stderr.read()
        return received(name) > 1000 and "tcpdump" in processes(name, "snk1")

    base = received(name)
    wait_until(lambda: sending() and received(name) > base + 1000, timeout_s=30, what="the run never began to send")
    return process


def received(name: str) -> int:
    """Packets that the first sink's NIC has received."""
    return int(lab.execute(name, "snk1", ["cat", "/sys/class/net/eth1/statistics/rx_packets"]).stdout)


@pytest.fixture(scope="module")
def labs(lab_home: Path) -> Iterator[Callable[[faults.SshServer], lab.LabStatus]]:
    """The lab with this SSH server, brought up when it is first asked for."""
    up: dict[str, lab.LabStatus] = {}

    def get(ssh_server: faults.SshServer) -> lab.LabStatus:
        if ssh_server not in up:
            name = f"fault{os.getpid()}{ssh_server[0]}"
            up[ssh_server] = lab.up(LabSpec(name=name, sources=1, ssh_server=ssh_server))
        return up[ssh_server]

    yield get
    for status in up.values():
        lab.down(status.spec.name)


@pytest.mark.parametrize("fault", [pytest.param(f, id=f.name) for f in faults.FAULTS if not f.soak_only])
def test_whatever_breaks_is_named_leaves_nothing_and_loses_nothing(
    fault: faults.Fault, labs: Callable[[str], lab.LabStatus], tmp_path: Path
):
    if os.geteuid() != 0 and fault.root:
        missing(f"{fault.name}: only root can do that")
    require(*fault.tools)
    faults.survive(faults.Bench(labs(fault.ssh_server), tmp_path), fault)


def test_kill_9_of_the_console_leaves_nothing_and_no_traffic(testbed, tmp_path: Path):
    before = lab_state(testbed.spec.name)
    process = start_run(testbed, tmp_path / "s.sqlite", "raw-bridge")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    time.sleep(GONE_S)
    assert lab_state(testbed.spec.name) == before
    count = received(testbed.spec.name)
    time.sleep(0.2)
    assert received(testbed.spec.name) == count


def test_ctrl_c_once_stops_in_order_and_saves_what_was_measured(testbed, tmp_path: Path):
    before = lab_state(testbed.spec.name)
    store = tmp_path / "s.sqlite"
    process = start_run(testbed, store, "container")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=20)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert lab_state(testbed.spec.name) == before
    (run,) = records(labconsole("runs", "--json", store=store))
    assert run["verdict"]["status"] == "invalid"
    codes = [reason["code"] for reason in run["verdict"]["reasons"]]
    assert [code for code in codes if code != "unseen_cpu"] == ["aborted"]  # other tests use this machine meanwhile
    assert run["total"]["offered_packets"] == run["total"]["measured_packets"] > 1000
    assert run["run_id"] in output


def test_two_runs_at_once_are_kept_apart_by_the_lease(testbed, tmp_path: Path):
    process = start_run(testbed, tmp_path / "s.sqlite", "raw")
    try:
        second = labconsole("run", "--duration", "1", hosts=testbed.hosts_file, store=tmp_path / "t.sqlite")
        assert second.returncode == 3
        assert re.search(
            r"uut: .*@.* has this node since .* UTC, until about .* UTC, for raw.*--take-over", second.stderr
        ), second.stderr
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def test_a_testbed_is_taken_over_on_purpose_and_both_records_say_so(testbed, tmp_path: Path):
    before, mine, theirs = lab_state(testbed.spec.name), tmp_path / "mine.sqlite", tmp_path / "theirs.sqlite"
    loser = start_run(testbed, theirs, "container")
    taker = labconsole("run", "--duration", "0.5", "--take-over", "--json", hosts=testbed.hosts_file, store=mine)
    assert taker.returncode == 0, taker.stderr
    _, errors = loser.communicate(timeout=20)
    assert loser.returncode == 3, errors
    assert len(re.findall(r"labconsole: uut: .*@.* took the testbed over for raw", errors)) == 1, errors
    (lost,) = records(labconsole("runs", "--json", store=theirs))
    assert lost["verdict"]["status"] == "invalid"
    reason = lost["verdict"]["reasons"][0]
    assert reason["code"] == "lease_taken" and "took the testbed over for raw, 64 B" in reason["detail"]
    assert lost["failure"]["failure"] == "lease_taken"
    assert influence(lost, "lease_taken")["by"] == lost["operator"]
    (won,) = map(json.loads, taker.stdout.splitlines())
    assert won["verdict"]["status"] != "invalid"
    assert "taken over from" in influence(won, "lease_taken_over")["detail"]
    wait_until(lambda: lab_state(testbed.spec.name) == before, timeout_s=GONE_S, what="something was left on a node")


def influence(record: dict, kind: str) -> dict:
    return next(each for each in record["influences"] if each["kind"] == kind)


async def watch(testbed: lab.LabStatus, store: Path, measured: Path) -> None:
    inventory, runs = load_testbed(testbed.hosts_file, str(store))
    watching = open_session(inventory, runs, read_only=True)
    seen: list[str] = []
    windows: list[set[int]] = []
    phases: dict[tuple[str, int, object], list[Phase | None]] = {}
    most = 0
    quiet = False
    uut = watching.telemetry.nodes["uut"]
    request = DesignPoint(platform="raw", frame=FrameSize(64), sources=1, target=5_000_000, duration_s=1)
    try:
        await watching.connect()
        survey = watching.links["uut"].ask(TakeSurvey(tools=[]))
        for more in (watching.run(request), watching.check(), survey):
            with pytest.raises((OnlyWatches, AgentError), match="only watches"):
                await more
        with pytest.raises(OnlyWatches):
            watching.shell_argv("uut")
        asked = watching.telemetry.nodes["uut"].history.total
        assert watching.lease_holders() == {}
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            "run",
            "--duration",
            "1.5",
            "--repetitions",
            "2",
            "--hosts",
            str(testbed.hosts_file),
            "--store",
            str(measured),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        ended = asyncio.ensure_future(process.wait())
        while not ended.done():
            holder = watching.lease_holders().get("uut")
            if holder is not None:
                seen.append(holder.describe())
            trial = watching.observed_trial()
            if trial is not None:
                phases.setdefault((trial.run_id, trial.repetition, trial.request.target), []).append(trial.phase)
                offered = [live.offered_packets or 0 for live in watching.telemetry.streams.values()]
                most = max(most, *offered)
            sampled = watching.telemetry.interfaces["uut", "", "eth1"].last
            assert sampled is not None
            if uut.quiet and not quiet:
                windows.append(set())
            if uut.quiet:
                windows[-1].add(sampled.monotonic_ns)
            quiet = uut.quiet
            await asyncio.sleep(0.05)
        assert ended.result() == 0
        assert not uut.quiet
        assert watching.lease_holders() == {}
        assert watching.observed_trial() is None
        assert watching.telemetry.nodes["uut"].history.total == asked, "nothing was asked of the unit under test"
    finally:
        await watching.close()
        runs.close()
    # Both repetitions were seen as the holder's agents told them, phase by phase, and so were their packets.
    assert [repetition for _, repetition, _ in phases] == [1, 2]
    assert all({Phase.SENDING, Phase.DRAINING} <= set(seen) for seen in phases.values()), phases
    assert most > 1000
    # Within a counted window not one sample of the UUT's interfaces came.
    assert re.search(r"@.* since .* UTC, until about .* UTC, for raw", seen[0]), seen
    assert [len(samples) for samples in windows] == [1, 1], windows


def test_a_read_only_console_sees_who_measures_and_does_not_disturb(testbed, tmp_path: Path):
    asyncio.run(watch(testbed, tmp_path / "w.sqlite", tmp_path / "m.sqlite"))
    for run in records(labconsole("runs", "--json", store=tmp_path / "m.sqlite")):
        assert run["verdict"]["status"] != "invalid"
