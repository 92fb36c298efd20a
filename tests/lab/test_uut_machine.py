"""A UUT that is a QEMU machine: its own kernel forwards, and on it KVM, LXC and, booted anew, Xen."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from labconsole.errors import LabSetupError
from labconsole.lab import commands as lab
from labconsole.lab.guests import domains
from labconsole.lab.spec import LabSpec
from labconsole.wire.packet_times import GENERIC_XDP, NATIVE_XDP
from support.agent_process import AgentProcess, Net
from support.live_lab import STATE, labconsole, records, wait_until
from support.requirements import require

pytestmark = [pytest.mark.alone, pytest.mark.platforms, pytest.mark.slow]

RUN_S = 300.0

RESET = "ended with status 0; its console ends: (empty)"
"""What is left of a KVM guest that QEMU's emulation of AMD-V resets before its kernel has said a word, which happens now
and then. Nothing was measured then, and labconsole says so."""

NEVER_CAME = re.compile(rf"{re.escape(RESET)}|did not answer within [0-9.]+ s; its console ends: \(empty\)")
"""Of several that boot at once one may also come to nothing without an end."""

LOST = "the connection was lost"

BOOTS = 4

SLACK_S = 1.0
"""How far a wait of two seconds may be off where a processor is emulated, and no more is known of how busy it was."""

MISSED_WHERE_EMULATED = {"background_missed"}
"""The processor time that a guest of an emulated machine gets is whatever two cores have left after emulating it: the load
is missed by a tenth or two now and then, which makes the run invalid, and rightly so."""


@pytest.fixture(scope="module")
def machine(lab_home: Path) -> Iterator[lab.LabStatus]:
    """One machine for all tests here, in their order: it is booted twice, and that is what takes the time."""
    require("qemu-system-x86_64", "busybox", "stress", "lxc-start", "apt-get", "dpkg-deb", "ip", "tc", "nft", "tcpdump")
    name = f"uut{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=1, uut="machine", platforms=("raw", "lxc", "kvm", "xen"), jobs=True))
    lab.down(name)


def begins_anew(done: subprocess.CompletedProcess[str], status: lab.LabStatus) -> bool:
    """Whether the emulation of AMD-V spoiled it: it reset the guest, or the memory of the machine's own kernel, which
    then stops with a word of panic, and several guests at once do that now and then. The machine is back then.
    """
    if RESET in done.stderr:
        return True
    if LOST not in done.stderr:
        return False
    wait_until(lambda: not uut_of(status).alive, timeout_s=30, what="the end of the machine")
    assert "Kernel panic" in (uut_of(status).last_words or ""), done.stderr
    spec = found.spec if (found := lab.status(status.spec.name)) else status.spec
    lab.up(spec)
    return True


def uut_of(status: lab.LabStatus) -> lab.NodeStatus:
    """The machine as it is now."""
    found = lab.status(status.spec.name)
    assert found is not None
    return next(node for node in found.nodes if node.role == "uut")


def measured(status: lab.LabStatus, store: Path, *words: str) -> dict:
    """One run by the real command; a machine under other load may take its time to boot a guest."""
    argv = [sys.executable, "-m", "labconsole", "run", "--json", "--hosts", str(status.hosts_file)]
    argv += ["--store", str(store), "--duration", "1", *words]
    for _ in range(BOOTS):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=RUN_S)
        assert "Traceback" not in done.stderr, done.stderr
        if not begins_anew(done, status):
            break
    (record,) = records(done)
    serious = {reason["code"] for reason in record["verdict"]["reasons"]} - MISSED_WHERE_EMULATED
    assert record["verdict"]["status"] != "invalid" or not serious, record["verdict"]
    return record


def test_its_own_kernel_forwards_between_nics_of_its_own_and_the_record_says_that_it_is_emulated(
    machine: lab.LabStatus, lab_home: Path
) -> None:
    record = measured(machine, lab_home / "m.sqlite", "--platform", "raw", "--target", "700kbit")
    assert record["total"]["loss_packets"] == 0
    assert record["environment"]["platform"]["machine"] == {"boot": "linux", "emulated": True, "accel": "tcg"}
    released = lab.execute(machine.spec.name, "uut", ["uname", "-r"], timeout_s=30).stdout.strip()
    assert released != os.uname().release
    assert lab.execute(machine.spec.name, "uut", ["ls", "/sys/class/net"], timeout_s=30).stdout.split() == [
        "eth0",
        "eth1",
        "eth5",
        "lo",
    ]


BY_SSH = "import os, shlex, sys; os.execvp('ssh', ['ssh', *sys.argv[1:4], shlex.join(sys.argv[4:])])"


@pytest.mark.parametrize("by", [GENERIC_XDP, NATIVE_XDP])
def test_what_an_xdp_program_turns_off_at_one_of_its_nics_is_on_again(machine: lab.LabStatus, by: str) -> None:
    """virtio_net: without the agent's doing, hardware receive offload would stay off."""

    def of_port(*argv: str) -> str:
        return lab.execute(machine.spec.name, "uut", [*argv, "eth1"], timeout_s=30).stdout

    def joins() -> bool:
        (word,) = re.findall(r"^rx-gro-hw: (\w+)$", of_port("ethtool", "-k"), re.M)
        return word == "on"

    ssh = [sys.executable, "-c", BY_SSH, "-F", str(machine.ssh_config), f"{machine.spec.name}-uut"]
    stream = {"source_ip": "198.18.1.1", "sink_ip": "198.19.1.1", "udp_sink_port": 9, "interval_ns": 0}
    features = of_port("ethtool", "-k")
    assert joins()
    for killed in (False, True):
        agent = AgentProcess(cast(Net, SimpleNamespace(prefix=ssh)))
        try:
            agent.ok("packet_times.start", ports=[{"interface": "eth1", "streams": [stream]}], by=by)
            assert ("xdpgeneric" in of_port("ip", "link", "show")) == (by == GENERIC_XDP)
            assert " xdp" in of_port("ip", "link", "show")
            assert joins() == (by == NATIVE_XDP)
            if killed:
                lab.execute(machine.spec.name, "uut", ["kill", "-9", str(agent.hello["pid"])], timeout_s=30)
            else:
                (port,) = agent.ok("packet_times.stop")["ports"]
                expected = ["rx-gro-hw off"] if by == GENERIC_XDP else []
                assert (port["xdp"]["features"], port["xdp"]["left_features"]) == (expected, [])
            wait_until(lambda: of_port("ethtool", "-k") == features, timeout_s=30, what="the features before")
            wait_until(lambda: " xdp" not in of_port("ip", "link", "show"), timeout_s=30, what="the end of the program")
        finally:
            agent.close()


