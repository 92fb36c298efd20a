"""A testbed found by its cables alone, on real nodes: shuffled, down, bridged, in use, and cut off meanwhile."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.model.inventory import load_inventory
from support.live_lab import lab_state, labconsole, node_state, records


@pytest.fixture
def testbed(lab_home: Path) -> Iterator[lab.LabStatus]:
    name = f"disc{os.getpid()}"
    yield lab.up(LabSpec(name=name, sources=2))
    lab.down(name)


def machines(testbed: lab.LabStatus) -> list[str]:
    addresses = {name: node.address for name, node in load_inventory(testbed.hosts_file).nodes.items()}
    return [f"uut={addresses.pop('uut')}", *addresses.values()]


def discover(testbed: lab.LabStatus, out: Path, *words: str) -> dict[str, Any]:
    config = testbed.hosts_file.parent / "ssh_config"
    done = labconsole(
        "discover", *machines(testbed), "--ssh-config", str(config), "--out", str(out), "--yes", "--json", *words
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def inside(testbed: lab.LabStatus, node: str, *commands: str) -> None:
    for command in commands:
        done = lab.execute(testbed.spec.name, node, command.split())
        assert done.status == 0, f"{command}: {done.stderr}"


def test_what_was_found_is_checked_and_measured_and_nothing_is_left(testbed, tmp_path):
    before = lab_state(testbed.spec.name)
    out = tmp_path / "hosts.yaml"
    found = discover(testbed, out)
    assert lab_state(testbed.spec.name) == before
    real, read = load_inventory(testbed.hosts_file), load_inventory(out)
    ends = [(each.source.interface, each.uut_in, each.uut_out, each.sink.interface) for each in read.streams]
    assert ends == [(each.source.interface, each.uut_in, each.uut_out, each.sink.interface) for each in real.streams]
    assert read.emulated
    assert len(found["cables"]) == 4
    checked = labconsole("check", "--json", hosts=out)
    results = [json.loads(line) for line in checked.stdout.splitlines()]
    assert checked.returncode == 0, [each for each in results if each.get("status") == "fail"]
    run = labconsole("run", "--sources", "2", "--duration", "0.5", "--json", hosts=out, store=tmp_path / "s.sqlite")
    (record,) = records(run)
    assert record["verdict"]["status"] != "invalid", record["verdict"]
    assert record["total"]["loss_packets"] == 0


def test_crossed_renamed_and_down_ports_a_bridge_and_one_in_use_are_drawn_as_they_are(testbed, tmp_path):
    inside(
        testbed,
        "uut",
        "ip link set eth1 down",
        "ip link set eth1 name tmp0",
        "ip link set eth6 down",
        "ip link set eth6 name eth1",
        "ip link set tmp0 name eth6",
        "ip link set eth1 up",
        "ip link set eth6 up",
        "ip link add br0 type bridge",
        "ip link set br0 up",
        "ip link set eth6 master br0",
        "ip link set eth5 master br0",
        "ip addr add 198.18.77.1/24 dev eth2",
    )
    inside(testbed, "src1", "ip link set eth1 down", "ip link set eth1 address 02:00:00:00:aa:01")
    before = node_state(testbed.spec.name, "uut"), node_state(testbed.spec.name, "src1")
    found = discover(testbed, tmp_path / "hosts.yaml")
    assert (node_state(testbed.spec.name, "uut"), node_state(testbed.spec.name, "src1")) == before
    uut, src1, src2, snk1, snk2 = (word.removeprefix("uut=") for word in machines(testbed))
    cables = {tuple(sorted(cable["ends"])): cable["also_heard"] for cable in found["cables"]}
    assert cables == {
        tuple(sorted((f"{uut}/eth6", f"{src1}/eth1"))): [f"{snk1}/eth1"],
        tuple(sorted((f"{uut}/eth5", f"{snk1}/eth1"))): [f"{src1}/eth1"],
        tuple(sorted((f"{uut}/eth1", f"{snk2}/eth1"))): [],
    }
    assert found["wired_to_left_alone"] == {f"{src2}/eth1": [f"{uut}/eth2"]}
    (alone,) = found["left_alone"]
    assert alone == {"port": f"{uut}/eth2", "why": "the address 198.18.77.1 is on it"}
    (stream,) = load_inventory(tmp_path / "hosts.yaml").streams
    assert (stream.uut_in, stream.uut_out) == ("eth6", "eth5")


def test_a_cable_that_is_pulled_is_silence_and_a_machine_that_is_not_there_an_error(testbed, tmp_path):
    inside(testbed, "snk2", "ip link del eth1")  # and its other end with it
    found = discover(testbed, tmp_path / "hosts.yaml")
    assert [each.partition("/")[0] for each in found["no_answer"]] == [machines(testbed)[2]] or found["in_no_stream"]
    assert len(load_inventory(tmp_path / "hosts.yaml").streams) == 1
    config = str(testbed.hosts_file.parent / "ssh_config")
    for words, problem in (
        ([*machines(testbed), "--yes"], "already exists"),
        ([machines(testbed)[0], "nowhere.invalid", "--yes", "--out", str(tmp_path / "x.yaml")], "nowhere.invalid"),
        ([*machines(testbed), "--out", str(tmp_path / "x.yaml")], "needs --yes"),
    ):
        out = [] if "--out" in words else ["--out", str(tmp_path / "hosts.yaml")]
        done = labconsole("discover", *words, *out, "--ssh-config", config)
        assert done.returncode in (2, 3)
        assert problem in done.stderr
        assert not (tmp_path / "x.yaml").exists()


def test_user_and_port_in_an_address_log_in_and_are_written_into_their_fields(testbed, tmp_path):
    """The SSH configuration knows none of the nodes, and would log in as somebody whom nobody knows."""
    config = (testbed.hosts_file.parent / "ssh_config").read_text()
    told = dict(line.split(maxsplit=1) for line in config.splitlines() if line.startswith(" "))
    hosts = re.findall(rf"^Host {testbed.spec.name}-(\S+)\n    HostName (\S+)", config, re.MULTILINE)
    kept = [f"    {key} {told[key]}" for key in ("IdentityFile", "UserKnownHostsFile")]
    (tmp_path / "config").write_text("\n".join(["Host *", "    User nobody-here", "    Port 9", *kept]) + "\n")
    words = [f"{name}={told['User']}@{address}:{told['Port']}" for name, address in hosts]
    out = tmp_path / "hosts.yaml"
    done = labconsole("discover", *words, "--ssh-config", str(tmp_path / "config"), "--out", str(out), "--yes")
    assert done.returncode == 0, done.stderr
    read, real = load_inventory(out), load_inventory(testbed.hosts_file)
    written = {name: (node.user, node.address, node.port) for name, node in read.nodes.items()}
    assert written == {name: (told["User"], address, int(told["Port"])) for name, address in hosts}
    assert {name: node.roles for name, node in read.nodes.items()} == {n: node.roles for n, node in real.nodes.items()}
    assert labconsole("check", "--json", hosts=out).returncode == 0
