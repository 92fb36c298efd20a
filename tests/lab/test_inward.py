"""Guests that are sent to from outside, through the command, on a real lab: what the link carries, what a rule drops in
front of a guest, what a reader that does not read leaves in its socket.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.experiments.flow.record import FlowRecord, ReceiverRecord
from labconsole.experiments.flow.verify import recompute_flow
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.flow_lab import carries, nothing_left, on, stored, taken
from support.live_lab import COMMAND, labconsole, wait_until
from support.requirements import require

SPEED_BPS = 100_000_000
LINE_BPS = SPEED_BPS * 1472 / 1538
READER = "iperf -s -u -p 5001 -B"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lab of one source with links of 100 Mbit/s, whose UUT has containers."""
    require("iperf", "busybox", "lxc-start")
    name = f"inward{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("inward")))
        spec = LabSpec(name=name, sources=1, link_speed_bps=SPEED_BPS, platforms=("raw", "container", "lxc"), jobs=True)
        try:
            yield lab.up(spec).hosts_file
        finally:
            lab.down(name)


def sent_to(hosts: Path, store: Path, *words: str, platform: str = "container", status: int = 0) -> FlowRecord:
    (record,) = taken(hosts, store, "--pattern", "in", *words, platform=platform, status=status)
    return record


def losses(each: ReceiverRecord) -> dict[str, int]:
    return {loss.hop: loss.packets for loss in each.losses if loss.packets}


def sound(record: FlowRecord) -> None:
    """Every packet that was sent is read or has its place, at every guest; and the source's add up on the way."""
    assert recompute_flow(record) == []
    assert record.source is not None
    total = 0
    for each in record.receivers:
        assert each.sent_packets is not None and each.udp_packets is not None
        assert each.unplaced_packets == 0
        assert each.udp_packets + sum(loss.packets for loss in each.losses) == each.sent_packets
        total += each.sent_packets
    assert record.source.nic_packets == record.source.uut_packets == total


