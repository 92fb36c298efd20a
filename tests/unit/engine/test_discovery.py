"""From links and heard frames to cables, roles, streams and a hosts.yaml."""

import asyncio
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from labconsole.engine.discovery import probing
from labconsole.engine.discovery.discovery import DiscoveryRequest, DiscoveryResult
from labconsole.engine.discovery.hosts_file import HostsNode, hosts_text
from labconsole.engine.discovery.machines import find_stated_roles, parse_machines
from labconsole.engine.discovery.probing import (
    TEST_NETWORK,
    Heard,
    Port,
    ProbeResult,
    draw_target,
    probe,
    read_ports,
    sort_ports,
)
from labconsole.engine.discovery.wiring import find_wiring, propose
from labconsole.errors import ConfigError, NodeError
from labconsole.model.inventory import load_inventory
from labconsole.wire import survey
from labconsole.wire.changes import RouteEntry
from labconsole.wire.links import NodeLinkState
from labconsole.wire.survey import HeardStream, ReadListening
from support.wired_nodes import WiredLink, WiredNodes


def link(name: str, **more: object) -> NodeLinkState:
    given: dict[str, Any] = {
        "namespace": "",
        "index": 2,
        "name": name,
        "mac": "02:00:00:00:00:01",
        "mtu": 1500,
        "kind": None,
        "driver": "ixgbe",
        "up": True,
        "carrier": True,
        "speed_bps": 10**10,
        "pause": None,
        "master": None,
    }
    return NodeLinkState(**(given | more))


def port(name: str, **more: object) -> Port:
    node, _, interface = name.partition("/")
    given: dict[str, Any] = {"mac": f"02:{name}", "driver": "ixgbe", "speed_bps": 10**10, "up": True}
    return Port(node=node, interface=interface, **(given | more))


def names(ports: object) -> list[str]:
    return [str(each) for each in ports]  # type: ignore[attr-defined]


def test_what_is_used_for_anything_is_left_alone_and_why_is_said():
    links = [
        link("eth10"),
        link("eth9"),
        link("lo", mac="00:00:00:00:00:00"),
        link("eno1"),
        link("mgmt0"),
        link("uplink"),
        link("br0", kind="bridge"),
        link("eth3", master="br0"),
        link("brm", kind="bridge"),
        link("eth4", master="brm"),
        link("bond0", kind="bond"),
        link("eth5", master="bond0"),
        link("tun0", kind="tun"),
        link("inside", namespace="guest"),
        link("ib0", mac="80:00:00:00:00:00:00:00:00:00:00:00"),
    ]
    ports, alone = sort_ports(
        "uut",
        links,
        "eno1",
        {"mgmt0": ["10.0.0.1"], "brm": ["10.1.0.1"], "eno1": ["10.2.0.1"]},
        [RouteEntry(destination="default", interface="uplink", gateway=None)],
    )
    assert names(ports) == ["uut/eth3", "uut/eth9", "uut/eth10"]
    assert ports[0].bridge == "br0"
    assert {each.interface: each.why for each in alone} == {
        "eno1": "SSH uses it",
        "mgmt0": "the address 10.0.0.1 is on it",
        "uplink": "the route to default uses it",
        "eth4": "the address 10.1.0.1 is on brm, to which it belongs",
        "eth5": "it belongs to bond0",
    }


def test_who_carries_what_is_used_is_left_alone_and_so_is_a_bridges_port_that_is_down():
    links = [
        link("eth0"),
        link("eth0.10", kind="vlan", parent="eth0"),
        link("eth1"),
        link("br0", kind="bridge"),
        link("br0.7", kind="vlan", parent="br0"),
        link("eth2", master="br0"),
        link("brl", kind="bridge"),
        link("eth3", master="brl", up=False),
        link("eth4", kind="veth"),
        link("br10", kind="bridge"),
        link("eth5.10", kind="vlan", parent="eth5", master="br10"),
        link("eth5"),
    ]
    ports, alone = sort_ports("uut", links, "eth0.10", {"br0.7": ["10.0.0.1"], "br10": ["10.0.1.1"]}, [])
    assert names(ports) == ["uut/eth1", "uut/eth4"]
    assert {each.interface: each.why for each in alone} == {
        "eth0": "SSH uses eth0.10, which is on it",
        "eth2": "the address 10.0.0.1 is on br0.7, which is on br0, to which it belongs",
        "eth3": "it is down in brl: setting it up might close a loop",
        "eth5": "the address 10.0.1.1 is on br10, to which eth5.10 belongs, which is on it",
    }


