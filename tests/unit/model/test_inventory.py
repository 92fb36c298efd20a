"""hosts.yaml: what is right is taken, what is wrong is named with file, line, key, value and what is allowed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from labconsole.engine.trial.setup import TrialSettings
from labconsole.errors import ConfigError
from labconsole.lab.spec import LabSpec
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.inventory import load_inventory
from labconsole.model.limits_check import check_request
from support.testbeds import GOOD


def load(tmp_path: Path, text: str):
    path = tmp_path / "hosts.yaml"
    path.write_text(text)
    return load_inventory(path)


def test_the_documented_form_is_read(tmp_path: Path):
    inventory = load(tmp_path, GOOD)
    assert inventory.uut == "uut"
    assert inventory.streams[0].link_speed_bps == 10**9
    assert inventory.platforms["raw"].options == {"forwarding": "route"}


def test_the_fingerprint_ignores_comments_and_addresses_but_not_streams(tmp_path: Path):
    first = load(tmp_path, GOOD).fingerprint()
    assert load(tmp_path, "# a remark\n" + GOOD.replace("src1.lab", "10.0.0.1")).fingerprint() == first
    assert load(tmp_path, GOOD.replace("uut_out: eth5", "uut_out: eth6")).fingerprint() != first


def test_what_is_injected_tells_testbeds_apart_and_at_its_default_stays_out_of_the_fingerprint(tmp_path: Path):
    clean = load(tmp_path, GOOD).fingerprint()
    digests = [LabSpec(name="bench", loss={"uut/out": ratio}).injected_digest() for ratio in (0.2, 0.4)]
    found = [load(tmp_path, GOOD.replace("testbed: bench\n", f"testbed: bench\ninjected: {d}\n")) for d in digests]
    assert len({clean, *(inventory.fingerprint() for inventory in found)}) == 3
    assert LabSpec(name="bench", loss={"uut/out": 0.0}).injected_digest() is None
    assert LabSpec(name="other", loss={"uut/out": 0.2}).injected_digest() == digests[0]
    assert not any("0.2" in digest or "uut" in digest for digest in digests if digest)


def test_what_is_stated_of_clocks_is_by_one_word_and_decides_no_result(tmp_path: Path):
    inventory = load(
        tmp_path,
        GOOD.replace("[source]", "[source], clock_error_ns: 500").replace("[sink]", "[sink], clock_keeper: ptp4l"),
    )
    assert (inventory.nodes["src1"].clock_error_ns, inventory.nodes["snk1"].clock_keeper) == (500, "ptp4l")
    assert inventory.fingerprint() == load(tmp_path, GOOD).fingerprint()
    both = GOOD.replace("[sink]", "[sink], clock_error_ns: 500, clock_keeper: chrony")
    with pytest.raises(
        ConfigError, match=r"nodes\.snk1\.clock_error_ns: cannot be declared together with clock_keeper"
    ):
        load(tmp_path, both)
    for wrong in ("clock_error_ns: -1", "clock_error_ns: 2000000000", "clock_keeper: ntpd"):
        with pytest.raises(ConfigError, match=r"nodes\.snk1\.clock_"):
            load(tmp_path, GOOD.replace("[sink]", f"[sink], {wrong}"))


def test_stamps_of_a_nic_make_another_testbed_of_it(tmp_path: Path):
    kernel = load(tmp_path, GOOD.replace("[sink]", "[sink], capture_stamps: kernel"))
    nic = load(tmp_path, GOOD.replace("[sink]", "[sink], capture_stamps: nic"))
    assert kernel.fingerprint() == load(tmp_path, GOOD).fingerprint() != nic.fingerprint()
    assert (TrialSettings.of(kernel).nic_stamps, TrialSettings.of(nic).nic_stamps) == (frozenset(), frozenset({"snk1"}))
    for role in ("[source]", "[uut]"):
        with pytest.raises(ConfigError, match=r"nodes\.\w+\.capture_stamps: only a sink captures"):
            load(tmp_path, GOOD.replace(role, f"{role}, capture_stamps: nic"))


HOST = "  below: {address: below.lab, roles: [host], carries: {eth1: [vnet0, br0], eth5: [vnet1]}}\nstreams:"


def test_the_host_of_a_machine_is_a_node_that_decides_no_result(tmp_path: Path):
    inventory = load(tmp_path, GOOD.replace("streams:", HOST, 1))
    assert inventory.host == "below" and load(tmp_path, GOOD).host is None
    assert inventory.nodes["below"].carries == {"eth1": ("vnet0", "br0"), "eth5": ("vnet1",)}
    assert inventory.fingerprint() == load(tmp_path, GOOD).fingerprint()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[host]", "[host, sink]", r"nodes\.below\.roles: a host has no other role"),
        (
            ", carries: {eth1: [vnet0, br0], eth5: [vnet1]}",
            "",
            r"nodes\.below: the role host and carries belong together",
        ),
        ("[host]", "[sink]", r"nodes\.below: the role host and carries belong together"),
        (
            "eth5: [vnet1]",
            "eth7: [vnet1]",
            r"carries\.eth7: is not a NIC of the UUT that a stream uses, got 'eth7'; allowed: eth1, eth5",
        ),
        ("eth5: [vnet1]", "eth5: [br0]", r"carries\.eth5: names an interface that eth1 has already, got 'br0'"),
    ],
)
def test_what_is_wrong_with_a_host_is_named(tmp_path: Path, old: str, new: str, message: str):
    assert old in HOST
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, GOOD.replace("streams:", HOST.replace(old, new, 1), 1))
    assert re.search(message, str(caught.value)), str(caught.value)


WRONG = [
    ("testbed: bench\n", "testbed: bench\ninjected: 20%\n", r":2: injected: .*got '20%'"),
    ("roles: [source]}", "roles: [source], pasword: x}", r":3: nodes\.src1\.pasword: unknown key; allowed: .*user"),
    ("roles: [source]}", "roles: [sauce]}", r":3: nodes\.src1\.roles\[0\]: .*got 'sauce'; allowed: .*source"),
    ("testbed: bench\n", "", r"testbed: is required"),
    (
        "source: src1/eth1",
        "source: src9/eth1",
        r":7: streams\[0\]\.source: names a node that does not exist, got 'src9'",
    ),
    ("source: src1/eth1", "source: snk1/eth1", r"streams\[0\]\.source: names a node without the role source"),
    ("source: src1/eth1", "source: src1", r"streams\[0\]\.source: .*allowed: node/interface"),
    (
        "uut_in: eth1",
        "uut_in: eth5",
        r"streams\[0\]\.uut_out: duplicate interface.*streams\[0\]\.uut_in, got 'uut/eth5'",
    ),
    ("sink_ip: 198.19.1.1", "sink_ip: 198.18.1.1", r"streams\[0\]\.sink_ip: duplicate address.*got '198\.18\.1\.1'"),
    ("sink_ip: 198.19.1.1", "sink_ip: 10.0.0.1", r":8: streams\[0\]\.sink_ip: .*benchmark network.*198\.18\.0\.0/15"),
    (
        "link_speed: 1Gbit",
        "link_speed: fast",
        r":8: streams\[0\]\.link_speed: is not a valid rate, got 'fast'; allowed: .*10Mbit",
    ),
    ("settle_s: 0", "settle_s: -1", r":11: defaults\.settle_s: .*got -1"),
    ("roles: [uut]", "roles: [sink]", r"nodes: exactly one node must have the role uut, got 'none'"),
    ("driver: raw, ", "", r"platforms\.raw\.driver: is required"),
    ("testbed: bench", "testbed: [", r"not valid YAML"),
    ("uut_in: eth1", "uut_in: a/b", r"streams\[0\]\.uut_in: is not a valid interface name"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG, ids=[w[2][:40] for w in WRONG])
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, message: str):
    assert old in GOOD
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, GOOD.replace(old, new, 1))
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "hosts.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_option_of_a_platform_is_an_ordinary_value_however_it_is_written(tmp_path: Path):
    inventory = load(tmp_path, GOOD.replace("driver: raw", "driver: raw, cpu: 0, wide: 0o17, part: 0.50, on: &a true"))
    options = next(iter(inventory.platforms.values())).options
    assert [(key, type(value)) for key, value in options.items() if key in ("cpu", "wide", "part", "on")] == [
        ("cpu", int),
        ("wide", int),
        ("part", float),
        ("on", bool),
    ]


def test_a_duplicate_key_is_an_error(tmp_path: Path):
    with pytest.raises(ConfigError, match="not valid YAML"):
        load(tmp_path, GOOD + "testbed: again\n")


def test_binary_and_missing_files_are_errors(tmp_path: Path):
    with pytest.raises(ConfigError, match="no such file"):
        load_inventory(tmp_path / "none.yaml")
    path = tmp_path / "hosts.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is UTF-16 text; save it as UTF-8"):
        load_inventory(path)


def request(**changes) -> DesignPoint:
    values = {"platform": "raw", "frame": FrameSize(64), "sources": 1, "target": 10**8, "duration_s": 1.0}
    return DesignPoint(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"target": 2 * 10**9},
            r"target: is above the line rate of stream s1, got '2Gbit'; allowed: at most 1 Gbit/s \(1420455 packets/s",
        ),
        ({"frame": FrameSize(59)}, r"frame_size: is shorter.*got 59; allowed: 60 or more"),
        ({"frame": FrameSize(63, includes_fcs=True)}, r"got 63; allowed: 64 or more"),
        ({"platform": "kvm"}, r"platform: is not in the inventory, got 'kvm'; allowed: raw"),
        ({"sources": 2}, r"sources: .*got 2; allowed: 1 to 1"),
        ({"duration_s": 0}, r"duration: is out of range"),
        (
            {"target": 600, "duration_s": 0.5},
            r"target: is too low to send even one packet of 64 B in 0.5 s, got '600bit'; allowed: a rate that sends at least one packet",
        ),
        ({"target": 0}, r"target: is too low to send"),
        ({"background": "lots"}, r"background: is not a background load.*forwarding-95"),
    ],
)
def test_what_the_testbed_cannot_be_asked_is_refused(tmp_path: Path, changes: dict, message: str):
    with pytest.raises(ConfigError) as caught:
        check_request(request(**changes), load(tmp_path, GOOD))
    assert re.search(message, str(caught.value)), str(caught.value)


def test_max_has_no_delay_and_no_intended_count():
    trial = request(target="max")
    assert (trial.delay_ns, trial.intended_packets, trial.intended_pps) == (0, None, None)


def test_intended_count_is_the_duration_over_the_delay():
    assert request(duration_s=5.0).intended_packets == round(5e9 / 7040)