def during(hosts: Path, store: Path, *words: str) -> subprocess.Popen[str]:
    """A trial of containers that has begun to be sent to."""
    process = subprocess.Popen(
        [
            *COMMAND,
            "experiment",
            "flow",
            "--platforms",
            "container",
            "--pattern",
            "in",
            "--json",
            *words,
            "--hosts",
            str(hosts),
            "--store",
            str(store),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def sent() -> int:
        assert process.poll() is None, process.stderr and process.stderr.read()
        return int(on(hosts, "src1", "cat", "/sys/class/net/eth1/statistics/tx_packets"))

    base = sent()
    wait_until(lambda: sent() > base + 100, timeout_s=60, what="nothing was sent")
    return process


def all_gone(hosts: Path) -> None:
    nothing_left(hosts)
    for node, what in (
        ("uut", READER),
        ("uut", "busybox ping -w"),
        ("uut", "busybox timeout"),
        ("src1", "labconsole.*afpacket"),
    ):
        on(hosts, node, "sh", "-c", f"! pgrep -f '^{what}'")


@pytest.mark.alone
def test_one_guest_of_lxc_reads_what_the_link_carries(hosts: Path, tmp_path: Path):
    """The best of three: what the source does not send for want of a processor, it cannot make up for at line rate."""
    records = taken(
        hosts, tmp_path / "s.sqlite", "--pattern", "in", "--duration", "5", "--repetitions", "3", platform="lxc"
    )
    rates = []
    for record in records:
        sound(record)
        assert record.verdict.status != "invalid", record.verdict
        assert record.sum_bps is not None
        rates.append(record.sum_bps)
        short = record.sum_bps < 0.995 * LINE_BPS
        reasons = {reason.code for reason in record.verdict.reasons}
        assert not short or "offered_short" in reasons or losses(record.receivers[0]), "the record says why"
    assert carries(max(rates), LINE_BPS), rates
    all_gone(hosts)


@pytest.mark.alone
def test_guests_that_are_sent_to_at_once_get_an_equal_part_each(hosts: Path, tmp_path: Path):
    record = sent_to(hosts, tmp_path / "s.sqlite", "--guests", "4", "--duration", "4")
    sound(record)
    assert carries(record.sum_bps, LINE_BPS, 0.01), record.sum_bps
    assert record.jain is not None and record.jain > 0.999
    assert all(each.handed_packets == each.sent_packets for each in record.receivers), "and none gets another's"
    all_gone(hosts)


@pytest.mark.alone
def test_a_process_of_the_bare_host_reads_too(hosts: Path, tmp_path: Path):
    record = sent_to(
        hosts,
        tmp_path / "s.sqlite",
        "--offered",
        "20Mbit",
        "--duration",
        "2",
        "--payload-bytes",
        "18",
        platform="raw",
    )
    (each,) = record.receivers
    assert recompute_flow(record) == []
    assert each.sent_packets is not None and each.udp_packets is not None and each.udp_packets > 0
    assert each.nic_packets == each.sent_packets
    assert (
        each.udp_packets + sum(loss.packets for loss in each.losses) + (each.unplaced_packets or 0) == each.sent_packets
    )
    all_gone(hosts)


def _dropped(hosts: Path, family: str) -> int:
    told = json.loads(on(hosts, "uut", "nft", "-j", "list", "counters", "table", family, "dropping"))
    (packets,) = [each["counter"]["packets"] for each in told["nftables"] if "counter" in each]
    return int(packets)


@pytest.mark.parametrize(
    ("family", "hook"),
    [
        ("netdev", "chain on { type filter hook egress device lcg2 priority 0; "),
        ("bridge", "chain on { type filter hook forward priority 0; oifname lcg2 "),
    ],
)
def test_what_is_dropped_in_front_of_one_guest_is_told_for_that_guest(
    hosts: Path, tmp_path: Path, family: str, hook: str
):
    """Seven packets of a hundred, by a rule that counts."""
    process = during(hosts, tmp_path / "s.sqlite", "--guests", "3", "--offered", "5Mbit", "--duration", "5")
    rules = f"table {family} dropping {{ counter lost {{ }}; {hook} udp dport 5001 numgen inc mod 100 < 7 counter name lost drop; }}; }}"
    try:
        on(hosts, "uut", "nft", rules)
        out, _ = process.communicate(timeout=60)
        dropped = _dropped(hosts, family)
    finally:
        process.kill()
        lab.execute(hosts.parent.name, "uut", ["nft", "delete", "table", family, "dropping"])
    record = FlowRecord.model_validate(json.loads(out.splitlines()[0])["flow"])
    sound(record)
    assert dropped > 50
    assert [losses(each).get("to_guest", 0) for each in record.receivers] == [0, dropped, 0]
    assert record.receivers[1].handed_packets == (record.receivers[1].sent_packets or 0) - dropped
    all_gone(hosts)


def test_what_a_stopped_reader_does_not_take_is_told_as_a_full_socket(hosts: Path, tmp_path: Path):
    process = during(hosts, tmp_path / "s.sqlite", "--guests", "2", "--offered", "10Mbit", "--duration", "5")
    pid = on(hosts, "uut", "pgrep", "-f", f"^{READER} 198.18.64.2").split()[0]
    on(hosts, "uut", "kill", "-STOP", pid)
    counts: list[tuple[int, int]] = []
    while process.poll() is None:
        said = lab.execute(hosts.parent.name, "uut", ["cat", f"/proc/{pid}/net/snmp"])
        if found := re.search(r"^Udp: (\d+) \d+ \d+ \d+ (\d+)", said.stdout, re.MULTILINE):
            counts.append((int(found[1]), int(found[2])))
    out, _ = process.communicate()
    record = FlowRecord.model_validate(json.loads(out.splitlines()[0])["flow"])
    sound(record)
    assert record.verdict.status != "invalid", record.verdict
    first, second = record.receivers
    assert losses(first) == {}
    assert counts[-1][1] > 1000
    assert (second.udp_packets, second.socket_full_packets) == counts[-1], "as its kernel said to somebody else"
    assert losses(second)["guest_socket_full"] == counts[-1][1]
    assert set(losses(second)) == {"guest_socket_full", "guest_unread"}
    all_gone(hosts)


def test_a_reader_that_ended_voids_the_trial(hosts: Path, tmp_path: Path):
    store = tmp_path / "s.sqlite"
    process = during(hosts, store, "--guests", "2", "--offered", "5Mbit", "--duration", "4")
    on(hosts, "uut", "pkill", "-KILL", "-f", f"^{READER} 198.18.64.2")
    process.communicate(timeout=120)
    first = stored(store)[0]
    reasons = {reason.code: reason.detail for reason in first.verdict.reasons}
    assert first.status == "failed" and reasons["reader_missing"].startswith("g2")
    assert "guest_no_reader" in losses(first.receivers[1])
    sound(first)
    all_gone(hosts)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_console_that_ends_while_guests_are_sent_to_leaves_nothing(hosts: Path, tmp_path: Path, how: signal.Signals):
    process = during(hosts, tmp_path / "s.sqlite", "--guests", "2", "--offered", "5Mbit", "--duration", "60")
    process.send_signal(how)
    process.communicate(timeout=30)
    assert process.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL)
    wait_until(lambda: "lcg" not in on(hosts, "uut", "ip", "-o", "link"), timeout_s=15, what="guests are still there")
    all_gone(hosts)

    def sent() -> str:
        return on(hosts, "src1", "cat", "/sys/class/net/eth1/statistics/tx_packets")

    base = sent()
    assert sent() == base, "the source still sends"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--limits", "30Mbit"), "in pattern in guests receive"),
        (("--greedy", "3"), "in pattern in guests receive"),
        (("--second-after", "2"), "in pattern in guests receive"),
        (("--payload-bytes", "1473"), "payload-bytes"),
        (("--platforms", "raw", "--guests", "2"), "share its network stack"),
        (("--pattern", "inwards"), "pattern"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(
    hosts: Path, tmp_path: Path, words: tuple[str, ...], complaint: str
):
    told = ("experiment", "flow", "--platforms", "container", "--pattern", "in", *words)
    done = labconsole(*told, hosts=hosts, store=tmp_path / "s.sqlite")
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("labconsole: ")]) == 1