@pytest.mark.parametrize("platform", ["lxc", "kvm"])
def test_a_guest_of_its_kernel_forwards_beside_a_second_one_under_load(
    machine: lab.LabStatus, lab_home: Path, platform: str
) -> None:
    words = ("--platform", platform, "--target", "700kbit", "--background", "light")
    record = measured(machine, lab_home / "m.sqlite", *words)
    hops = {hop["hop"]: hop["packets"] for hop in record["streams"][0]["ledger"]}
    assert 0 < hops["from_guest"] <= hops["to_guest"] <= hops["generator"]
    assert record["background"]["achieved"]["guest_cpu_s"] > 0
    if platform == "kvm":
        assert record["environment"]["platform"]["accel"] == "kvm"


def own_state(status: lab.LabStatus) -> list[str]:
    """What the machine is up to, but for its kernel's own threads, which come and go."""
    found = lab.execute(status.spec.name, "uut", ["sh", "-c", STATE], timeout_s=RUN_S / 5)
    return [line for line in found.stdout.splitlines() if not line.startswith("[")]


def waited(status: lab.LabStatus, store: Path, platform: str) -> dict:
    """Two guests that wait for two seconds at the same time, by the clock outside; nothing is left of them.

    On one processor: several that emulate AMD-V at once now and then end in a panic of the machine's own kernel.
    """
    before = own_state(status)
    argv = [sys.executable, "-m", "labconsole", "experiment", "job", "--json", "--hosts", str(status.hosts_file)]
    argv += ["--store", str(store), "--platforms", platform, "--jobs", "wait", "--size", "2", "--guests", "2"]
    for _ in range(BOOTS):
        done = subprocess.run(
            [*argv, "--working", "all", "--cpu", "same"], capture_output=True, text=True, timeout=RUN_S
        )
        assert "Traceback" not in done.stderr, done.stderr
        if not begins_anew(done, status) and not NEVER_CAME.search(done.stderr):
            break
    listed = labconsole("experiment", "job", "--list", store=store).stdout
    assert done.stdout, done.stderr + listed
    record: dict = json.loads(done.stdout.splitlines()[-1])["job"]
    assert [copy["guest"] for copy in record["copies"]] == ["g1", "g2"]
    for copy in record["copies"]:
        assert abs(copy["seconds"] - 2.0) < max(SLACK_S, 5 * record["empty"]["sd_s"]), record
        assert copy["exit_status"] == 0
    assert record["verdict"]["status"] != "invalid", record["verdict"]
    assert record["attestation"]["machine"]["emulated"] is True
    wait_until(lambda: own_state(status) == before, timeout_s=30, what="something was left")
    return record


@pytest.mark.parametrize("platform", ["lxc", "kvm"])
def test_guests_for_jobs_stand_side_by_side_on_its_kernel(
    machine: lab.LabStatus, lab_home: Path, platform: str
) -> None:
    waited(machine, lab_home / "m.sqlite", platform)