def test_names_that_hosts_yaml_refuses_are_left_alone_and_none_is_a_format():
    """A node may call its interfaces what it likes, and have thousands in a row."""
    row = [link(f"x{number}", kind="vlan", parent=f"x{number + 1}") for number in range(4000, 0, -1)]
    links = [link("{x}", kind="vlan", parent="eth1"), link("eth1"), link("eth:2"), link("-eth3"), link("eth4"), *row]
    ports, alone = sort_ports("uut", [*links, link("x4001")], "{x}", {"x1": ["10.0.0.1"]}, [])
    assert names(ports) == ["uut/eth4"]
    why = {each.interface: each.why for each in alone}
    assert why.pop("x4001").endswith("which is on x4000, which is on it")
    assert why == {
        "eth1": "SSH uses {x}, which is on it",
        "eth:2": "hosts.yaml cannot have this name: rename it on the node",
        "-eth3": "hosts.yaml cannot have this name: rename it on the node",
    }
    assert all(len(each.why) < 500 for each in alone)


def heard_of(ports: list[Port], pairs: dict[str, list[str]]) -> Heard:
    by_name = {str(each): each for each in ports}
    return {by_name[name]: {tuple(far.split("/")): 5 for far in fars} for name, fars in pairs.items()}  # type: ignore[misc]


def test_cables_are_pairs_that_hear_each_other_and_a_lost_frame_is_told():
    ports = [port(name) for name in ("uut/a", "uut/b", "src/x", "snk/y")]
    heard = heard_of(ports, {"uut/a": ["src/x"], "src/x": ["uut/a"], "uut/b": ["snk/y"], "snk/y": ["uut/b"]})
    heard[ports[0]]["src", "x"] = 3
    found = find_wiring(ports, heard, {})
    assert [(str(wire.one), str(wire.other), wire.lost_frames) for wire in found.wires] == [
        ("uut/a", "src/x", 2),
        ("uut/b", "snk/y", 0),
    ]


def test_what_a_bridge_of_the_uut_passes_on_is_no_cable():
    ports = [port(name) for name in ("uut/a", "uut/b", "src/x", "snk/y")]
    heard = heard_of(
        ports, {"uut/a": ["src/x"], "src/x": ["uut/a", "snk/y"], "uut/b": ["snk/y"], "snk/y": ["uut/b", "src/x"]}
    )
    found = find_wiring(ports, heard, {})
    assert [names((wire.one, wire.other)) for wire in found.wires] == [["uut/a", "src/x"], ["uut/b", "snk/y"]]
    assert names(found.wires[0].also_heard) == ["snk/y"]


def test_ports_on_a_switch_are_not_guessed_apart():
    ports = [port(name) for name in ("uut/a", "uut/b", "src/x", "snk/y")]
    every = [str(each) for each in ports]
    found = find_wiring(ports, heard_of(ports, {one: [far for far in every if far != one] for one in every}), {})
    assert found.wires == ()
    assert [names(group) for group in found.shared] == [every]


def test_one_way_silent_refused_and_wired_to_what_is_left_alone_are_told_apart():
    ports = [port(name) for name in ("uut/a", "uut/b", "src/x", "snk/y", "snk/z")]
    heard = heard_of(ports, {"src/x": ["uut/a"], "snk/y": ["uut/mgmt"]})
    found = find_wiring(ports, heard, {ports[4]: "it is gone"})
    assert [names(pair) for pair in found.one_way] == [["src/x", "uut/a"]]
    assert names(found.silent) == ["uut/b", "snk/y", "snk/z"]
    assert found.elsewhere == {ports[3]: ("uut/mgmt",)}
    assert found.refused == {ports[4]: "it is gone"}


