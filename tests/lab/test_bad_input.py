"""Every mistake gets one sentence that says where and what is allowed, the right exit status, and nothing half-done."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.live_lab import lab_state, labconsole


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"bad{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=1))
    lab.down(name)


ARGUMENTS = [
    (
        ["--target", "2Gbit"],
        2,
        r"--target: is above the line rate of stream s1, got '2Gbit'; allowed: at most 1 Gbit/s",
    ),
    (["--target", "fast"], 2, r"--target: is not a valid target, got 'fast'; allowed: .*10Mbit.* or max"),
    (
        ["--frame-size", "59"],
        2,
        r"--frame-size: is shorter than the shortest Ethernet frame, got 59; allowed: 60 or more",
    ),
    (["--frame-size", "1515"], 2, r"--frame-size: .*src1/eth1 carries \(MTU 1500\), got 1515; allowed: at most 1514"),
    (["--frame-size", "1519", "--includes-fcs"], 2, r"got 1519; allowed: at most 1518"),
    (["--platform", "kvm"], 2, r"--platform: is not in the inventory, got 'kvm'; allowed: raw, raw-bridge, container"),
    (["--sources", "2"], 2, r"--sources: .*got 2; allowed: 1 to 1"),
    (["--duration", "0"], 2, r"--duration: is out of range, got 0"),
    (["--repetitions", "0"], 2, r"--repetitions: must be 1 or more"),
    (["--background", "lots"], 2, r"background: is not a background load, got 'lots'; allowed: none, idle, light"),
    (["--background", "forwarding-50"], 2, r"background: needs a stream .*got 'forwarding-50'; allowed: none, idle"),
    (["--generator", "pktgen"], 3, r"src1: pktgen is not available"),
    (["--store", "/proc/none.sqlite"], 2, r"/proc/none.sqlite: cannot"),
]


@pytest.mark.parametrize(("words", "status", "message"), ARGUMENTS, ids=[" ".join(a[0]) for a in ARGUMENTS])
def test_a_wrong_argument_is_refused(testbed, tmp_path: Path, words: list[str], status: int, message: str):
    store = None if "--store" in words else tmp_path / "s.sqlite"
    expect(testbed, labconsole("run", *words, hosts=testbed.hosts_file, store=store), status, message)


def expect(testbed, done, status: int, message: str) -> None:
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    last = done.stderr.splitlines()[-1]
    assert re.search(message, last), done.stderr
    assert last.startswith("labconsole: ")


INVENTORY = [
    (
        "sink: snk1/eth1",
        "sink: snk1/eth9",
        2,
        r"hosts\.yaml:\d+: streams\[0\]\.sink: snk1 has no such interface, got 'eth9'",
    ),
    (
        "uut_out: eth5",
        "uut_out: eth9",
        2,
        r"hosts\.yaml:\d+: streams\[0\]\.uut_out: uut has no .*allowed: .*eth1, eth5",
    ),
    (
        "{address: NAME-snk1",
        "{address: NAME-snk1, python: python7",
        3,
        r"snk1: python7 is not installed there.*python:",
    ),
    ("{address: NAME-snk1", "{address: 127.18.250.250, port: 2222", 3, r"snk1: 127\.18\.250\.250:2222 refuses"),
    ("{address: NAME-snk1", "{address: no-such-host.invalid", 3, r"snk1: .*no-such-host\.invalid"),
    ("{address: NAME-snk1", "{address: NAME-snk1, key: OTHER_KEY", 3, r"snk1: .*refuse.*other_key"),
    ("{address: NAME-snk1", "{address: NAME-snk1, become: sudo", 3, r"snk1: .*sudo"),
    ("{address: NAME-snk1", "{address: NAME-snk1, capture_dir: /none", 3, r"snk1: cannot use /none for captures"),
    (
        "{address: NAME-snk1",
        "{address: NAME-snk1, capture_dir: /run/lcsmall",
        3,
        r"snk1: a capture of \d+ packets needs",
    ),
    (
        "driver: container",
        "driver: kvm",
        2,
        r"platforms\.container\.driver: .*got 'kvm'; allowed: bypass, command, container, ",
    ),
    ("forwarding: route", "forwarding: pigeon", 2, r"platforms\.raw\.forwarding: .*'pigeon'; allowed: route, bridge"),
]


@pytest.mark.parametrize(("old", "new", "status", "message"), INVENTORY, ids=[i[1] for i in INVENTORY])
def test_a_wrong_inventory_is_refused(testbed, tmp_path: Path, old: str, new: str, status: int, message: str):
    name = testbed.spec.name
    # A file system of 64 kB: no room on the sink's disk.
    lab.execute(name, "snk1", ["sh", "-c", "mkdir -p /run/lcsmall; mount -t tmpfs -o size=64k tmpfs /run/lcsmall"])
    before = lab_state(name)
    hosts = tmp_path / "hosts.yaml"
    text = Path(testbed.hosts_file).read_text()
    assert old.replace("NAME", name) in text
    other_key = tmp_path / "other_key"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(other_key)
    new = new.replace("NAME", name).replace("OTHER_KEY", str(other_key))
    hosts.write_text(text.replace(old.replace("NAME", name), new))
    done = labconsole("run", "--duration", "1", hosts=hosts, store=tmp_path / "s.sqlite")
    expect(testbed, done, status, message)
    assert lab_state(name) == before


def test_a_sink_without_tcpdump_is_named(testbed, tmp_path: Path):
    name = testbed.spec.name
    paths = lab.execute(name, "snk1", ["sh", "-c", "command -v tcpdump"]).stdout.split()
    # An empty file over the program, in this node's mount namespace only.
    lab.execute(name, "snk1", ["sh", "-c", f"touch /run/none; mount --bind /run/none {paths[0]}"])
    try:
        done = labconsole("run", "--duration", "1", hosts=testbed.hosts_file, store=tmp_path / "s.sqlite")
        expect(testbed, done, 3, r"snk1: .*tcpdump")
    finally:
        lab.execute(name, "snk1", ["umount", paths[0]])


def test_what_is_no_plan_and_no_capture_is_named(tmp_path: Path, testbed):
    done = labconsole("replay", str(testbed.hosts_file), hosts=testbed.hosts_file, store=tmp_path / "s.sqlite")
    expect(testbed, done, 2, r"hosts\.yaml: is a testbed file")
    text = tmp_path / "text.pcap"
    text.write_text("not a capture")
    for path, message in ((text, r"text\.pcap"), (tmp_path / "none", r"none")):
        done = labconsole("analyze", str(path))
        assert done.returncode == 2
        assert re.search(message, done.stderr)


def test_no_inventory_here_says_what_to_do(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = labconsole("run")
    assert done.returncode == 2
    assert "labconsole demo" in done.stderr
