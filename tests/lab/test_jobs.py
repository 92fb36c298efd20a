"""Jobs timed by a clock outside, through the command, on a real lab: what takes a known time is found to take it."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.live_lab import COMMAND, labconsole, wait_until


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lab of one source, whose UUT has no guests."""
    home = tmp_path_factory.mktemp("jobs")
    name = f"jobs{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home))
        status = lab.up(LabSpec(name=name, sources=1, platforms=("raw",)))
        yield status.hosts_file
        lab.down(name)


def stored(store: Path) -> list[dict[str, Any]]:
    """Every attempt, the first one first: one that comes out invalid is taken again."""
    done = labconsole("experiment", "job", "--list", "--json", store=store)
    return [json.loads(line)["job"] for line in reversed(done.stdout.splitlines())]


def lab_of(hosts: Path) -> str:
    return hosts.parent.name


def taken(hosts: Path, store: Path, *words: str, status: int = 0) -> list[dict[str, Any]]:
    done = labconsole("experiment", "job", "--platforms", "raw", "--json", *words, hosts=hosts, store=store)
    assert done.returncode == status, done.stderr
    return [json.loads(line)["job"] for line in done.stdout.splitlines()]


def addresses(hosts: Path, node: str) -> str:
    return lab.execute(lab_of(hosts), node, ["ip", "-4", "-o", "address"]).stdout


def processes(name: str, node: str = "uut") -> str:
    return lab.execute(name, node, ["ps", "-eo", "args="]).stdout


def nothing_left(hosts: Path) -> None:
    """No address of the guests' network, on neither side."""
    for node in ("uut", "snk1"):
        assert "198.18.64." not in addresses(hosts, node)
        assert "/18 " not in addresses(hosts, node)


@pytest.mark.alone
def test_a_job_that_waits_takes_as_long_as_it_waits(hosts: Path, tmp_path: Path):
    store = tmp_path / "jobs.sqlite"
    (record,) = taken(hosts, store, "--jobs", "wait", "--size", "2")
    (copy,) = record["copies"]
    assert record["status"] == "done"
    assert abs(copy["seconds"] - 2.0) <= max(0.02, 10 * record["empty"]["sd_s"])
    assert abs(copy["clock_ratio"] - 1) < 0.02
    assert copy["outside_s"] < copy["host_s"]
    assert len(record["empty"]["each_s"]) == 10
    assert record["program"]["sha256"][0]
    assert record["environment"]["nodes"]["uut"]["settings"]["eth5 mtu"] == 1500
    nothing_left(hosts)
    shown = labconsole("experiment", "job", "--show", record["job_id"], "--json", store=store)
    assert json.loads(shown.stdout)["job"] == record


@pytest.mark.alone
def test_all_guests_begin_together_and_share_one_cpu(hosts: Path, tmp_path: Path):
    words = ("--jobs", "cpu-sqrt2", "--size", "1500", "--guests", "3", "--working", "one,all", "--cpu", "same")
    records = taken(hosts, tmp_path / "jobs.sqlite", *words)
    by_working = {record["requested"]["working"]: record for record in records}
    alone = by_working["one"]["copies"][0]["seconds"]
    together = [copy["seconds"] for copy in by_working["all"]["copies"]]
    assert len(together) == 3
    assert all(2.5 * alone < seconds < 3.6 * alone for seconds in together)
    assert by_working["all"]["start_skew_s"] < 0.05
    (driving,) = (each for each in by_working["all"]["influences"] if each["kind"] == "driving")
    assert driving["guests"] == 3
    assert driving["waited_s"] > alone


@pytest.mark.alone
def test_copies_on_the_bare_host_share_a_processor_as_processes_and_not_as_sessions(hosts: Path, tmp_path: Path):
    """One has as much of it as each of the two beside it (Quétier et al., 3.1.3); by sessions it would have twice that."""
    words = ("--jobs", "cpu-sqrt2", "--size", "2500", "--guests", "2", "--working", "one-two", "--cpu", "same")
    ratios = []
    for record in taken(hosts, tmp_path / "jobs.sqlite", *words, "--repetitions", "3"):
        first_s, *second_s = (copy["seconds"] for copy in record["copies"])
        ratios.append(sum(second_s) / 2 / first_s)
    assert statistics.median(ratios) == pytest.approx(1.0, abs=0.15)


