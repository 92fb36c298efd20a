"""Work on a disk beside a guest that sends, through the command, on a real lab: its marks, a stall that is made, and
what is told of work that fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.experiments.flow.record import BackgroundDiskRecord, FlowRecord
from labconsole.experiments.flow.verify import recompute_flow
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.model.inventory import load_inventory
from support.live_lab import COMMAND, labconsole, wait_until
from support.requirements import require

TIMES = ("--disk-from", "3", "--disk-to", "6", "--duration", "12", "--bin", "0.5")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    require("iperf", "busybox", "fio")
    name = f"beside{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("beside")))
        platforms = ("container", "lxc", "uml")
        spec = LabSpec(name=name, sources=1, link_speed_bps=20_000_000, platforms=platforms, jobs=True)
        try:
            yield lab.up(spec).hosts_file
        finally:
            lab.down(name)


def asked(platform: str, job: str) -> tuple[str, ...]:
    return ("experiment", "flow", "--platforms", platform, "--guests", "2", "--disk", job, *TIMES, "--json")


def read(text: str) -> tuple[FlowRecord, BackgroundDiskRecord]:
    record = FlowRecord.model_validate(json.loads(text.splitlines()[-1])["flow"])
    assert recompute_flow(record) == []
    assert record.disk is not None
    return record, record.disk


@pytest.mark.alone
@pytest.mark.parametrize(
    ("platform", "job"),
    [
        ("container", "disk-zero"),
        pytest.param("lxc", "disk-mixed", marks=pytest.mark.platforms),
        ("uml", "disk-mixed"),
    ],
)
def test_work_on_a_disk_is_marked_and_the_others_are_counted_beside_it(
    hosts: Path, tmp_path: Path, platform: str, job: str
):
    memory = ("--memory-mib", "256") if platform == "uml" else ()  # fio does not start with less
    done = labconsole(*asked(platform, job), *memory, hosts=hosts, store=tmp_path / "s.sqlite")
    assert done.returncode == 0, done.stderr
    record, disk = read(done.stdout)
    assert record.verdict.status != "invalid", record.verdict
    assert [sender.guest for sender in record.senders] == ["g1"]
    assert disk.guest == "g2" and disk.exit_status == 0
    assert record.origin_ns is not None and disk.start_ns is not None and disk.end_ns is not None
    # Not before it is asked, and on a crowded machine fio takes seconds to start and to end.
    assert 2.9 <= (disk.start_ns - record.origin_ns) / 1e9 <= 6
    assert (disk.end_ns - record.origin_ns) / 1e9 == pytest.approx(6, abs=4), (
        "fio takes seconds to start and to end on a crowded machine"
    )
    assert disk.during_ratio is not None and disk.during_ratio > 0.2
    assert record.sink is not None and record.sink.foreign_packets == record.sink.other_packets == 0
    assert "lcg" not in lab.execute(hosts.parent.name, "uut", ["ip", "-o", "link"]).stdout


@pytest.mark.alone
def test_a_stall_that_is_made_while_the_disk_is_at_work_is_found(hosts: Path, tmp_path: Path):
    """A rule drops nine of ten of the sender's packets from the worker's first mark to one second after its end."""
    store, port = tmp_path / "s.sqlite", load_inventory(hosts).streams[0].uut_out
    process = subprocess.Popen(
        [*COMMAND, *asked("container", "disk-mixed"), "--hosts", str(hosts), "--store", str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    marks = (
        f"table netdev stall {{ counter begun {{ }}; counter over {{ }}; chain out {{ type filter hook egress device {port} "
        "priority 0; udp sport 20062 counter name begun; udp sport 20063 counter name over; }; }"
    )
    drop = f"table netdev stalled {{ chain out {{ type filter hook egress device {port} priority 0; "
    drop += "udp sport 20000 numgen inc mod 10 < 9 drop; }; }"

    def counted(name: str) -> bool:
        told = lab.execute(hosts.parent.name, "uut", ["nft", "list", "counter", "netdev", "stall", name]).stdout
        return "packets 0 " not in told

    try:
        assert lab.execute(hosts.parent.name, "uut", ["nft", marks]).status == 0
        wait_until(lambda: counted("begun"), timeout_s=90, what="the work on the disk did not begin")
        assert lab.execute(hosts.parent.name, "uut", ["nft", drop]).status == 0
        wait_until(lambda: counted("over"), timeout_s=30, what="the work on the disk did not end")
        time.sleep(1)
        assert lab.execute(hosts.parent.name, "uut", ["nft", "delete", "table", "netdev", "stalled"]).status == 0
        out, _ = process.communicate(timeout=90)
    finally:
        process.kill()
        for table in ("stall", "stalled"):
            lab.execute(hosts.parent.name, "uut", ["nft", "delete", "table", "netdev", table])
    _, disk = read(out)
    assert disk.during_ratio is not None and 0.08 < disk.during_ratio < 0.4, disk
    assert disk.recovered_s is not None and 0.5 <= disk.recovered_s <= 2.0, disk


@pytest.mark.alone
def test_a_worker_that_is_killed_voids_the_trial(hosts: Path, tmp_path: Path):
    store = tmp_path / "s.sqlite"
    process = subprocess.Popen(
        [*COMMAND, *asked("container", "disk-mixed"), "--hosts", str(hosts), "--store", str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def works() -> bool:
        return lab.execute(hosts.parent.name, "uut", ["pgrep", "-f", "fio --name=mixed"]).status == 0

    wait_until(works, timeout_s=90, what="nobody works")
    lab.execute(hosts.parent.name, "uut", ["pkill", "-KILL", "-f", "fio --name=mixed"])
    process.communicate(timeout=120)
    listed = labconsole("experiment", "flow", "--list", "--json", store=store).stdout
    record, disk = read(listed)
    assert record.status == "failed"
    assert disk.exit_status != 0
    assert {"job_failed", "guests_missing"} & {reason.code for reason in record.verdict.reasons}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--guests", "2", "--disk", "cpu-pi"), "disk-mixed"),
        (("--guests", "1", "--disk", "disk-mixed", "--disk-to", "8", "--disk-from", "4"), "no guest that sends"),
        (("--guests", "2", "--disk", "disk-mixed", "--disk-to", "30"), "too few bins"),
        (("--guests", "2", "--disk-to", "30"), "only applies to a job"),
    ],
)
def test_what_cannot_be_asked_is_refused(hosts: Path, tmp_path: Path, words: tuple[str, ...], complaint: str):
    done = labconsole(
        "experiment", "flow", "--platforms", "container", *words, hosts=hosts, store=tmp_path / "s.sqlite"
    )
    assert done.returncode == 2, done.stdout
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