def wired(*pairs: tuple[str, str]) -> tuple[list[Port], Heard]:
    ports = [port(name) for pair in pairs for name in pair]
    return ports, heard_of(ports, {one: [other] for pair in pairs for one, other in (pair, pair[::-1])})


def proposed(
    nodes: list[str], said: dict[str, tuple[str, ...]], *pairs: tuple[str, str]
) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    ports, heard = wired(*pairs)
    found = propose(nodes, said, find_wiring(ports, heard, {}))
    return (
        [f"{each.source} {each.uut_in.interface} {each.uut_out.interface} {each.sink}" for each in found.streams],
        dict(found.roles),
    )


def test_roles_follow_the_words_then_the_names_then_the_order():
    pairs = (("a/e", "uut/1"), ("b/e", "uut/2"), ("c/e", "uut/3"), ("d/e", "uut/4"))
    said: dict[str, tuple[str, ...]] = {"uut": ("uut",)}
    assert proposed(["uut", "a", "b", "c", "d"], said, *pairs)[0] == ["a/e 1 3 c/e", "b/e 2 4 d/e"]
    told = said | {"a": ("sink",), "d": ("source",)}
    assert proposed(["uut", "a", "b", "c", "d"], told, *pairs)[0] == ["b/e 2 1 a/e", "d/e 4 3 c/e"]
    by_name = [(one.replace("a/", "x-snk/").replace("c/", "gen1/"), other) for one, other in pairs]
    assert proposed(["uut", "x-snk", "b", "gen1", "d"], said, *by_name)[1]["x-snk"] == ("sink",)


def test_one_machine_beside_the_uut_is_source_and_sink():
    pairs = (("tester/e1", "uut/1"), ("tester/e2", "uut/2"), ("tester/e10", "uut/3"), ("tester/e3", "uut/4"))
    streams, roles = proposed(["uut", "tester"], {"uut": ("uut",)}, *pairs)
    assert streams == ["tester/e1 1 4 tester/e3", "tester/e2 2 3 tester/e10"]
    assert roles["tester"] == ("source", "sink")


def test_without_a_path_the_machine_that_has_more_cables_is_named():
    ports = [port(name) for name in ("src1/a", "dut1/a", "dut1/b", "snk1/a")]
    cables = {"src1/a": "dut1/a", "snk1/a": "dut1/b"}
    both = cables | {far: near for near, far in cables.items()}
    wiring = find_wiring(ports, heard_of(ports, {near: [far] for near, far in both.items()}), {})
    asked = parse_machines(["dut1", "uut=src1", "snk1"])
    proposal = propose([each.name for each in asked], find_stated_roles(asked), wiring)
    with pytest.raises(ConfigError) as refused:
        DiscoveryResult(DiscoveryRequest(asked), ports, [], wiring, proposal, []).hosts_text("t")
    assert "dut1 has 2 cables to the others, and src1 1: if dut1 is the unit under test" in str(refused.value)


def test_what_has_no_partner_is_spare():
    ports, heard = wired(("src/1", "uut/1"), ("src/2", "uut/2"), ("snk/1", "uut/3"))
    found = propose(["uut", "src", "snk"], {"uut": ("uut",)}, find_wiring(ports, heard, {}))
    assert len(found.streams) == 1
    assert names(found.spare) == ["src/2"]


def test_the_file_that_is_written_is_read_and_means_the_same(tmp_path: Path):
    ports, heard = wired(("src/1", "uut/1"), ("snk/1", "uut/3"))
    found = propose(["uut", "src", "snk"], {"uut": ("uut",)}, find_wiring(ports, heard, {}))
    nodes = [
        HostsNode("uut", "10.0.0.1", ("uut",), "root", 2222),
        HostsNode("src", "yes", ("source",), "1"),
        HostsNode("snk", "2001:db8::7", ("sink",), port=1),
    ]
    text = hosts_text(
        "lab-1", nodes, found.streams, found="Made up.", defaults={"ssh_config": "~/.ssh/x y"}, become=True
    )
    (tmp_path / "hosts.yaml").write_text(text)
    read = load_inventory(tmp_path / "hosts.yaml")
    assert [(each.user, each.address, each.port) for each in read.nodes.values()] == [
        ("root", "10.0.0.1", 2222),
        ("1", "yes", None),
        (None, "2001:db8::7", 1),
    ]
    assert read.nodes["src"].become == "sudo"
    assert (str(read.streams[0].source), read.streams[0].uut_in, read.streams[0].link_speed) == ("src/1", "1", 10**10)
    assert read.defaults.ssh_config == "~/.ssh/x y"
    assert not read.emulated


