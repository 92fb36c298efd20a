"""The files that a lab writes, and the inventory in the repository that describes the default lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from labconsole.errors import ConfigError, LabSetupError
from labconsole.lab.files import hosts_yaml, ssh_config
from labconsole.lab.nodes.network import loss_rules, parse_loss_counts
from labconsole.lab.platforms import check_rights
from labconsole.lab.spec import LabSpec, lay_out, shaper_burst_bytes
from labconsole.model.inventory import Inventory, load_inventory
from labconsole.platforms.loading import build_driver

ROOT = Path(__file__).resolve().parents[2]


def generated(tmp_path: Path, spec: LabSpec, ssh_config_path: str = "~/.ssh/config") -> Inventory:
    path = tmp_path / "hosts.yaml"
    path.write_text(hosts_yaml(spec, lay_out(spec, 0), ssh_config_path))
    return load_inventory(path)


def test_the_committed_inventory_means_what_the_default_lab_writes(tmp_path: Path) -> None:
    committed = load_inventory(ROOT / "hosts.yaml")
    written = generated(tmp_path, LabSpec(), "~/.local/state/labconsole/labs/local/ssh_config")
    assert committed.model_dump() == written.model_dump()


def test_every_size_of_lab_is_a_valid_inventory_without_shared_links(tmp_path: Path) -> None:
    for sources in (1, 4, 5, 99):
        inventory = generated(tmp_path, LabSpec(sources=sources))
        assert len(inventory.streams) == sources
        assert len(inventory.nodes) == 2 * sources + 1


def test_every_stream_may_pass_either_of_a_labs_containers_by_nics_of_its_own(tmp_path: Path) -> None:
    inventory = generated(tmp_path, LabSpec(name="two", platforms=("lxc",)), "/a b/it's/ssh_config")
    driver = build_driver("lxc", inventory)
    assert [driver.refusal(kind) for kind in ("none", "idle", "heavy", "forwarding-95")] == [None] * 4
    told = inventory.platforms["lxc"].options
    assert (told["guest"], told["second_guest"], told["path"]) == ("two-first", "two-second", "/a b/it's/lxc")
    macs = [mac for nics in told["nics"] for mac in (nics["in_mac"], nics["out_mac"])]
    assert len(set(macs)) == len(macs) == 2 * 2 * 3
    with pytest.raises(ConfigError, match="at most 8 with platform lxc"):
        LabSpec(sources=9, platforms=("lxc",))


def test_without_root_a_lab_with_lxc_is_refused_by_what_to_type(monkeypatch) -> None:
    monkeypatch.setattr("labconsole.lab.platforms.os.geteuid", lambda: 1000)
    with pytest.raises(LabSetupError, match="platform lxc needs root, because .*run `sudo labconsole lab up"):
        check_rights(("raw", "lxc"))
    check_rights(("raw", "container"))


def test_a_path_with_quotes_and_blanks_survives_yaml_and_ssh_config(tmp_path: Path) -> None:
    assert generated(tmp_path, LabSpec(), "/a b/it's").defaults.ssh_config == "/a b/it's"
    text = ssh_config(LabSpec(), lay_out(LabSpec(), 0), Path("/a b/50%"))
    assert 'IdentityFile "/a b/50%%/id_ed25519"' in text


def test_macs_and_addresses_are_unique_and_the_same_every_time() -> None:
    layout = lay_out(LabSpec(sources=99), 7)
    macs = [interface.mac for node in layout.nodes for interface in node.interfaces]
    addresses = [node.address for node in layout.nodes]
    assert len(set(macs)) == len(macs) == 4 * 99
    assert len(set(addresses)) == len(addresses)
    assert all(address.startswith("127.18.7.") for address in addresses)
    assert layout == lay_out(LabSpec(sources=99), 7)


def test_the_uut_has_the_papers_eight_ports_in_mind() -> None:
    assert [stream.uut_out for stream in lay_out(LabSpec(sources=3), 0).streams] == ["eth5", "eth6", "eth7"]
    assert [stream.uut_out for stream in lay_out(LabSpec(sources=5), 0).streams][0] == "eth6"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"name": "../x"}, "name"),
        ({"name": ""}, "name"),
        ({"sources": 0}, "sources"),
        ({"sources": 100}, "sources"),
        ({"sources": True}, "sources"),
        ({"mtu": 10}, "mtu"),
        ({"link_speed_bps": 0}, "link_speed_bps"),
        ({"ssh_server": "dropbear"}, "ssh_server"),
        ({"generator": "trafgen"}, "generator"),
        ({"generator": "pktgen", "ssh_server": "openssh"}, "ssh_server"),
        ({"loss": {"sink/in": 0.1}}, "uut/in, uut/out"),
        ({"loss": {"uut/out": 1.1}}, "loss.uut/out"),
        ({"loss": {"uut/out": -0.1}}, "0 to 1"),
        ({"loss": {"uut/out": float("nan")}}, "0 to 1"),
        ({"loss": {"uut/out": "7%"}}, "0 to 1"),
    ],
)
def test_an_impossible_option_is_named_with_what_is_allowed(options: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match="allowed") as caught:
        LabSpec(**options)  # type: ignore[arg-type]
    assert named in str(caught.value)


def test_a_spec_survives_json_and_names_its_differences() -> None:
    spec = LabSpec(name="x", loss={"uut/in": 0.5}, link_speed_bps=None)
    assert LabSpec.from_json(spec.to_json()) == spec
    assert spec.differences(LabSpec(name="x", loss={"uut/in": 0.5})) == ["link_speed_bps: None, not 1000000000"]


def test_the_shaper_holds_two_frames_even_on_a_slow_link() -> None:
    assert shaper_burst_bytes(LabSpec()) == 125_000
    assert shaper_burst_bytes(LabSpec(link_speed_bps=10**6)) >= 2 * 1538


def test_loss_rules_count_on_each_interface_of_the_hop() -> None:
    uut = lay_out(LabSpec(sources=2), 0).node("uut")
    rules = loss_rules(uut, {"uut/out": 0.07, "uut/in": 1})
    assert rules.count("< 70000000 counter name") == 2
    assert rules.count("hook ingress") == rules.count("hook egress") == 2
    assert "counter name dropped-eth1 drop" in rules


def test_truth_is_read_from_nft_counters() -> None:
    text = (
        '{"nftables": [{"metainfo": {}}, {"counter": {"name": "seen-eth5", "packets": 10, "bytes": 1}},'
        ' {"counter": {"name": "dropped-eth5", "packets": 3, "bytes": 1}}]}'
    )
    assert parse_loss_counts(text) == {"eth5": {"seen_packets": 10, "dropped_packets": 3}}