@pytest.mark.alone
def test_what_is_sent_takes_as_long_as_the_link_needs(hosts: Path, tmp_path: Path):
    """The link is of 1 Gbit/s."""
    (record,) = taken(hosts, tmp_path / "jobs.sqlite", "--jobs", "tcp", "--size", "128")
    (copy,) = record["copies"]
    at_line_rate_s = 128 * 2**20 * 8 / 1e9
    assert at_line_rate_s * 0.98 < copy["seconds"] < at_line_rate_s * 1.5
    assert "iperf" not in processes(lab_of(hosts), "snk1")
    nothing_left(hosts)


def test_a_connection_that_is_refused_is_a_job_that_failed_in_its_own_words(hosts: Path, tmp_path: Path):
    table = (
        "table ip refusing { chain in { type filter hook input priority 0; tcp dport 5001 reject with tcp reset; }; }"
    )
    assert lab.execute(lab_of(hosts), "snk1", ["nft", table]).status == 0
    try:
        (record,) = taken(hosts, tmp_path / "jobs.sqlite", "--jobs", "tcp", "--size", "1", status=1)
    finally:
        lab.execute(lab_of(hosts), "snk1", ["nft", "delete", "table", "ip", "refusing"])
    assert [each["code"] for each in record["verdict"]["reasons"]][0] == "job_failed"
    assert "Connection refused" in record["failure"]
    assert "iperf" not in processes(lab_of(hosts), "snk1")


PLAN = """\
plan: failing
platforms: [raw]
settle_s: 0
order: as-listed
job:
  jobs: [{job: memory-set, size: 65536}, {job: wait, size: 1}]
"""


def test_a_job_that_fails_is_invalid_in_its_own_words_and_the_plan_goes_on(hosts: Path, tmp_path: Path):
    """More memory than the machine has: the program says so, or is not there at all."""
    (tmp_path / "plan.yaml").write_text(PLAN)
    store = tmp_path / "jobs.sqlite"
    done = labconsole("replay", str(tmp_path / "plan.yaml"), "--json", hosts=hosts, store=store)
    assert done.returncode == 1, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    failed, waited = [each["job"] for each in told if each["event"] == "job_finished"]
    assert failed["verdict"]["reasons"][0]["code"] == "job_failed"
    assert failed["plan"]["attempt"] == 1  # it would fail again
    assert waited["status"] == "done"
    nothing_left(hosts)
    again = labconsole("replay", str(tmp_path / "plan.yaml"), "--dry-run", "--json", hosts=hosts, store=store)
    left = json.loads(again.stdout.splitlines()[-1])
    assert (left["stored"], left["remaining"]) == (1, 1)


def test_a_plan_of_jobs_stops_when_its_conditions_say_so(hosts: Path, tmp_path: Path):
    (tmp_path / "plan.yaml").write_text(PLAN + "stop: {invalid_in_a_row: 1}\n")
    done = labconsole("replay", str(tmp_path / "plan.yaml"), "--json", hosts=hosts, store=tmp_path / "jobs.sqlite")
    assert done.returncode == 1, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["event"] for each in told].count("job_finished") == 1
    assert told[-1]["ended_by"] == "1 trial in a row was invalid"


def test_a_job_that_does_not_end_is_ended_and_called_so(hosts: Path, tmp_path: Path):
    words = ("--jobs", "wait", "--size", "300", "--limit", "1")
    (record,) = taken(hosts, tmp_path / "jobs.sqlite", *words, status=1)
    codes = [reason["code"] for reason in record["verdict"]["reasons"]]
    assert codes[0] == "job_failed"
    assert "had not ended after 1 s" in record["failure"]
    assert "sleep 300" not in processes(lab_of(hosts))
    nothing_left(hosts)