def test_machines_are_named_by_what_one_types():
    words = [
        "uut=root@dut1",
        "src1:22",
        "source+sink=10.0.0.7",
        "sink=lab@10.0.0.8:2222",
        "root@10.0.0.9",
        "2001:db8::1",
        "lab@[2001:db8::1]:22",
        "[fe80::1%eth0]",
        "ssh://a@b.example.org:7/",
        "sink=10.0.0.8:2223",
        "gen=src2",
        "src2=lab@10.0.0.5:2222",
        "sink3=10.0.0.6",
        "sink=10.0.0.4",
    ]
    found = parse_machines(words)
    assert [(each.name, each.user, each.address, each.port, each.roles) for each in found] == [
        ("dut1", "root", "dut1", None, ("uut",)),
        ("src1", None, "src1", 22, ()),
        ("source1", None, "10.0.0.7", None, ("source", "sink")),
        ("sink1", "lab", "10.0.0.8", 2222, ("sink",)),
        ("node1", "root", "10.0.0.9", None, ()),
        ("node2", None, "2001:db8::1", None, ()),
        ("node3", "lab", "2001:db8::1", 22, ()),
        ("node4", None, "fe80::1%eth0", None, ()),
        ("b.example.org", "a", "b.example.org", 7, ()),
        ("sink2", None, "10.0.0.8", 2223, ("sink",)),
        ("gen", None, "src2", None, ()),
        ("src2", "lab", "10.0.0.5", 2222, ()),
        ("sink3", None, "10.0.0.6", None, ()),
        ("sink4", None, "10.0.0.4", None, ("sink",)),
    ]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["src1", "snk1"], "exactly one machine is the unit under test"),
        (["uut=a", "uut=b"], "exactly one machine is the unit under test"),
        (["uut=a"], "more than the unit under test"),
        (["uut=a", "a"], "the same machine is named twice"),
        (["uut=a", "source+router=b"], "is not a machine"),
        (["uut=a", "x=b", "x=c"], "gives two machines the same name"),
        (["uut=a", "sink="], "is not a machine"),
        (["uut+sink=a", "b"], "is not a machine"),
        (["uut=a b", "c"], "is not a valid SSH destination: is not a valid login"),
        (["uut=root@a", "lab@a"], "the same machine is named twice"),
        (["uut=@a", "b"], "no user before the @, got '@a'; allowed: \\[user@]host"),
        (["uut=root@", "b"], "no host"),
        (["uut=:22", "b"], "no host"),
        (["uut=-oProxyCommand@a", "b"], "is not a valid login.*got '-oProxyCommand'"),
        (["uut=a:", "b"], "the port is not a number from 1 to 65535"),
        (["uut=a:0", "b"], "the port is not a number from 1 to 65535"),
        (["uut=a:65536", "b"], "the port is not a number from 1 to 65535"),
        (["uut=a:ssh", "b"], "the port is not a number from 1 to 65535"),
        (["uut=a:22:23", "b"], "more than one colon, and not an IPv6 address"),
        (["uut=[2001:db8::1", "b"], "the brackets are not closed"),
        (["uut=[2001:db8::1]22", "b"], "not followed by a port"),
        (["uut=[a]:22", "b"], "in brackets is not an IPv6 address"),
    ],
)
def test_words_that_make_no_sense_are_refused(words: list[str], problem: str):
    with pytest.raises(ConfigError, match=problem):
        parse_machines(words)


