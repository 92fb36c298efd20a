"""``labconsole check`` on a real lab: healthy it passes; broken in one place, that place is named and all else still told."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from labconsole.api.testbed import open_session
from labconsole.engine.check import flows
from labconsole.engine.check.result import CheckResult, CheckStatus
from labconsole.errors import MeasurementError
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.model.inventory import Inventory, load_inventory
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import Plan
from labconsole.store.open import open_store
from labconsole.wire.counters import StartCounters
from labconsole.wire.facts import ReadFacts
from labconsole.wire.lease import WatchLease
from labconsole.wire.links import ReadLinks
from support.asking import asked
from support.live_lab import lab_state, labconsole, processes, wait_until

Results = dict[tuple[str, str | None], CheckResult]

PLAN = """\
plan: check
platforms: [raw, raw-bridge]
frame_sizes: [64, 1500]
targets: [10Mbit]
sources: [1, 2]
duration_s: 1.0
"""

CHATTER = """
import socket, time
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
link.bind(("eth1", 0))
while True:
    link.send(bytes(60))
    time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"check{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=2))
    lab.down(name)


@pytest.fixture(scope="module")
def inventory(testbed: lab.LabStatus) -> Inventory:
    return load_inventory(testbed.hosts_file)


def check(
    inventory: Inventory,
    store: Path,
    *,
    plan: Plan | None = None,
    fix: bool = False,
    on_result: Callable[[CheckResult], None] = lambda result: None,
) -> Results:
    """Check in this process; every result must come exactly once, both ways."""

    async def work() -> list[CheckResult]:
        told: list[CheckResult] = []

        def tell(result: CheckResult) -> None:
            told.append(result)
            on_result(result)

        with open_store(str(store)) as runs:
            session = open_session(inventory, runs)
            try:
                results = await session.check(plan=plan, fix=fix, on_result=tell)
            finally:
                await session.close()
            assert runs.list() == []
        assert sorted(map(key, told)) == sorted(map(key, results))
        return results

    results = asyncio.run(work())
    found = {(result.id, result.node): result for result in results}
    assert len(found) == len(results)
    return found


def key(result: CheckResult) -> tuple[str, str]:
    return result.id, result.node or ""


def failures(results: Results) -> set[tuple[str, str | None]]:
    """What failed. Each says what to do."""
    failed = {place for place, result in results.items() if result.status is CheckStatus.FAIL}
    assert all(results[place].hint for place in failed)
    return failed


def shell(testbed: lab.LabStatus, node: str, script: str) -> str:
    done = lab.execute(testbed.spec.name, node, ["sh", "-ec", script])
    assert done.status == 0, done.stderr
    return done.stdout


