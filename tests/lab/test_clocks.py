"""What is stated of clocks, and stamps of a NIC, on a real lab; and what a real ptp4l and chronyd say of their errors."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path

import pytest

from labconsole.agent.processes import children
from labconsole.agent.reading import clocks
from labconsole.lab import commands as lab
from labconsole.lab.images import cache_directory, unpacked_packages
from labconsole.lab.spec import LabSpec
from labconsole.wire.clocks import KeptClock
from labconsole.wire.codec import WireError
from support.agent_process import Net
from support.live_lab import lab_state, labconsole, records

RUN = ("run", "--platform", "raw", "--frame-size", "200", "--duration", "0.5", "--target", "5Mbit", "--json")
PACKAGES = ["linuxptp", "chrony"]


@cache
def program(name: str) -> str:
    """One of these packages, which are unpacked and not installed: Debian's chrony begins to set the clock at once."""
    fetched = unpacked_packages(cache_directory().parent / "packages", PACKAGES, re.compile("linuxptp|chrony"))
    found = shutil.which(name, path=f"{fetched}/usr/sbin:{fetched}/usr/bin:{os.environ.get('PATH', '')}:/usr/sbin")
    assert found is not None, f"{name} is neither installed nor in {fetched}"
    return found


@pytest.fixture(scope="module")
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"clocks{os.getpid()}"
    try:
        yield lab.up(LabSpec(name=name, sources=1))
    finally:
        lab.down(name)


def with_keys(testbed: lab.LabStatus, **keys: str) -> Path:
    """The lab's hosts.yaml with keys of nodes besides."""
    text = testbed.hosts_file.read_text()
    for role, words in keys.items():
        assert f"roles: [{role}]" in text
        text = text.replace(f"roles: [{role}]", f"roles: [{role}], {words}")
    path = testbed.hosts_file.with_name("stated.yaml")
    path.write_text(text)
    return path


def test_what_is_stated_of_clocks_is_in_the_run_and_counts_for_nothing_under_one_kernel(testbed, tmp_path: Path):
    store = tmp_path / "s.sqlite"
    hosts = with_keys(testbed, source="clock_error_ns: 500", sink="clock_keeper: ptp4l")
    (run,) = records(labconsole(*RUN, hosts=hosts, store=store))
    nodes = run["environment"]["nodes"]
    unknown = dict.fromkeys(("reference", "is_reference", "refused"))
    assert nodes["src1"]["clock_stated"] == {"by": "declared", "error_ns": 500, **unknown}
    told = nodes["snk1"]["clock_stated"]
    assert (told["by"], told["error_ns"]) == ("ptp4l", None) and told["refused"]
    assert "clock_stated" not in nodes["uut"]
    clocks = run["streams"][0]["extensions"]["clocks"]
    assert (clocks["bound_ns"], clocks["bound_by"], clocks["contradicted"]) == (0, "one kernel", False)
    shown = labconsole("runs", "show", run["run_id"], store=store).stdout
    assert "  s1: source and sink have one clock" in shown
    assert "no contradiction was found" in labconsole("verify", store=store).stdout
    checked = labconsole("check", hosts=hosts).stdout
    assert "ptp4l tells nothing" in checked and "off by at most 500 ns (declared)" in checked


def test_a_sink_whose_nic_stamps_nothing_is_refused_before_anything_is_sent(testbed, tmp_path: Path):
    store = tmp_path / "s.sqlite"
    hosts, before = with_keys(testbed, sink="capture_stamps: nic"), lab_state(testbed.spec.name)
    done = labconsole(*RUN, hosts=hosts, store=store)
    assert done.returncode != 0
    assert "the NIC of eth1 stamps no frames: Operation not supported" in done.stderr
    assert labconsole("runs", "--json", store=store).stdout == ""
    checked = labconsole("check", hosts=hosts)
    assert "eth1 by the kernel only" in checked.stdout and checked.returncode != 0
    assert lab_state(testbed.spec.name) == before


def wrapped(directory: Path, name: str, *words: str) -> None:
    """``name`` with these options, as the agent finds it."""
    path = directory / name
    path.write_text(f'#!/bin/sh\nexec {program(name)} {" ".join(words)} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@contextmanager
def running(*argv: str) -> Iterator[None]:
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)


def answer(keeper: str, *, within_s: float = 40) -> KeptClock:
    """What the program says as soon as it says anything."""
    until_s = time.monotonic() + within_s
    while True:
        try:
            return asyncio.run(clocks.read(keeper))
        except WireError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.5)