@pytest.mark.parametrize("platform", ["raw", "lxc", "kvm"])
def test_guests_have_disks_on_the_disk_of_the_machine(machine: lab.LabStatus, lab_home: Path, platform: str) -> None:
    store = lab_home / f"disk-{platform}.sqlite"
    words = ("experiment", "job", "--platforms", platform, "--jobs", "disk-read", "--size", "32", "--json")
    for _ in range(BOOTS):
        done = labconsole(*words, hosts=machine.hosts_file, store=store)
        if not begins_anew(done, machine) and not NEVER_CAME.search(done.stderr):
            break
    record = json.loads(done.stdout.splitlines()[-1])["job"]
    assert record["copies"][0]["exit_status"] == 0, record
    assert record["disk"]["place"] == "/disk"
    assert record["disk"]["device_read_bytes"] >= record["disk"]["job_read_bytes"] == 32 * 2**20
    left = lab.execute(machine.spec.name, "uut", ["ls", "/disk"], timeout_s=30).stdout.split()
    assert sorted(left) == [*domains.CREW_IMAGES, "lost+found"]


def test_more_than_the_machine_can_forward_is_lost_before_its_nic(machine: lab.LabStatus, lab_home: Path) -> None:
    record = measured(machine, lab_home / "m.sqlite", "--platform", "kvm", "--target", "max")
    assert record["total"]["loss_ratio"] > 0.2
    hops = {hop["hop"]: hop["lost_packets"] for hop in record["streams"][0]["ledger"]}
    assert hops["uut_in"] + hops["to_guest"] + hops["from_guest"] == record["total"]["loss_packets"]


def test_a_kernel_that_panics_is_told_and_comes_back(machine: lab.LabStatus, lab_home: Path) -> None:
    panic = "echo 1 > /proc/sys/kernel/sysrq; echo c > /proc/sysrq-trigger"
    with pytest.raises(LabSetupError):
        lab.execute(machine.spec.name, "uut", ["sh", "-c", panic], timeout_s=30)
    wait_until(lambda: not uut_of(machine).alive, timeout_s=30, what="the end of the machine")
    told = labconsole("lab", "status", "--name", machine.spec.name).stdout
    assert "has ended, and its kernel said: Kernel panic - not syncing: sysrq triggered crash; the same" in told, told
    back = lab.up(machine.spec)
    assert back.already_up and all(node.alive for node in back.nodes)
    record = measured(machine, lab_home / "m.sqlite", "--platform", "raw", "--target", "700kbit")
    assert record["total"]["loss_packets"] == 0


def test_its_cables_can_be_led_around_it_and_back(machine: lab.LabStatus, lab_home: Path) -> None:
    lab.wire(machine.spec.name, "direct")
    lab.wire(machine.spec.name, "through")
    record = measured(machine, lab_home / "m.sqlite", "--platform", "raw", "--target", "700kbit")
    assert record["total"]["loss_packets"] == 0


def test_xen_on_the_same_machine_is_one_reboot_away_and_on_the_same_testbed(
    machine: lab.LabStatus, lab_home: Path
) -> None:
    words = ("--platform", "raw", "--target", "700kbit")
    before = measured(machine, lab_home / "m.sqlite", *words)
    argv = [sys.executable, "-m", "labconsole", "run", "--hosts", str(machine.hosts_file), "--platform"]
    refused = subprocess.run([*argv, "xen"], capture_output=True, text=True, timeout=RUN_S)
    assert "needs xen, but the UUT runs linux" in refused.stderr
    spec = LabSpec(**{**machine.spec.to_json(), "boot": "xen"})
    assert lab.up(spec).spec.boot == "xen"
    more = ("--platform", "xen", "--target", "700kbit", "--background", "light")
    record = measured(machine, lab_home / "m.sqlite", *more)
    hops = {hop["hop"]: hop["packets"] for hop in record["streams"][0]["ledger"]}
    assert 0 < hops["from_guest"] <= hops["to_guest"] <= hops["generator"]
    assert record["background"]["achieved"]["guest_cpu_s"] > 0
    assert record["testbed_fingerprint"] == before["testbed_fingerprint"]
    assert record["environment"]["platform"]["versions"]["xen"].startswith("4.")
    refused = subprocess.run([*argv, "raw"], capture_output=True, text=True, timeout=RUN_S)
    assert "needs linux, but the UUT runs xen" in refused.stderr
    listed = lab.execute(machine.spec.name, "uut", ["xl", "list"], timeout_s=60).stdout
    assert [line.split()[0] for line in listed.splitlines()] == ["Name", "Domain-0"]