@contextmanager
def broken(testbed: lab.LabStatus, node: str, script: str, *, repair: str) -> Iterator[None]:
    shell(testbed, node, script)
    try:
        yield
    finally:
        shell(testbed, node, repair)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab forwards at once, or never."""
    monkeypatch.setattr(flows, "LEARN_S", 1.0)


@pytest.fixture(scope="module")
def healthy(testbed: lab.LabStatus, tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """What the command says of a lab in which nothing is broken, and that it leaves the lab as it was."""
    before = lab_state(testbed.spec.name)
    store = tmp_path_factory.mktemp("healthy") / "s.sqlite"
    done = labconsole("check", "--json", hosts=testbed.hosts_file, store=store)
    assert done.returncode == 0, done.stdout
    assert lab_state(testbed.spec.name) == before
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def all_told(healthy: list[dict]) -> Callable[[Results], bool]:
    """Whether a check said as much as on a healthy lab."""
    places = {(result["id"], result["node"]) for result in healthy[:-1]}
    return lambda results: set(results) == places


def test_a_healthy_lab_passes(healthy: list[dict]):
    *results, summary = healthy
    assert {r["id"] for r in results if r["status"] == "skipped"} == {"calibration", "clock.stated"}
    # A machine that has other work to do is told so, and may miss counter samples of the flow.
    assert {r["id"] for r in results if r["status"] == "warn"} <= {"cpu.load", "flow.raw"}
    assert all(r["evidence"] for r in results)
    assert (summary["fail"], summary["checks"]) == (0, len(results))


def test_people_see_it_node_by_node_in_words(testbed: lab.LabStatus, tmp_path: Path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    done = labconsole("check", "--plan", str(plan), hosts=testbed.hosts_file, store=tmp_path / "s.sqlite")
    assert done.returncode == 0, done.stdout
    headings = [line.partition(":")[0] for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    assert headings[:6] == ["src1", "src2", "uut", "snk1", "snk2", "testbed"]
    # A machine with other work to do may miss counter samples, or not reach a rate: those are warnings.
    for words in ("flow through raw-bridge", "capture at the highest rate"):
        assert re.search(rf"^  (✓ pass|! warn)    {words}", done.stdout, re.MULTILINE), done.stdout
    assert "- skipped within calibration" in done.stdout
    assert "8 trials of" in done.stdout


def test_a_link_that_is_down_is_named_and_can_be_set_up_for_the_session(testbed, inventory, all_told, tmp_path: Path):
    with broken(testbed, "src1", "ip link set eth1 down", repair="ip link set eth1 up"):
        results = check(inventory, tmp_path / "s.sqlite")
        assert all_told(results)
        found = failures(results)
        assert found == {("nic.up", "src1"), ("nic.up", "uut"), ("cable.in", "src1")}, "the far end is dark, too"
        assert results["nic.up", "src1"].fixable
        assert "ip link set eth1 up" in results["nic.up", "src1"].hint
        assert results["cable.in", "src2"].status is CheckStatus.PASS

        fixed = check(inventory, tmp_path / "s.sqlite", fix=True)
        assert failures(fixed) == set()
        assert fixed["nic.up", "src1"].fixed
        assert "until this session ends" in fixed["nic.up", "src1"].evidence
        assert "UP" not in shell(testbed, "src1", "ip -o link show eth1").partition(">")[0].split(","), "undone again"


def test_an_mtu_that_no_full_frame_passes_is_named(testbed, inventory, all_told, tmp_path: Path):
    with broken(testbed, "uut", "ip link set eth5 mtu 1000", repair="ip link set eth5 mtu 1500"):
        results = check(inventory, tmp_path / "s.sqlite")
    assert all_told(results)
    assert failures(results) == {("nic.mtu", "uut")}
    assert "eth5 1000 B" in results["nic.mtu", "uut"].evidence
    assert results["nic.mtu", "uut"].hint == "on uut: ip link set eth5 mtu 1500"


def test_swapped_cables_are_told_by_where_frames_arrive(inventory, all_told, impatient, tmp_path: Path):
    first, second = inventory.streams
    swapped = inventory.model_copy(
        update={
            "streams": (
                first.model_copy(update={"uut_in": second.uut_in, "sink": second.sink}),
                second.model_copy(update={"uut_in": first.uut_in, "sink": first.sink}),
            )
        }
    )
    results = check(swapped, tmp_path / "s.sqlite")
    assert all_told(results)
    cables = {("cable.in", "src1"), ("cable.in", "src2"), ("cable.out", "snk1"), ("cable.out", "snk2")}
    assert cables <= failures(results) <= cables | {("flow.raw", "uut")}
    inward, outward = results["cable.in", "src1"], results["cable.out", "snk2"]
    assert inward.evidence == "s1: frames sent from src1/eth1 arrived at uut/eth1, expected at uut/eth2"
    assert "uut_in: eth1" in inward.hint
    assert outward.evidence == "s1: frames sent from uut/eth5 arrived at snk1/eth1, expected at snk2/eth1"
    assert "sink: snk1/eth1" in outward.hint


def test_forwarding_that_somebody_switches_off_again_shows_in_the_flow(
    testbed, inventory, all_told, impatient, tmp_path: Path
):
    switch_off = "for i in 1 2 3 5 6; do echo 0 > /proc/sys/net/ipv4/conf/eth$i/forwarding; done 2>/dev/null"
    loop = f"setsid sh -c 'while :; do {switch_off}; sleep 0.01; done' >/dev/null 2>&1 & echo $! > /tmp/loop"
    with broken(testbed, "uut", loop, repair="kill $(cat /tmp/loop); rm /tmp/loop"):
        results = check(inventory, tmp_path / "s.sqlite")
    assert all_told(results)
    assert failures(results) == {("flow.raw", "uut")}
    assert "s1 did not come through" in results["flow.raw", "uut"].evidence
    assert results["cable.in", "src1"].status is CheckStatus.PASS


def test_a_rule_that_drops_is_named_and_so_is_the_loss_it_makes(testbed, inventory, all_told, tmp_path: Path):
    rules = "table ip check { chain c { type filter hook forward priority 0; ip saddr 198.18.1.1 numgen inc mod 4 0 drop; }; }"
    with broken(testbed, "uut", f"nft '{rules}'", repair="nft delete table ip check"):
        results = check(inventory, tmp_path / "s.sqlite")
    assert all_told(results)
    assert failures(results) == {("uut.firewall", "uut"), ("flow.raw", "uut")}
    assert "of ip check c has drop" in results["uut.firewall", "uut"].evidence
    flow = results["flow.raw", "uut"]
    assert "(25.00%)" in flow.evidence
    assert "s2 lost" not in flow.evidence
    assert "uut.firewall" in flow.hint


def test_a_dead_node_fails_its_session_skips_its_checks_and_stops_nobody_elses(
    testbed, inventory, all_told, tmp_path: Path
):
    nodes = dict(inventory.nodes)
    nodes["snk2"] = nodes["snk2"].model_copy(update={"port": 9})
    results = check(inventory.model_copy(update={"nodes": nodes}), tmp_path / "s.sqlite")
    assert all_told(results)
    assert failures(results) == {("ssh.login", "snk2")}
    theirs = [r for r in results.values() if r.node == "snk2" and r.id != "ssh.login"]
    assert theirs
    assert all(r.status is CheckStatus.SKIPPED and "snk2 is not connected" in r.evidence for r in theirs)
    flow = results["flow.raw", "uut"]
    assert flow.status is CheckStatus.WARN
    assert "left out: s2: snk2 is not connected" in flow.evidence


def test_no_node_at_all_is_an_unreachable_testbed(testbed: lab.LabStatus, tmp_path: Path):
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(testbed.hosts_file.read_text().replace("roles:", "port: 9, roles:"))
    done = labconsole("check", hosts=hosts, store=tmp_path / "s.sqlite")
    assert done.returncode == 3, done.stdout
    assert "✗ fail    SSH session and agent" in done.stdout


def test_a_host_key_that_nobody_knows_is_said_to_be_that(inventory, all_told, tmp_path: Path):
    empty = tmp_path / "known_hosts"
    empty.touch()
    defaults = inventory.defaults.model_copy(update={"known_hosts": str(empty)})
    results = check(inventory.model_copy(update={"defaults": defaults}), tmp_path / "s.sqlite")
    assert all_told(results)
    assert failures(results) == {(name, node) for name in ("ssh.login", "ssh.host_key") for node in inventory.nodes}
    assert "is not in any known_hosts file" in results["ssh.host_key", "uut"].evidence
    assert "fingerprint" in results["ssh.host_key", "uut"].hint


def test_a_full_disk_on_a_sink_is_named(testbed, inventory, all_told, tmp_path: Path):
    nodes = dict(inventory.nodes)
    nodes["snk1"] = nodes["snk1"].model_copy(update={"capture_dir": "/run/small"})
    make = "mkdir /run/small; mount -t tmpfs -o size=64k tmpfs /run/small"
    with broken(testbed, "snk1", make, repair="umount /run/small; rmdir /run/small"):
        results = check(inventory.model_copy(update={"nodes": nodes}), tmp_path / "s.sqlite")
    assert all_told(results)
    assert ("capacity.disk", "snk1") in failures(results) <= {("capacity.disk", "snk1"), ("flow.raw", "uut")}
    assert "/run/small" in results["capacity.disk", "snk1"].evidence
    assert "nodes.snk1.capture_dir" in results["capacity.disk", "snk1"].hint


def test_a_stray_capture_and_frames_of_nobodys_are_told(testbed, inventory, all_told, tmp_path: Path):
    def silence(result: CheckResult) -> None:
        """A trial waits until counters stand still: be done with it once it was seen."""
        if (result.id, result.node) == ("quiet.ports", "uut"):
            shell(testbed, "src2", "kill $(cat /tmp/chatter)")

    stray = "setsid tcpdump -i eth1 -w /dev/null >/dev/null 2>&1 &"
    chatter = f"setsid python3 -c '{CHATTER}' >/dev/null 2>&1 & echo $! > /tmp/chatter"
    with (
        broken(testbed, "snk1", stray, repair="pkill tcpdump"),
        broken(testbed, "src2", chatter, repair="rm -f /tmp/chatter"),
    ):
        wait_until(
            lambda: "tcpdump" in processes(testbed.spec.name, "snk1"), timeout_s=5, what="tcpdump is not installed"
        )
        results = check(inventory, tmp_path / "s.sqlite", on_result=silence)
    assert all_told(results)
    found = failures(results)
    assert {("quiet.programs", "snk1"), ("quiet.ports", "src2"), ("quiet.ports", "uut")} <= found
    assert "tcpdump -i eth1 -w /dev/null" in results["quiet.programs", "snk1"].evidence
    assert "kill " in results["quiet.programs", "snk1"].hint
    assert "tcpdump -ni eth1 on src2" in results["quiet.ports", "src2"].hint


def test_while_somebody_else_holds_a_node_nothing_is_checked_and_who_it_is_is_told(testbed, inventory, tmp_path: Path):
    async def work() -> dict[str, list[str]]:
        with open_store(str(tmp_path / "s.sqlite")) as runs:
            other, session = open_session(inventory, runs), open_session(inventory, runs)
            try:
                await other.connect()
                await asked(other.links["uut"], "lease.take", {"owner": "ann@desk", "purpose": "her thesis"})
                with pytest.raises(MeasurementError, match=r"uut is leased by ann@desk since .* UTC for her thesis"):
                    await session.check(fix=True)
                return {name: [c.op for c in live.history.commands] for name, live in session.telemetry.nodes.items()}
            finally:
                await session.close()
                await other.close()

    watching = {ReadLinks.op, ReadFacts.op, WatchLease.op, StartCounters.op}
    for ops in asyncio.run(work()).values():
        assert set(ops) == {"connect", *watching}, ops


def test_what_earlier_runs_left_is_named_and_removed_for_good(testbed, inventory, all_told, tmp_path: Path):
    with broken(testbed, "uut", "ip link add lcb7 type bridge", repair="ip link del lcb7 2>/dev/null || true"):
        results = check(inventory, tmp_path / "s.sqlite", fix=True)
        assert all_told(results)
        assert failures(results) == set()
        left = results["quiet.leftovers", "uut"]
        assert left.fixed
        assert left.evidence == "for good: removed the interface lcb7"
        assert "lcb7" not in shell(testbed, "uut", "ip -o link")


def test_a_plan_that_cannot_be_carried_out_here_is_told_point_by_point(inventory, tmp_path: Path):
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN.replace("[10Mbit]", "[2Gbit]").replace("[1, 2]", "[1, 9]"))
    results = check(inventory, tmp_path / "s.sqlite", plan=load_plan(path))
    assert failures(results) == {("plan.points", None)}
    evidence = results["plan.points", None].evidence
    assert evidence.startswith("8 of 8 points: ")
    assert "above the line rate" in evidence
    assert results["flow.raw", "uut"].status is not CheckStatus.FAIL
    assert results["plan.time", None].status is CheckStatus.PASS