def said_once(directory: Path, words: str, *, within_s: float = 40) -> str:
    """What pmc prints, as soon as this pattern is in it."""
    until_s = time.monotonic() + within_s
    while True:
        said = subprocess.run(
            ["pmc", *clocks._PTP4L[1:]],
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": f"{directory}:/bin:/usr/bin"},
        ).stdout
        if re.search(words, said):
            return said
        assert time.monotonic() < until_s, said
        time.sleep(0.5)


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Net]:
    """The ports a0 and b0 on one wire."""
    if os.geteuid() != 0:
        pytest.skip("ptp4l is for root")
    monkeypatch.setattr(children, "SEARCH_PATH", str(tmp_path))
    net = Net()
    try:
        net.pair("a0", "b0")
        yield net
    finally:
        net.close()


def ptp4l(net: Net, path: Path, *options: str) -> AbstractContextManager[None]:
    """One at the port that the path is named after. It measures, and sets no clock."""
    path.write_text(
        f"[global]\nuds_address {path}.sock\nfree_running 1\nlogAnnounceInterval -2\nlogSyncInterval -3\n"
        "logMinDelayReqInterval -3\nlogMinPdelayReqInterval -3\n"
    )
    return running(*net.prefix, program("ptp4l"), "-2", "-S", "-i", path.name, "-f", str(path), *options)


def test_a_real_ptp4l_says_what_bounds_its_offset(tmp_path: Path, net: Net):
    """Two of them on one clock, which neither sets: what they measure of each other is the error of that."""
    with ptp4l(net, tmp_path / "a0", "--priority1=10"), ptp4l(net, tmp_path / "b0", "--priority1=200"):
        wrapped(tmp_path, "pmc", "-s", f"{tmp_path}/a0.sock")
        master = answer("ptp4l")
        assert (master.error_ns, master.is_reference) == (0, True), "it is the grandmaster"
        wrapped(tmp_path, "pmc", "-s", f"{tmp_path}/b0.sock")
        said = said_once(tmp_path, r"stepsRemoved +1\n.*\n.*meanPathDelay +-?(?!0\.0\n)\d")
        with pytest.raises(WireError, match="no port of ptp4l follows a master: UNCALIBRATED"):
            asyncio.run(clocks.read("ptp4l"))  # it sets no clock here, so that it never follows
    followed = clocks.ptp4l(said.replace("UNCALIBRATED", "SLAVE"))
    assert (followed.reference, followed.is_reference) == (master.reference, False)
    assert 0 < followed.error_ns < 10**9


def test_a_real_ptp4l_that_measures_its_last_link_only_is_refused(tmp_path: Path, net: Net):
    """With the peer delay mechanism it has an offset, and tells no delay of the path to the grandmaster."""
    with ptp4l(net, tmp_path / "a0", "--priority1=10", "-P"), ptp4l(net, tmp_path / "b0", "--priority1=200", "-P"):
        wrapped(tmp_path, "pmc", "-s", f"{tmp_path}/b0.sock")
        said = said_once(tmp_path, r"stepsRemoved +1\n.*offsetFromMaster +-?(?!0\.0\n)\d")
    with pytest.raises(WireError, match="reports no path delay"):
        clocks.ptp4l(said.replace("UNCALIBRATED", "SLAVE"))


def test_a_real_ptp4l_that_hears_no_master_is_refused(tmp_path: Path, net: Net):
    with ptp4l(net, tmp_path / "b0", "-s"):
        wrapped(tmp_path, "pmc", "-s", f"{tmp_path}/b0.sock")
        said_once(tmp_path, "portState +LISTENING")
        with pytest.raises(WireError, match="no port of ptp4l is a master: LISTENING"):
            asyncio.run(clocks.read("ptp4l"))
        with ptp4l(net, tmp_path / "a0", "--priority1=10"):
            said_once(tmp_path, r"stepsRemoved +1\n")
        said_once(tmp_path, "portState +LISTENING")  # and one step from the master that it heard last
        with pytest.raises(WireError, match="no port of ptp4l follows a master: LISTENING"):
            asyncio.run(clocks.read("ptp4l"))


def test_a_real_chronyd_that_follows_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if os.geteuid() != 0:
        pytest.skip("chronyd is for root")
    directory = tmp_path / "run"
    directory.mkdir(mode=0o750)
    socket, config = directory / "s.sock", directory / "c"
    config.write_text(
        f"local stratum 10\ncmdport 0\nport 0\nserver 192.0.2.1 offline\nbindcmdaddress {socket}\npidfile {directory}/p\n"
    )
    wrapped(tmp_path, "chronyc", "-h", str(socket))
    monkeypatch.setattr(children, "SEARCH_PATH", str(tmp_path))
    with running(program("chronyd"), "-x", "-d", "-u", "root", "-f", str(config)):
        until_s = time.monotonic() + 20
        while not socket.exists() and time.monotonic() < until_s:
            time.sleep(0.2)
        time.sleep(1)
        with pytest.raises(WireError, match="no server but 7F7F0101"):
            asyncio.run(clocks.read("chrony"))