def test_guests_for_jobs_of_xen_are_domains_on_the_processor_that_is_theirs(
    machine: lab.LabStatus, lab_home: Path
) -> None:
    lab.up(LabSpec(**{**machine.spec.to_json(), "boot": "xen"}))
    record = waited(machine, lab_home / "m.sqlite", "xen")
    assert record["attestation"]["members"] == {"g1": "crew1", "g2": "crew2"}
    assert record["attestation"]["versions"]["scheduler"] == "credit2"
    listed = lab.execute(machine.spec.name, "uut", ["xl", "list"], timeout_s=60).stdout
    assert [line.split()[0] for line in listed.splitlines()] == ["Name", "Domain-0"]


def test_a_guest_of_xen_is_held_by_the_credit_of_its_back_end(machine: lab.LabStatus, lab_home: Path) -> None:
    lab.up(LabSpec(**{**machine.spec.to_json(), "boot": "xen"}))
    told = re.search(r"guest_config: '(.+?)'", machine.hosts_file.read_text())
    assert told is not None
    file = told[1].replace("{guest}", "crew1")  # one that runs already stays, and what it was given is seen to be gone
    assert lab.execute(machine.spec.name, "uut", ["xl", "create", file], timeout_s=120).status == 0
    words = ("--platforms", "xen", "--guests", "1", "--offered", "30Mbit", "--limits", "12Mbit", "--duration", "5")
    done = labconsole("experiment", "flow", *words, "--json", hosts=machine.hosts_file, store=lab_home / "m.sqlite")
    record = json.loads(done.stdout.splitlines()[-1])["flow"]
    (sender,) = record["senders"]
    assert sender["limiter"]["kind"] == "netback credit", record["verdict"]
    assert sender["limiter"]["rate_bps"] == 12_000_000
    frames = (record["requested"]["payload_bytes"] + 42) / record["requested"]["payload_bytes"]
    assert 0.9 <= sender["payload_bps"] * frames / 12e6 <= 1, record
    assert record["verdict"]["status"] != "invalid", record["verdict"]
    left = lab.execute(machine.spec.name, "uut", ["xenstore-ls", "backend/vif"], timeout_s=60).stdout
    assert "frontend = " in left and "rate = " not in left
    assert lab.execute(machine.spec.name, "uut", ["xl", "destroy", "crew1"], timeout_s=60).status == 0


def test_guests_of_xen_work_on_the_disks_that_they_have(machine: lab.LabStatus, lab_home: Path) -> None:
    lab.up(LabSpec(**{**machine.spec.to_json(), "boot": "xen"}))
    words = (
        "experiment",
        "job",
        "--platforms",
        "xen",
        "--jobs",
        "disk-read,disk-zero",
        "--size",
        "16",
        "--guests",
        "2",
        "--memory-mib",
        str(domains.CREW_MEMORY_MIB),
    )
    done = labconsole(*words, "--working", "all", "--json", hosts=machine.hosts_file, store=lab_home / "xd.sqlite")
    assert done.stdout, done.stderr
    for line in done.stdout.splitlines():
        record = json.loads(line)["job"]
        seen = record["disk"]
        assert record["attestation"]["machines"]["crew2"]["memory_mib"] == domains.CREW_MEMORY_MIB
        assert record["environment"]["nodes"]["uut"]["facts"]["hypervisor_type"] == "xen"
        assert [copy["exit_status"] for copy in record["copies"]] == [0, 0], record
        assert seen["place"] == "/disk"
        assert seen["device_read_bytes"] >= seen["job_read_bytes"]
        assert seen["device_written_bytes"] >= seen["job_written_bytes"]
        assert seen["job_read_bytes"] + seen["job_written_bytes"] >= 2 * 16 * 2**20
    on_uut = "for n in 1 2; do debugfs -R 'ls /' /disk/crew$n.img; done; losetup; xl list"
    left = lab.execute(machine.spec.name, "uut", ["sh", "-c", on_uut], timeout_s=60).stdout
    assert "lost+found" in left and "labconsole" not in left and "crew1.img" not in left, left


def test_guests_of_xen_forward_side_by_side(machine: lab.LabStatus, lab_home: Path) -> None:
    lab.up(LabSpec(**{**machine.spec.to_json(), "boot": "xen"}))
    words = ("experiment", "route", "--platforms", "xen", "--guests", "2", "--routes", "100", "--targets", "400pps")
    done = labconsole(*words, "--duration", "2", "--json", hosts=machine.hosts_file, store=lab_home / "xr.sqlite")
    assert done.stdout, done.stderr
    record = json.loads(done.stdout.splitlines()[-1])["route"]
    for number, router in enumerate(record["routers"], start=1):
        assert (router["inbound_interface"], router["host_interface"]) == (f"xnci{number}", f"xnc{number}")
        assert router["sent_packets"] == router["to_packets"] == router["from_packets"] == router["packets"] > 0
        assert router["routes"] == router["routes_after"] == 101
    assert record["verdict"]["status"] != "invalid", record["verdict"]
