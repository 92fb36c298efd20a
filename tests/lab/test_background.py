"""Load beside the guest under test, on a lab's UUT with the real stress: it is proven, told when it fails, and ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from labconsole.engine.trial.setup import TrialRequest
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.measure.recompute.derived import recompute
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.record.run import RunRecord
from support.live_lab import COMMAND, labconsole, node_state, processes, records, wait_until
from support.live_session import connected, take_while
from support.requirements import require

pytestmark = pytest.mark.alone

LINK_BPS = 10_000_000
"""So slow that a maximum is the link's, and half of it can be sent however busy the machine is."""

REQUEST = DesignPoint(
    platform="container", frame=FrameSize(64), sources=1, target=2_000_000, duration_s=1.0, generator="afpacket"
)
MAXIMUM = replace(REQUEST, background="idle", target="max")


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    require("stress", "taskset")
    yield lab.up(LabSpec(name=f"beside{os.getpid()}", sources=2, link_speed_bps=LINK_BPS))
    lab.down(f"beside{os.getpid()}")


@pytest.fixture(scope="module")
def hosts(testbed: lab.LabStatus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lab, with a pinned container and no UUT at all."""
    text = Path(testbed.hosts_file).read_text()
    more = "  pinned: {driver: container, second_cpu: 0}\n  wires: {driver: bypass}\ndefaults:"
    path = tmp_path_factory.mktemp("beside") / "hosts.yaml"
    path.write_text(text.replace("defaults:", more).replace("drain_s: 1", "drain_s: 0.2"))
    return path


@pytest.fixture(scope="module")
def taken(testbed: lab.LabStatus, hosts: Path) -> dict[str, RunRecord]:
    """One run of each, in one batch each; first the refusal of what is a share of nothing yet."""
    requests = {
        "idle": replace(REQUEST, background="idle"),
        "light": replace(REQUEST, background="light"),
        "heavy": replace(REQUEST, background="heavy"),
        "maximum": MAXIMUM,
        "forwarding-50": replace(REQUEST, background="forwarding-50"),
        "pinned": replace(REQUEST, background="light", platform="pinned"),
        "raw": replace(REQUEST, background="heavy", platform="raw"),
    }
    store = hosts.parent / "taken.sqlite"

    async def take_all() -> dict[str, RunRecord]:
        found: dict[str, RunRecord] = {}
        async with connected(hosts, store) as session:
            for name, request in requests.items():
                found[name] = (await session.run(request))[0]
        return found

    return asyncio.run(take_all())


def codes(record: RunRecord) -> set[str]:
    return {reason.code for reason in record.verdict.reasons}


def has_stress(testbed: lab.LabStatus) -> bool:
    return "stress --cpu" in processes(testbed.spec.name, "uut")


@pytest.mark.parametrize(("name", "workers"), [("light", 1), ("heavy", 12), ("pinned", 1), ("raw", 12)])
def test_a_load_is_proven_by_what_its_processes_wanted_and_got(
    taken: dict[str, RunRecord], name: str, workers: int
) -> None:
    load = taken[name].background
    assert load is not None
    assert load.requested == {"workers": workers, "demand_ratio": 1.0}
    assert load.achieved["workers"] == workers
    assert load.achieved["demand_ratio"] == pytest.approx(1.0, abs=0.05)
    assert "background_missed" not in codes(taken[name])
    for key in ("guest_cpu_s", "host_cpu_s", "window_s"):
        assert (load.achieved[key] or 0) > 0, f"{key}: {load.achieved}"
    assert (load.guest, load.cpus) == ("host" if name == "raw" else "second", "0" if name == "pinned" else None)
    if workers > 1:
        assert (load.achieved["memory_touched_bytes"] or 0) > 0


def test_an_idle_guest_is_there_and_does_nothing(taken: dict[str, RunRecord]) -> None:
    load = taken["idle"].background
    assert load is not None
    assert (load.kind, load.guest, load.requested, load.streams) == ("idle", "second", {}, ())
    assert (load.achieved["host_cpu_s"] or 0) < 0.1
    attested = taken["idle"].environment["platform"]
    assert attested["guests"] == ["guest", "second"]
    assert attested["interfaces"]["second/eth0"] == {"forwarding": "1"}, "NICs of its own, as for one that forwards"


def test_a_second_guest_that_forwards_is_measured_as_any_other_and_enters_no_total(
    taken: dict[str, RunRecord],
) -> None:
    record, maximum = taken["forwarding-50"], taken["maximum"]
    load = record.background
    assert load is not None
    assert load.reference is not None
    assert load.reference["run_id"] == maximum.run_id
    assert load.reference["measured_pps"] == maximum.total.forwarding_pps  # a queue must not flatter what half is of
    (own,) = load.streams
    assert own.name == "s2"
    assert own.intended_pps == pytest.approx((maximum.total.forwarding_pps or 0) / 2, rel=0.01)
    assert load.achieved["offered_pps"] == own.offered_pps
    assert (own.measured_packets, own.loss_packets) == (own.offered_packets, 0)
    assert "second/eth0" in [hop.interface for hop in own.ledger]
    assert [stream.name for stream in record.streams] == ["s1"]
    assert record.total.offered_packets == record.streams[0].offered_packets
    assert recompute(record) == []
    assert "background_missed" not in codes(record)


def test_a_second_guest_is_set_up_once_for_all_loads_and_gone_for_a_run_without_one(
    testbed: lab.LabStatus, hosts: Path, tmp_path: Path
) -> None:
    short = replace(REQUEST, duration_s=0.3)

    async def take_all() -> list[RunRecord]:
        async with connected(hosts, tmp_path / "s.sqlite") as session, session.batch(short) as take:
            return [
                await take(TrialRequest(request=replace(short, background=kind)))
                for kind in ("none", "idle", "light", "none")
            ]

    records = asyncio.run(take_all())
    learned = [record.environment["learning"]["duration_s"] for record in records]
    assert learned[1] == learned[2], "the platform that stood already"
    assert len(set(learned)) == 3
    guests = [record.environment["platform"]["guests"] for record in records]
    assert guests == [["guest"], ["guest", "second"], ["guest", "second"], ["guest"]]
    assert records[0].background is None


def test_nothing_of_a_load_is_left(testbed: lab.LabStatus, taken: dict[str, RunRecord]) -> None:
    assert taken
    assert not has_stress(testbed)
    assert "lcb" not in node_state(testbed.spec.name, "uut"), "bridges of either guest"


@pytest.mark.parametrize(
    ("doing", "workers", "ratio"), [("pkill -9 -x stress", 0, 0.0), ("pkill -STOP -x stress", 1, 0.9)]
)
def test_a_load_that_does_not_run_to_the_end_voids_the_run(
    testbed: lab.LabStatus, hosts: Path, tmp_path: Path, doing: str, workers: int, ratio: float
) -> None:
    request = replace(REQUEST, background="light")

    async def take() -> RunRecord:
        async with connected(hosts, tmp_path / "s.sqlite") as session, session.batch(request) as take:
            return await take_while(
                session, take, request, lambda: lab.execute(testbed.spec.name, "uut", ["sh", "-c", doing])
            )

    record = asyncio.run(take())
    assert record.verdict.status == "invalid"
    assert "background_missed" in codes(record)
    assert record.background is not None
    assert record.background.achieved["workers"] == workers
    assert (record.background.achieved["demand_ratio"] or 0.0) <= ratio
    assert not has_stress(testbed)


def test_a_load_ends_with_an_abort(testbed: lab.LabStatus, hosts: Path, tmp_path: Path) -> None:
    request = replace(REQUEST, background="heavy", duration_s=30.0)

    async def take() -> RunRecord:
        async with connected(hosts, tmp_path / "s.sqlite") as session:
            loop = asyncio.get_running_loop()

            def abort() -> None:
                asyncio.run_coroutine_threadsafe(session.abort(), loop).result(10)

            async with session.batch(request) as take:
                record = await take_while(session, take, request, abort)
                assert not has_stress(testbed), "before the platform is undone"
            return record

    record = asyncio.run(take())
    assert "aborted" in codes(record)


def test_a_load_ends_when_its_console_is_killed(testbed: lab.LabStatus, hosts: Path, tmp_path: Path) -> None:
    before = node_state(testbed.spec.name, "uut")
    words = ["run", "--platform", "container", "--background", "heavy", "--target", "1Mbit", "--duration", "60"]
    argv = [*COMMAND, *words, "--hosts", str(hosts), "--store", str(tmp_path / "s.sqlite")]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as console:
        wait_until(lambda: has_stress(testbed), timeout_s=30, what="the load does not start")
        console.send_signal(signal.SIGKILL)
    wait_until(lambda: not has_stress(testbed), timeout_s=10, what="the load outlives its console")
    wait_until(
        lambda: node_state(testbed.spec.name, "uut") == before, timeout_s=10, what="something is left on the UUT"
    )


def test_what_cannot_be_had_is_refused_where_it_is_asked_for(
    testbed: lab.LabStatus, hosts: Path, tmp_path: Path
) -> None:
    before, store = node_state(testbed.spec.name, "uut"), tmp_path / "s.sqlite"
    done = labconsole("run", "--platform", "container", "--background", "forwarding-50", hosts=hosts, store=store)
    assert done.returncode == 2
    assert (
        "labconsole run --platform container --background idle --frame-size 64 --sources 1 --target max" in done.stderr
    )
    done = labconsole("run", "--platform", "wires", "--background", "light", hosts=hosts, store=store)
    assert done.returncode == 2
    assert "background: is not available on platform wires: there is no unit under test" in done.stderr
    assert "allowed: none" in done.stderr
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "plan: p\nplatforms: [wires]\nframe_sizes: [64]\ntargets: [1Mbit]\nduration_s: 1\nrepetitions: 1\n"
        "backgrounds:\n  - none\n  - heavy\n"
    )
    done = labconsole("replay", str(plan), hosts=hosts, store=store)
    assert done.returncode == 2
    needed = "is for another testbed: it needs a platform wires that can have the load heavy"
    assert f"{plan}:9: backgrounds[1]: {needed}" in done.stderr
    assert node_state(testbed.spec.name, "uut") == before


def test_the_command_says_what_was_asked_and_reached(hosts: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    words = ["--platform", "raw", "--background", "light", "--target", "2Mbit", "--duration", "1"]
    (record,) = records(labconsole("run", *words, "--json", hosts=hosts, store=store))
    assert record["background"]["achieved"]["workers"] == 1
    shown = labconsole("runs", "show", record["run_id"], store=store).stdout
    assert "background light in host, not pinned" in shown
    assert "demand_ratio: requested 1, achieved" in shown
    assert json.dumps(record)
