"""Asked for on the command line, the kernel's word for a loss is in the run, with what it means; and nothing stays."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.bpf_programs import programs
from support.live_lab import COMMAND, lab_state, labconsole, records, wait_until
from support.requirements import missing, require

pytestmark = pytest.mark.usefixtures("kernel_programs")

EVERY_SEVENTH = "udp dport 9 numgen inc mod 7 0 counter drop"
RULES = f"table ip losing {{ chain through {{ type filter hook forward priority 0; {EVERY_SEVENTH}; }}; }}"
RUN = ("run", "--platform", "raw", "--frame-size", "200", "--target", "5Mbit")
PLAN = """\
plan: losing
platforms: [raw]
frame_sizes: [200]
targets: [5Mbit]
sources: [1]
duration_s: 0.5
repetitions: 1
settle_s: 0
drain_s: 0.2
"""


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    if os.geteuid() != 0:
        missing("programs in the kernel are for root")
    require("nft")
    name = f"losing{os.getpid()}"
    try:
        yield lab.up(LabSpec(name=name, sources=1))
    finally:
        lab.down(name)


@pytest.fixture
def losing(testbed: lab.LabStatus) -> Iterator[None]:
    name = testbed.spec.name
    assert lab.execute(name, "uut", ["nft", RULES]).status == 0
    yield
    lab.execute(name, "uut", ["nft", "delete", "table", "ip", "losing"])


def test_a_loss_is_explained_where_it_is_asked_for_and_only_there(testbed, losing, tmp_path: Path):
    store = tmp_path / "s.sqlite"
    plain = labconsole(*RUN, "--duration", "0.5", hosts=testbed.hosts_file, store=store)
    assert re.search(r"the UUT (199|200) \(", plain.stdout) and "kernel" not in plain.stdout
    asked = labconsole(*RUN, "--duration", "0.5", "--drop-reasons", "on", hosts=testbed.hosts_file, store=store)
    meant = r"a firewall rule dropped it \(nft list ruleset, iptables-save -c\)"
    assert re.search(
        rf"^  kernel   uut/eth\d eth1\.kernel\.NETFILTER_DROP@nft_do_chain (199|200): {meant}$", asked.stdout, re.M
    )
    (plan := tmp_path / "losing.yaml").write_text(PLAN)
    done = labconsole("replay", str(plan), "--drop-reasons", "auto", hosts=testbed.hosts_file, store=store)
    assert done.returncode == 0, done.stderr
    last, on, off = records(labconsole("runs", "--json", store=store))
    assert "kernel_drops" not in off["extensions"]
    assert [run["extensions"]["kernel_drops"]["asked"] for run in (last, on)] == ["auto", "on"]
    for run in (last, on):
        (stream,) = run["streams"]
        (hop,) = (hop for hop in stream["ledger"] if hop["hop"] == "uut_out")
        told = {name: packets for name, packets in hop["drops"].items() if "kernel." in name}
        assert sum(told.values()) == hop["lost_packets"] > 0
    # Whether it was asked for is no other testbed: its runs are the same point of the same plan.
    again = labconsole("replay", str(plan), "--dry-run", hosts=testbed.hosts_file, store=store)
    assert "0 of 1 trial to measure" in again.stdout


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_ends_early_leaves_no_program_in_the_kernel(testbed, tmp_path: Path, how: signal.Signals):
    before, state = programs(), lab_state(testbed.spec.name)
    argv = [*COMMAND, *RUN, "--duration", "60", "--drop-reasons", "on", "--hosts", str(testbed.hosts_file)]
    running = subprocess.Popen([*argv, "--store", str(tmp_path / "s.sqlite")], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: programs() == before + 1, timeout_s=30, what="the program in the kernel")
        running.send_signal(how)
        running.wait(timeout=30)
    finally:
        running.kill()
    wait_until(lambda: programs() == before, timeout_s=15, what="the end of the program in the kernel")
    wait_until(lambda: lab_state(testbed.spec.name) == state, timeout_s=15, what="the state before")


def test_a_word_that_is_not_allowed_is_refused(testbed, tmp_path: Path):
    done = labconsole(*RUN, "--drop-reasons", "maybe", hosts=testbed.hosts_file, store=tmp_path / "s.sqlite")
    assert done.returncode == 2
    assert "--drop-reasons: invalid choice: 'maybe'" in done.stderr


OF_A_CONTAINER = """own=$(readlink /proc/1/ns/net)
for p in /proc/[0-9]*; do n=$(readlink $p/ns/net) && [ "$n" != "$own" ] && echo ${p#/proc/}; done; true"""


@pytest.mark.platforms
def test_what_is_lost_inside_a_container_of_lxc_is_named_with_the_container(lab_home: Path, tmp_path: Path):
    if os.geteuid() != 0:
        missing("programs in the kernel are for root")
    require("nft", "nsenter", "lxc-start")
    name = f"inside{os.getpid()}"
    before = programs()
    status = lab.up(LabSpec(name=name, sources=1, platforms=("lxc",)))

    try:
        argv = [*COMMAND, "run", "--platform", "lxc", "--frame-size", "200", "--target", "5Mbit", "--duration", "3"]
        argv += [
            "--drop-reasons",
            "on",
            "--json",
            "--hosts",
            str(status.hosts_file),
            "--store",
            str(tmp_path / "s.sqlite"),
        ]
        running = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        try:
            wait_until(lambda: programs() == before + 1, timeout_s=30, what="the program in the kernel")
            pid = lab.execute(name, "uut", ["sh", "-c", OF_A_CONTAINER]).stdout.split()[0]
            inside = ["nsenter", "-n", "-t", pid, "nft", RULES]
            assert lab.execute(name, "uut", inside).status == 0
            told, _ = running.communicate(timeout=60)
        finally:
            running.kill()
        (record,) = (json.loads(line) for line in told.splitlines() if '"ledger"' in line)
        (hop,) = (hop for hop in record["streams"][0]["ledger"] if hop["lost_packets"])
        ((label, packets),) = hop["drops"].items()
        assert hop["hop"] == "from_guest" and packets == hop["lost_packets"] > 0
        assert re.fullmatch(rf"{name}-first/\S+\.kernel\.NETFILTER_DROP@nft_do_chain", label)
        assert record["extensions"]["kernel_drops"]["elsewhere"] == []
    finally:
        lab.down(name)