def test_all_machines_that_make_no_sense_are_named_at_once():
    with pytest.raises(ConfigError) as refused:
        parse_machines(["uut=a:", "b", "source+router=c", "@d"])
    for word in ("'a:'", "'source+router=c'", "'@d'"):
        assert word in str(refused.value)
    assert str(refused.value).count("allowed:") == 1


class Overheard(WiredNodes):
    """Nodes that hear, besides what is sent to them, frames of another discovery: its ports, its own addresses."""

    def __init__(self) -> None:
        super().__init__([("src/eth0", "uut/eth0"), ("uut/eth1", "snk/eth0")])
        for node, interface, port in (("src", "eth0", 30_001), ("snk", "eth0", 30_000), ("uut", "eth1", 30_000)):
            row = HeardStream(
                interface=interface, source_ip="198.18.255.1", sink_ip="198.18.255.2", udp_sink_port=port, packets=5
            )
            self.heard[node] = [row]


async def probed(nodes: WiredNodes) -> ProbeResult:
    links = {name: WiredLink(nodes, name) for name in ("uut", "src", "snk")}
    ports, _ = await read_ports(links)  # type: ignore[arg-type]
    return await probe(links, ports)  # type: ignore[arg-type]


def test_frames_of_another_discovery_make_no_cable():
    found = asyncio.run(probed(Overheard()))
    wiring = find_wiring(found.ports, found.heard, found.refused)
    assert sorted(sorted(map(str, (wire.one, wire.other))) for wire in wiring.wires) == [
        ["snk/eth0", "uut/eth1"],
        ["src/eth0", "uut/eth0"],
    ]
    assert all(not wire.also_heard and not wire.lost_frames for wire in wiring.wires)


def test_each_discovery_draws_its_addresses():
    drawn = [draw_target() for _ in range(20)]
    assert len({each.source_ip for each in drawn}) > 15 and len({each.mac for each in drawn}) == 20
    assert all(ip_address(ip) in TEST_NETWORK for each in drawn for ip in (each.source_ip, each.sink_ip))


def test_a_listener_that_missed_frames_is_no_witness_and_the_node_is_named(monkeypatch: pytest.MonkeyPatch):
    ask = WiredLink.ask

    async def deaf(self: WiredLink, request: Any, *, timeout_s: float = 30.0) -> Any:
        answer = await ask(self, request, timeout_s=timeout_s)
        if isinstance(request, ReadListening) and self.name == "snk":
            return survey.Heard(heard=answer.heard, complete=False)
        return answer

    monkeypatch.setattr(WiredLink, "ask", deaf)
    nodes = Overheard()
    with pytest.raises(NodeError, match="more test frames arrive than a listener counts") as refused:
        asyncio.run(probed(nodes))
    assert refused.value.node == "snk"
    assert [node for node, request in nodes.asked if request == "UndoChanges"] == ["uut", "src", "snk"]


def test_frames_that_somebody_repeats_without_end_end_the_discovery(monkeypatch: pytest.MonkeyPatch):
    ask = WiredLink.ask

    async def repeated(self: WiredLink, request: Any, *, timeout_s: float = 30.0) -> Any:
        if isinstance(request, ReadListening) and self.name == "snk":
            (row, *_), number = nodes.heard["snk"][-1:], len(nodes.asked)
            more = {**row.to_wire(), "interface": f"odd{number}", "packets": number}
            nodes.heard["snk"] = [row, HeardStream.parse(more)]
        return await ask(self, request, timeout_s=timeout_s)

    monkeypatch.setattr(WiredLink, "ask", repeated)
    monkeypatch.setattr(probing, "HEAR_S", 0.3)
    nodes = WiredNodes([("src/eth0", "uut/eth0"), ("uut/eth1", "snk/eth0")])
    with pytest.raises(NodeError, match="test frames still arrive at odd") as refused:
        asyncio.run(asyncio.wait_for(probed(nodes), 20))
    assert refused.value.node == "snk"
    assert [node for node, request in nodes.asked if request == "UndoChanges"] == ["uut", "src", "snk"]
