"""Hypervisors that are described in hosts.yaml: what their templates may say, and how answers are read."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from labconsole.errors import ConfigError, NodeError
from labconsole.model.inventory import load_inventory
from labconsole.platforms.base.shell import Shell
from labconsole.platforms.drivers.command import CommandDriver, find_at_path
from labconsole.platforms.loading import build_driver
from support.hypervisor_cases import HYPERV, PROXMOX
from support.replayed_node import ReplayedNode, hurried, wiring

HOSTS = """\
testbed: bench
nodes:
  src1: {address: src1.lab, roles: [source]}
  uut: {address: uut.lab, roles: [uut]}
  snk1: {address: snk1.lab, roles: [sink]}
streams:
  - {name: s1, source: src1/eth1, uut_in: eth1, uut_out: eth5, sink: snk1/eth1,
     source_ip: 198.18.1.1, sink_ip: 198.19.1.1, link_speed: 1Gbit}
"""


def proxmox(state: str = "stopped") -> ReplayedNode:
    node = ReplayedNode("command", state, interfaces=("eth1", "eth5", "tap101i0", "tap101i1"))
    node.moves = {"qm start 101": "running", "qm shutdown 101": "stopped", "qm stop 101": "stopped"}
    return node


def hyperv() -> ReplayedNode:
    node = ReplayedNode("command", "hyperv off")
    node.moves = {"pwsh start 'fw one'": ("hyperv on", 2), "pwsh off 'fw one'": "hyperv off"}
    return node


def prepare(driver: CommandDriver, node: ReplayedNode) -> Any:
    return asyncio.run(driver.prepare(node, [wiring()]))  # type: ignore[arg-type]


def test_a_hypervisor_of_regular_expressions_is_driven_to_the_end(monkeypatch) -> None:
    driver, node = CommandDriver("pve", PROXMOX), proxmox()
    hurried(driver, monkeypatch)
    prepared = prepare(driver, node)
    assert prepared.paths["s1"].destination_mac == "bc:24:11:00:00:01"
    assert [point.interface for point in prepared.paths["s1"].points] == ["eth1", "tap101i0", "tap101i1", "eth5"]
    assert prepared.attestation["versions"] == {"pveversion": "pve-manager/8.2.4"}
    assert prepared.attestation["machines"]["101"]["nics"][1] == {
        "mac": "bc:24:11:00:00:02",
        "model": "e1000",
        "host_interface": "tap101i1",
        "attached_to": "vmbr2",
    }
    asyncio.run(driver.restore(node))  # type: ignore[arg-type]
    assert node.phase == "stopped"


def test_a_hypervisor_of_json_is_driven_to_the_end(monkeypatch) -> None:
    driver, node = CommandDriver("hv", HYPERV), hyperv()
    pauses = hurried(driver, monkeypatch)
    prepared = prepare(driver, node)
    assert pauses, "it is starting for a while"
    assert prepared.paths["s1"].destination_mac == "00:15:5d:00:00:01"
    assert [point.hop for point in prepared.paths["s1"].points] == ["uut_in", "uut_out"]
    asyncio.run(driver.restore(node))  # type: ignore[arg-type]
    assert node.phase == "hyperv off"


def test_another_guest_that_is_not_known_to_be_stopped_counts_as_running() -> None:
    node = proxmox()
    node.answers("qm list", "  101 fw stopped\n  102 web prelaunch\n  103 old stopped\n")
    with pytest.raises(NodeError, match="102 runs next to 101"):
        prepare(CommandDriver("pve", PROXMOX), node)


def test_a_state_that_the_operator_did_not_name_is_refused_with_those_named() -> None:
    node = proxmox()
    node.answers("qm status 101", "status: hibernated\n")
    with pytest.raises(NodeError, match="guest 101 is 'hibernated'; expected: running, stopped"):
        prepare(CommandDriver("pve", PROXMOX), node)
    node.answers("qm status 101", "nothing\n")
    with pytest.raises(NodeError, match="`qm` reports 0 states of guest 101; expected: one"):
        prepare(CommandDriver("pve", PROXMOX), node)


def test_an_answer_that_is_no_json_is_refused() -> None:
    node = hyperv()
    node.answers("pwsh list", "Get-VM : You do not have the required permission.\n")
    with pytest.raises(NodeError, match="`pwsh` did not print JSON: 'Get-VM : You do not"):
        prepare(CommandDriver("hv", HYPERV), node)
    node.answers("pwsh list", "[" * 100_000)
    with pytest.raises(NodeError, match="did not print JSON"):
        prepare(CommandDriver("hv", HYPERV), node)


def test_json_s_escapes_bring_no_character_that_output_cannot_contain() -> None:
    node = hyperv()
    node.answers("pwsh list", r'[{"Name": "a\ud800b\u001b[2J", "State": "Off\u202e"}]')
    driver = CommandDriver("hv", HYPERV)
    rows = asyncio.run(driver.guests(Shell(node, "hv")))  # type: ignore[arg-type]
    assert {name: guest.said for name, guest in rows.items()} == {"ab[2J": "Off"}


def test_a_command_that_fails_is_said_with_what_it_printed() -> None:
    node = proxmox()
    node.answers("qm list", exit_status=2, stderr="ipcc_send_rec failed: Connection refused\n")
    with pytest.raises(NodeError, match="`qm list` failed: ipcc_send_rec failed: Connection refused"):
        prepare(CommandDriver("pve", PROXMOX), node)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"list": None}, "platforms.pve.list"),
        ({"state": {"argv": ["x"]}}, "platforms.pve.state: needs either regex or json"),
        ({"state": {"argv": ["x"], "regex": "a", "json": {}}}, "needs either regex or json"),
        ({"state": {"argv": ["x"], "regex": "(state"}}, "state.regex: is not a regular expression"),
        ({"state": {"argv": ["x"], "regex": "(a)"}}, "platforms.pve.state: must produce: state"),
        ({"nics_of": {"argv": ["x"], "json": {"each": "*"}}}, "platforms.pve.nics_of: must produce: mac"),
        ({"start": []}, "platforms.pve.start"),
        ({"start": "qm start 101"}, "platforms.pve.start: is not a list, got 'qm start 101'"),
        ({"start": ["qm", "{name}"]}, "has an unknown placeholder {name}; allowed: {guest}"),
        ({"host_interface": "tap{vm}"}, "platforms.pve.host_interface: has an unknown placeholder"),
        ({"restart": ["qm"]}, "platforms.pve.restart: unknown option of driver command"),
        ({"cpu": 1}, "driver command cannot pin a guest"),
    ],
)
def test_templates_that_cannot_work_are_refused_when_they_are_read(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        CommandDriver("pve", {**PROXMOX, **changed})
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", [{"a": [{"b": 1}, {"b": 2}, {}], "c": None}]),
        ("a.*.b", [1, 2]),
        ("a.1.b", [2]),
        ("a.9.b", []),
        ("c.d", []),
        ("*.*.b", [1, 2]),
        ("nowhere", []),
    ],
)
def test_a_path_into_json_finds_what_is_there(path: str, found: list[Any]) -> None:
    assert list(find_at_path({"a": [{"b": 1}, {"b": 2}, {}], "c": None}, path)) == found


def test_the_platforms_in_the_documentation_are_accepted(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "platforms.md").read_text()
    blocks = re.findall(r"```yaml\n(platforms:\n.*?)```", page, re.DOTALL)
    (whole,) = re.findall(r"```yaml\n(testbed:.*?)```", page, re.DOTALL)
    assert len(blocks) == 5
    for text in (*(HOSTS + block for block in blocks), whole):
        file = tmp_path / "hosts.yaml"
        file.write_text(text)
        inventory = load_inventory(file)
        for platform in inventory.platforms:
            assert build_driver(platform, inventory) is not None
    with pytest.raises(
        ConfigError,
        match=r"platforms\.proxmox\.driver: is not a driver for this version of labconsole.*bypass, command",
    ):
        file.write_text(HOSTS + blocks[1].replace("driver: command", "driver: hyperv"))
        build_driver("proxmox", load_inventory(file))
