"""Starts of guests that hosts.yaml names, timed, of every driver of an installed hypervisor against its recorded shell."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from labconsole.contracts.crew import BootMark, CrewWanted, HypervisorWord
from labconsole.engine.crew_measurement import DID_NOT_COME
from labconsole.errors import AgentError, ConfigError, NodeError, NodeLost
from labconsole.measure.external_timing import Nonce
from labconsole.model.record.kind import GuestEntry
from labconsole.platforms.base.guest_shell import LACKS, NO_BUSYBOX, installed_loop
from support.hypervisor_cases import BY_DRIVER
from support.named_guests import CrewNode
from unit.platforms.test_named_crew import OWN_WAY, every, made, options, wanted

MARK = BootMark("198.18.100.7", Nonce(700, 0x0A))
MIB = 2**20


def timed(limit_s: float = 300.0) -> CrewWanted:
    """One guest that sends a mark once it is up."""
    crew = wanted()
    return replace(crew, members=(replace(crew.members[0], boot_mark=MARK),), limit_s=limit_s, anew=True)


def stands(driver: Any, node: CrewNode, crew: CrewWanted | None = None) -> Any:
    return asyncio.run(driver.prepare_crew(node, crew or timed()))


@every
def test_a_guest_that_is_off_is_started_sends_its_mark_and_is_stopped_again(case, monkeypatch) -> None:
    driver, node, inside = made(case, "stopped", monkeypatch)
    node.said = "Linux is up\r\nmark 2\r\n"
    crew = stands(driver, node)
    (member,) = crew.members
    assert node.open["g1"][-3:] == ["sh", "-c", installed_loop(MARK, case.in_mac, "198.18.64.1/18")]
    assert (member.mac, member.host_interface) == (case.in_mac, case.ends[0] if case.ends else None)
    # The second look at the clock is right before its start command.
    assert (crew.started_ns, member.started_ns, member.ready_ns) == (2, 2, 3)
    assert member.way_in == GuestEntry(tries=1, gap_s=None, mark_tries=2, joined_s=None)
    assert inside.addresses == [], "nothing was asked of it"
    assert crew.attestation["members"] == {"g1": case.guest}
    assert asyncio.run(crew.attest(node)) == crew.attestation
    asyncio.run(driver.restore(node))
    assert (node.phase, node.open) == ("stopped", {})


@every
def test_a_guest_that_runs_is_refused_and_left_alone(case, monkeypatch) -> None:
    driver, node, inside = made(case, "running", monkeypatch)
    with pytest.raises(
        NodeError, match=f"{case.guest} runs already, but a start-up time is measured only from guests that are off"
    ):
        stands(driver, node)
    asyncio.run(driver.restore(node))
    assert (node.phase, node.opened, inside.addresses) == ("running", 0, [])


def test_what_leads_inside_is_tried_until_it_does_and_the_record_says_how_often(monkeypatch) -> None:
    driver, node, _ = made(BY_DRIVER["xl"], "stopped", monkeypatch)
    node.moves["xl create /etc/xen/hvtest-domu.cfg 'name=\"hvtest-domu\"'"] = "running"
    node.not_yet = 3
    way_in = stands(driver, node).members[0].way_in
    assert way_in is not None
    assert (way_in.tries, way_in.mark_tries) == (4, None)
    assert way_in.gap_s == pytest.approx(0.1)


def test_a_bridge_that_is_made_is_said_with_the_time(monkeypatch) -> None:
    driver, node, _ = made(BY_DRIVER["lxc"], "stopped", monkeypatch, bridges="made")
    node.bridged = False
    way_in = stands(driver, node).members[0].way_in
    assert [args["changes"] for _, args in node.changes] == [
        [{"do": "bridge", "name": "lcbg", "ports": ["eth5"]}],
        [{"do": "bridge_port", "name": "lcbg", "port": "vc-in"}],
    ]
    assert way_in is not None
    assert way_in.joined_s is not None


@pytest.mark.parametrize("called", [*(BY_DRIVER["xl"].ends or ())[:1], "other0", None])
def test_a_nic_is_joined_right_away_where_its_name_is_known_and_else_when_it_is(
    called: str | None, monkeypatch
) -> None:
    """What its file calls it may be what no interface is called."""
    driver, node, _ = made(BY_DRIVER["xl"], "stopped", monkeypatch, bridges="made")
    node.answers(XL_CREATE, json.dumps({"nics": [{"mac": "00:16:3e:00:00:01", "ifname": called}] * 2}))
    plain = node.request

    async def request(op: str, args: dict[str, Any] | None = None, *, timeout_s: float = 30.0) -> dict[str, Any]:
        if op == "net.apply" and (args or {})["changes"][0].get("port") == "other0":
            raise AgentError("uut", "interface other0 does not exist here", code="no_such_interface")
        return await plain(op, args, timeout_s=timeout_s)

    monkeypatch.setattr(node, "request", request)
    node.bridged = False
    member = stands(driver, node).members[0]
    changes = [args["changes"][0] for _, args in node.changes]
    assert [each["port"] for each in changes if each["do"] == "bridge_port"] == [member.host_interface]
    assert member.way_in.joined_s is not None


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"not_yet": 10**6}, "guest_ended", "no shell inside guest fw: guest g1 ended with status 255"),
        ({"deaf": frozenset({"g1"})}, "guest_silent", "no shell inside guest fw: guest g1 did not answer"),
        ({"moves": {}}, "guest_ended", "guest fw is STOPPED .*expected: running"),
    ],
)
def test_a_guest_that_does_not_come_is_told_as_missing_and_stopped(change, code, said, monkeypatch) -> None:
    driver, node, _ = made(BY_DRIVER["lxc"], "stopped", monkeypatch)
    for key, value in change.items():
        setattr(node, key, value)
    for command in ("lxc-start -P /srv/lxc -n fw -d",):
        node.phases[""].setdefault(command, {"exit_status": 0, "stdout": "", "stderr": "", "truncated": False})
    with pytest.raises(AgentError, match=said) as told:
        stands(driver, node, timed(limit_s=5.0))
    assert told.value.code == code
    assert (node.phase, node.open) == ("stopped", {})


@pytest.mark.parametrize("crew", [timed(), wanted()], ids=["start", "job"])
def test_a_guest_without_busybox_is_told_at_once_by_its_code_and_stopped(crew: CrewWanted, monkeypatch) -> None:
    """What leads inside is not tried again: it led there."""
    driver, node, _ = made(BY_DRIVER["lxc"], "stopped", monkeypatch)
    plain, starts = node.request, []

    async def request(op: str, args: dict[str, Any] | None = None, *, timeout_s: float = 30.0) -> dict[str, Any]:
        if op == "guest.start":
            starts.append(args)
            ends = f"guest g1 ended with status 1; its console ends: {LACKS}"
            raise AgentError("uut", ends, code="guest_ended")
        return await plain(op, args, timeout_s=timeout_s)

    monkeypatch.setattr(node, "request", request)
    with pytest.raises(AgentError, match="no shell inside guest fw: guest g1 has no busybox") as told:
        stands(driver, node, crew)
    assert (told.value.code, len(starts)) == (NO_BUSYBOX, 1)
    assert NO_BUSYBOX in DID_NOT_COME
    assert (node.phase, node.open) == ("stopped", {})


def test_what_a_lost_node_kept_from_being_stopped_is_stopped_when_it_is_back(monkeypatch) -> None:
    driver, node, _ = made(BY_DRIVER["lxc"], "stopped", monkeypatch)
    stands(driver, node)
    node.lost = True
    with pytest.raises(NodeLost):
        asyncio.run(driver.restore(node))
    node.lost = False
    asyncio.run(driver.restore(node))
    assert (node.phase, node.open) == ("stopped", {})


@pytest.mark.parametrize(
    ("driver", "more", "said"),
    [
        ("lxc", {"guest_files": ["srv/{guest}"]}, r"guest_files\[0\]: is not an absolute path"),
        ("lxc", {"guest_files": ["/srv/{guest}/../x"]}, r"guest_files\[0\]: is not an absolute path"),
        ("lxc", {"guest_files": ["/srv/{name}"]}, r"guest_files\[0\]: is not an absolute path"),
        ("lxc", {"guest_files": []}, "guest_files: .*at least 1 item"),
        ("lxc", {"guest_files": ["/srv/a"], "ssh": "host"}, "guest_files: is not possible with ssh"),
        (
            "xl",
            {"guests": [], "guest_nic": None, "guest_shell": None, "guest_files": ["/srv/a"]},
            "guest_files: needs guests",
        ),
    ],
)
def test_files_that_cannot_be_are_told_by_their_key(driver: str, more: dict[str, Any], said: str) -> None:
    case = BY_DRIVER[driver]
    told = {key: value for key, value in {**options(case), **more}.items() if value is not None}
    with pytest.raises(ConfigError, match=said):
        case.make(**told)


XL_CREATE = "xl -N create /etc/xen/hvtest-domu.cfg 'name=\"hvtest-domu\"'"


@pytest.mark.parametrize(
    "told",
    [
        '{"nics": [{"devid": 0, "mac": "00:16:3e:00:00:01"}, {"devid": 1, "mac": "00:16:3e:00:00:02"}]}',
        '{"nics": [{"devid": 0}, {"devid": 1}]}',
        '{"nics": 7}',
        '{"nics": [7]}',
        "[]",
        "nothing",
        "[" * 100_000,
    ],
)
def test_what_xen_says_of_a_guest_that_is_off_is_used_as_far_as_it_goes(told: str, monkeypatch) -> None:
    driver, node, _ = made(BY_DRIVER["xl"], "stopped", monkeypatch)
    node.answers(XL_CREATE, told)
    assert stands(driver, node).members[0].mac == "00:16:3e:00:00:01"
    assert "02:" not in " ".join(node.open["g1"])


def test_a_guest_that_gets_another_nic_than_was_told_is_an_error(monkeypatch) -> None:
    driver, node, _ = made(BY_DRIVER["xl"], "stopped", monkeypatch)
    node.answers(XL_CREATE, '{"nics": [{"mac": "00:16:3e:00:00:09"}]}')
    with pytest.raises(NodeError, match="should have NIC 00:16:3e:00:00:09, .* but has 00:16:3e:00:00:01"):
        stands(driver, node)
    assert (node.phase, node.open) == ("stopped", {})


XL_INFO = """\
host                   : uut
total_memory           : 4095
free_memory            : {free}
sharing_freed_memory   : 0
"""
DOMMEMSTAT = "actual 524288\nswap_in 0\nlast_update 1763900000\nrss 262144\n"


def asked(driver: Any, node: CrewNode) -> HypervisorWord | None:
    word: HypervisorWord | None = asyncio.run(driver.hypervisor_memory(node, wanted()))
    return word


def test_xen_says_what_it_has_left_and_what_each_domain_has(monkeypatch) -> None:
    driver, node, _ = made(BY_DRIVER["xl"], "stopped", monkeypatch)
    node.answers("xl info", XL_INFO.format(free=3000))
    before = asked(driver, node)
    assert before == HypervisorWord(command="xl info, xl list", free_bytes=3000 * MIB, guest_bytes={})
    node.phase = "running"
    node.answers("xl info", "free_memory            : many\n")
    after = asked(driver, node)
    assert after == HypervisorWord(command="xl info, xl list", free_bytes=None, guest_bytes={"g1": 192 * MIB})


def test_libvirt_says_what_each_guest_has_where_it_runs(monkeypatch) -> None:
    driver, node, _ = made(BY_DRIVER["libvirt"], "stopped", monkeypatch)
    command = "virsh -c qemu:///system dommemstat hvtest-uut"
    node.answers(command, exit_status=1, stderr="error: Requested operation is not valid: domain is not running\n")
    assert asked(driver, node) is None
    node.answers(command, DOMMEMSTAT)
    assert asked(driver, node) == HypervisorWord(command="virsh dommemstat", guest_bytes={"g1": 256 * MIB})


@pytest.mark.parametrize("name", [*OWN_WAY, "virtualbox", "esxi"])
def test_others_have_no_word_of_their_own(name: str, monkeypatch) -> None:
    driver, node, _ = made(BY_DRIVER[name], "running", monkeypatch)
    assert asked(driver, node) is None