@pytest.mark.parametrize(("passing_packets", "lost"), [(22, "start"), (23, "end")])
def test_a_lost_mark_is_invalid(hosts: Path, tmp_path: Path, passing_packets: int, lost: str):
    """The UUT drops every ping after those of the eleven empty jobs, or after one more."""
    rule = f"icmp type echo-request limit rate over 1/day burst {passing_packets} packets drop"
    table = f"table ip marks {{ chain out {{ type filter hook output priority 0; {rule}; }}; }}"
    assert lab.execute(lab_of(hosts), "uut", ["nft", table]).status == 0
    try:
        taken(hosts, tmp_path / "jobs.sqlite", "--jobs", "wait", "--size", "1", status=1)
    finally:
        lab.execute(lab_of(hosts), "uut", ["nft", "delete", "table", "ip", "marks"])
    record, unmeasured = stored(tmp_path / "jobs.sqlite")  # the next attempts find no marks at all
    assert [each["code"] for each in unmeasured["verdict"]["reasons"]] == ["not_measured"]
    (found,) = [each for each in record["verdict"]["reasons"] if each["code"] == "mark_lost"]
    assert lost in found["evidence"]["marks"]
    assert record["status"] == "failed"
    assert record["copies"][0]["seconds"] is None


def test_an_answer_that_does_not_reach_the_guest_voids_the_trial(hosts: Path, tmp_path: Path):
    """The guest waits for it a second, which would count as the job's: the timekeeper has seen it leave."""
    rule = "icmp type echo-reply limit rate over 1/day burst 22 packets drop"
    table = f"table ip marks {{ chain in {{ type filter hook input priority 0; {rule}; }}; }}"
    assert lab.execute(lab_of(hosts), "uut", ["nft", table]).status == 0
    try:
        taken(hosts, tmp_path / "jobs.sqlite", "--jobs", "wait", "--size", "1", status=1)
    finally:
        lab.execute(lab_of(hosts), "uut", ["nft", "delete", "table", "ip", "marks"])
    record, _ = stored(tmp_path / "jobs.sqlite")
    assert record["copies"][0]["start_reply_ns"] is not None
    assert record["status"] == "failed"
    assert record["verdict"]["reasons"][0]["code"] == "mark_lost"


@pytest.mark.alone
@pytest.mark.parametrize("forged", ["flood", "double"])
def test_strange_pings_are_told_from_marks_and_void_the_trial(hosts: Path, tmp_path: Path, forged: str):
    name = lab_of(hosts)
    command = [*COMMAND, "experiment", "job", "--hosts", str(hosts), "--store", f"sqlite:///{tmp_path / 'jobs.sqlite'}"]
    command += ["--platforms", "raw", "--jobs", "wait", "--size", "3", "--json"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: "sleep 3" in processes(name), timeout_s=30, what="the job")
        shell = lab.execute(name, "uut", ["sh", "-c", "ps -eo args= | grep '[b]usybox ping' | head -1"])
        address = next(word for word in addresses(hosts, "snk1").split() if word.endswith("/18")).partition("/")[0]
        count = "200" if forged == "flood" else "1"
        lab.execute(name, "uut", ["busybox", "ping", "-q", "-c", count, "-i", "0.001", "-s", "64", "-p", "00", address])
        assert shell.status == 0
        out, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 0, err
    record, again = stored(tmp_path / "jobs.sqlite")
    assert json.loads(out)["job"] == again
    assert again["status"] == "done"
    assert "mark_forged" in [reason["code"] for reason in record["verdict"]["reasons"]]
    assert record["timekeeper"]["strange_packets"] == int(count)
    assert abs(record["copies"][0]["seconds"] - 3) < 0.1  # and the time is still the guest's own


def test_a_console_that_is_killed_leaves_no_guest_no_job_and_no_address(hosts: Path, tmp_path: Path):
    command = [*COMMAND, "experiment", "job", "--hosts", str(hosts), "--store", f"sqlite:///{tmp_path / 'jobs.sqlite'}"]
    command += ["--platforms", "raw", "--jobs", "wait", "--size", "123", "--guests", "20", "--working", "all"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    name = lab_of(hosts)

    def working() -> int:
        return processes(name).splitlines().count("sleep 123")

    wait_until(lambda: working() == 20, timeout_s=30, what="twenty jobs")
    running.send_signal(signal.SIGKILL)
    running.wait()
    wait_until(lambda: not working(), timeout_s=10, what="the end of the jobs")
    wait_until(lambda: "/18 " not in addresses(hosts, "uut") + addresses(hosts, "snk1"), timeout_s=10, what="addresses")
