"""Each change is one class: what is asked for is checked, and all of them can be made, undone and told."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labconsole.network.change import NetworkChange, load_all, undo
from labconsole.network.links import Bridge, Namespace, Tap, Veth
from labconsole.network.routing import Route
from labconsole.network.sysctl import Sysctl
from labconsole.wire.changes import AnyChange, ApplyChanges
from labconsole.wire.codec import WireError
from support.fuzzing import JSON, tries

load_all()
GOOD: dict[str, dict[str, Any]] = {
    "address": {"address": "198.18.5.1/24", "interface": "eth1"},
    "control_groups": {"name": "labconsole-1", "groups": [{"group": "g1", "cpu_shares": 512, "memory_mib": 64}]},
    "bridge": {"name": "lcb1", "ports": ["eth1", "eth5"]},
    "bridge_port": {"name": "lcb1", "port": "eth6"},
    "bridge_station": {"port": "eth6", "mac": "02:00:00:00:01:02"},
    "guest_disks": {
        "place": "/var/tmp",
        "name": "labconsole-disks-0123abcd",
        "disks": [{"guest": "g1", "mib": 64}],
        "files": True,
    },
    "credit": {"interface": "vif1.0", "rate_bps": 30_000_000},
    "flow_control": {"interface": "eth1", "on": False},
    "link_up": {"interface": "eth1"},
    "namespace": {"name": "guest"},
    "namespace_nic": {
        "name": "lcg1",
        "peer": "eth0",
        "peer_mac": "02:00:00:00:00:01",
        "peer_namespace": "g",
        "address": "198.18.64.1/18",
    },
    "nic_stamps": {"interface": "eth1"},
    "neighbour": {"address": "198.19.1.1", "mac": "02:00:00:00:00:05", "interface": "eth5"},
    "rate_limit": {
        "interface": "lcg1",
        "queue": "lcq1",
        "rate_bps": 30_000_000,
        "burst_bytes": 3750,
        "queue_bytes": 187_500,
    },
    "route": {"destination": "198.19.1.0/24", "interface": "eth5", "gateway": "198.18.5.2"},
    "shared_queue": {
        "queue": "lcqw",
        "rate_bps": 97_000_000,
        "burst_bytes": 12_000,
        "queue_packets": 400,
        "guests": [
            {"interface": "lcg1", "address": "198.18.64.1", "rate_bps": 48_500_000, "most_bps": 97_000_000},
            {"interface": "lcg2", "address": "198.18.64.2", "rate_bps": 48_500_000, "most_bps": 97_000_000},
        ],
    },
    "sysctl": {"name": "net/ipv4/conf/eth1.5/forwarding", "value": "1"},
    "tap": {"name": "lcti1", "whole_frames": True},
    "veth": {"name": "lcv1", "peer": "eth0", "peer_namespace": "g", "mac": "02:00:00:00:00:01", "peer_mac": None},
}
OUTSIDE = ("control_groups", "credit", "flow_control", "guest_disks", "namespace", "namespace_nic", "nic_stamps")
"""Made in no namespace but the agent's own."""


FREE = (("sysctl", "value"), ("veth", "peer_namespace"), ("namespace_nic", "peer_namespace"))


def read(*changes: Any) -> list[AnyChange]:
    return ApplyChanges.parse({"token": "t", "changes": list(changes)}).changes


def complaint(*changes: Any) -> str:
    with pytest.raises(WireError) as caught:
        read(*changes)
    assert caught.value.code == "bad_message"
    return caught.value.message


def test_every_change_has_an_example_here() -> None:
    assert set(AnyChange.known) == set(GOOD), "GOOD, above, holds an example of each"


@pytest.mark.parametrize("do", sorted(GOOD))
def test_a_change_is_read_as_an_object_of_its_class_and_sent_as_it_was(do: str) -> None:
    sent = {"do": do, **GOOD[do]} if do in OUTSIDE else {"do": do, **GOOD[do], "namespace": "g"}
    (change,) = read(sent)
    assert type(change) is AnyChange.known[do]
    assert change.to_wire() == sent
    assert change.to_wire() == type(change)(**{key: value for key, value in sent.items() if key != "do"}).to_wire()


@pytest.mark.parametrize("do", sorted(GOOD))
def test_a_change_can_be_made_undone_and_told(do: str) -> None:
    change = read({"do": do, **GOOD[do]})[0]
    assert isinstance(change, NetworkChange)
    for method in ("apply", "undo", "commands"):
        assert getattr(type(change), method) is not getattr(NetworkChange, method)
    assert change.commands()


@pytest.mark.parametrize("do", sorted(GOOD))
def test_what_a_change_needs_must_be_there_and_nothing_else(do: str) -> None:
    needed = [name for name in GOOD[do] if not hasattr(AnyChange.known[do], name)]
    for name in needed:
        left = {key: value for key, value in GOOD[do].items() if key != name}
        assert complaint({"do": do, **left}) == f"change {do}: it has no {name}"
    assert complaint({"do": do, **GOOD[do], "colour": 1}) == f"change {do}: it has an unknown key colour"


@pytest.mark.parametrize("do", sorted(GOOD))
@pytest.mark.parametrize(
    "bad",
    [None, 7, [], {}, [1], "\0", "a b/c" * 100],
    ids=["null", "number", "list", "object", "numbers", "zero byte", "long text"],
)
def test_a_bad_value_is_refused_by_the_name_of_its_field(do: str, bad: Any) -> None:
    for name in GOOD[do]:
        if (bad is None and hasattr(AnyChange.known[do], name)) or (bad == [] and name in ("ports", "groups", "disks")):
            continue
        if name == "queue_packets" and bad == 7:
            continue
        if (do, name) in FREE and bad not in (None, 7, [], {}, [1], "\0"):
            continue
        said = complaint({"do": do, **GOOD[do], name: bad})
        assert said.startswith(f"change {do}: {name} is not ")
        assert len(said) < 300


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"do": "tap", "name": "../x"}, "change tap: name is not a valid interface name: '../x'"),
        ({"do": "tap", "name": "."}, "change tap: name is not a valid interface name: '.'"),
        (
            {"do": "bridge", "name": "b", "ports": ["a" * 16]},
            "change bridge: ports is not a valid interface name: 'aaaaa",
        ),
        ({"do": "bridge", "name": "b", "ports": ["x"] * 1025}, "change bridge: ports is not a list of at most 1024"),
        ({"do": "veth", "name": "a", "peer": "b", "mac": "02:00"}, "change veth: mac is not a MAC address: '02:00'"),
        (
            {"do": "veth", "name": "a", "peer": "b", "namespace": "g"},
            "change veth: peer_namespace is missing: the other end",
        ),
        (
            {"do": "route", "destination": "10.0.0.1/8", "interface": "a"},
            "change route: destination is not an IP network: ",
        ),
        (
            {"do": "route", "destination": "10.0.0.0/8", "interface": "a", "gateway": "x"},
            "change route: gateway is not an IP ",
        ),
        (
            {"do": "address", "address": "10.0.0.1", "interface": "a"},
            "change address: address is not an IP address with ",
        ),
        (
            {"do": "sysctl", "name": "kernel.hostname", "value": "x"},
            "change sysctl: name is not the name of a net.* setting: 'kernel.hostname'",
        ),
        ({"do": "namespace", "name": "g", "namespace": "h"}, "change namespace: it has an unknown key namespace"),
        (
            {"do": "guest_disks", "place": "tmp", "name": "x", "disks": [], "files": True},
            "change guest_disks: place is not an absolute path",
        ),
        (
            {"do": "guest_disks", "place": "/tmp", "name": "../x", "disks": [], "files": True},
            "change guest_disks: name is not the name of a dir",
        ),
        ({"do": "format"}, "do: 'format' is not a change; allowed: address, bridge, "),
        ({"do": ["tap"]}, "do: ['tap'] is not a change; allowed: "),
        ({}, "do: None is not a change; allowed: "),
        ("tap", "changes has an item that is not an object"),
    ],
)
def test_the_complaint_says_which_change_and_which_field(change: Any, said: str) -> None:
    assert complaint({"do": "tap", "name": "good"}, change).startswith(said)


@tries(300)
@given(JSON, st.sampled_from(sorted(GOOD)), st.data())
def test_whatever_is_asked_for_is_a_change_or_refused(value: Any, do: str, data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(["do", "namespace", *GOOD[do]]))
    for asked in (value, {"do": do, **GOOD[do], field: value}):
        try:
            (change,) = read(asked)
        except WireError as error:
            assert error.code == "bad_message"
        else:
            assert read(change.to_wire()) == [change]


def test_addresses_are_kept_in_one_way_of_writing_them() -> None:
    (change,) = read({"do": "address", "address": "2001:DB8::0:1/64", "interface": "eth1"})
    assert change.to_wire()["address"] == "2001:db8::1/64"


def test_the_lines_enter_the_namespace_and_quote_what_a_shell_would_take_apart() -> None:
    assert Sysctl(name="net.ipv4.tcp_rmem", value="1 2 3", namespace="g").commands() == [
        "ip netns exec g sysctl -w 'net.ipv4.tcp_rmem=1 2 3'"
    ]
    assert Route(destination="198.19.1.1/32", interface="eth0", gateway="198.18.1.2", namespace="g").commands() == [
        "ip -n g route replace 198.19.1.1/32 via 198.18.1.2 dev eth0"
    ]
    assert Veth(name="a", peer="b", peer_namespace="g", peer_mac="02:00:00:00:00:01").commands() == [
        "ip link add a type veth peer name b address 02:00:00:00:00:01 netns g",
        "sysctl -w net/ipv6/conf/a/disable_ipv6=1",
        "ip netns exec g sysctl -w net/ipv6/conf/b/disable_ipv6=1",
    ]
    assert Namespace(name="g").commands() == ["ip netns add g"]
    assert Bridge(name="lcb1", ports=["eth1"]).commands()[-1] == "ip link set eth1 master lcb1 up"


def test_what_makes_the_same_is_undone_in_the_same_way() -> None:
    assert (Tap.kind, Veth.kind) == ("link", "link")
    assert Tap.undo is Veth.undo


def test_a_setting_is_undone_once_or_twice_and_without_its_interface(tmp_path: Any) -> None:
    setting = tmp_path / "forwarding"
    setting.write_text("1")
    entry = {"kind": "sysctl", "values": [[str(tmp_path / "gone" / "x"), "1"], [str(setting), "0"]]}
    for _ in range(2):
        undo(entry)
        assert setting.read_text() == "0"


def test_every_undoing_is_found_by_the_kind_of_its_entry() -> None:
    kinds = {change.kind for change in AnyChange.known.values() if issubclass(change, NetworkChange)}
    assert kinds >= {"address", "bridge", "link", "link_down", "namespace", "neighbour", "route", "sysctl"}
    with pytest.raises(KeyError, match=re.escape("path")):
        undo({"kind": "path", "file": "/none"})
