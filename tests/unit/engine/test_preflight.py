"""What checks conclude from what nodes say, how it is printed, and that docs/check.md knows every check."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labconsole.cli.text.check import closing_line, report_lines
from labconsole.engine.check import access, clocks, cpu, feasibility, flows, nics, quiet, tools, uut
from labconsole.engine.check.context import alike
from labconsole.engine.check.cpu import cpu_list
from labconsole.engine.check.nics import slot_bps
from labconsole.engine.check.result import CheckResult, CheckStatus
from labconsole.engine.check.runner import FLOW, catalogue
from labconsole.engine.check.uut import read_rules
from labconsole.model.inventory import Defaults
from labconsole.wire.codec import WireError
from labconsole.wire.facts import NodeFacts
from labconsole.wire.settings import NodeSettings
from labconsole.wire.survey import Survey
from support.asking import partly
from support.envelopes import FLAT_OUT, REQUEST, envelope, reasons, stream
from support.envelopes import point as envelope_point
from support.fake_session import make_inventory
from support.kept_messages import kept_reply
from support.observed_trials import observe, record

DOCS = Path(__file__).parents[3] / "docs" / "check.md"

INTERFACE: dict[str, Any] = {
    "driver": "ixgbe",
    "driver_version": "6.1",
    "firmware": "0x800004cf",
    "mac": "a0:36:9f:00:00:01",
    "mtu": 1500,
    "up": True,
    "carrier_changes": 2,
    "queue_length": 1000,
    "qdisc": "mq",
    "speed_mbps": 10000,
    "duplex": "full",
    "autoneg": True,
    "pause": {"autoneg": False, "rx": True, "tx": True},
    "offloads": {"rx_checksum": True, "gro": True, "lro": None},
    "rings": {"rx": 512, "tx": 512, "rx_max": 4096, "tx_max": 4096},
    "coalesce": {"rx_usecs": 1, "rx_frames": 0, "tx_usecs": 0, "tx_frames": 0, "adaptive_rx": 1, "adaptive_tx": 0},
    "queues": {"rx": 0, "tx": 0, "combined": 8},
    "bus": {
        "address": "0000:03:00.0",
        "kind": "pci",
        "link_speed": "5.0 GT/s PCIe",
        "link_width": 8,
        "numa_node": -1,
    },
    "irqs": {"41": "0-7", "42": None},
    "sysctls": {"forwarding": "0", "rp_filter": "1"},
}
UNKNOWN = {
    **dict.fromkeys(INTERFACE),
    "up": False,
    "offloads": {},
    "irqs": {},
    "sysctls": {},
}
SETTINGS = {
    "interfaces": {"eth1": INTERFACE, "eth2": UNKNOWN},
    "governors": {"performance": 8},
    "turbo": None,
    "idle_states": [{"name": "C6", "exit_latency_us": 133, "disabled": False}],
    "irqbalance": False,
    "isolated_cpus": "2-7",
    "online_cpus": "0-7",
    "smt": "off",
    "sysctls": {"net/ipv4/ip_forward": "0", "x": None},
}
SURVEY: dict[str, Any] = {
    "clock": {"synchronised": True, "offset_ns": -1234, "max_error_us": 2000, "estimated_error_us": 10},
    "conntrack": {"entries": None, "limit": None},
    "disk": {"directory": "/var/tmp", "error": None, "free_bytes": 5, "total_bytes": 9},
    "heat": {"throttled": 0, "hottest_millidegrees": 54000},
    "icmp": {"sent_unreachable": 0, "sent_redirects": None},
    "iptables": ["filter"],
    "leftovers": [{"kind": "link", "name": "lcb1"}],
    "load": [0.5, 1.0, 2],
    "management": {"address": "10.0.0.2", "interface": "eth0", "addresses": {"eth0": ["10.0.0.2"]}},
    "memory": {"total_bytes": 9, "available_bytes": None},
    "namespaces": ["a"],
    "pktgen_devices": ["eth1@lc17-0"],
    "processes": [
        {"pid": 7, "kind": "sniffer", "name": "tcpdump", "command": "tcpdump -i eth1", "same_network": None},
    ],
    "tools": {"nft": "/usr/sbin/nft", "virsh": None},
    "watchdog": {"armed": True, "heard_before_s": 0.1},
}
HEARD = {
    "heard": [
        {"interface": "eth1", "source_ip": "198.18.1.1", "sink_ip": "198.19.1.1", "udp_sink_port": 41000, "packets": 5}
    ],
    "complete": True,
}


def checked(op: str, ok: Any) -> Any:
    return kept_reply(op, {"id": 1, "ok": copy.deepcopy(ok)})["ok"]


@pytest.mark.parametrize(
    ("op", "ok"),
    [("settings", SETTINGS), ("survey", SURVEY), ("listen.stop", HEARD), ("clean", {"removed": ["removed lcb1"]})],
)
def test_what_a_node_says_of_itself_passes_as_it_is(op: str, ok: dict[str, Any]) -> None:
    assert checked(op, ok) == ok
    for key in ok:
        with pytest.raises(WireError, match=f"^{op}: .* has no {key}$"):
            checked(op, {name: value for name, value in ok.items() if name != key})


@pytest.mark.parametrize(
    ("op", "ok", "path", "value"),
    [
        ("settings", SETTINGS, ("interfaces", "eth1", "up"), 1),
        ("settings", SETTINGS, ("interfaces", "eth1", "irqs", "x"), "0"),
        ("settings", SETTINGS, ("interfaces", "eth1", "rings", "rx"), -1),
        ("settings", SETTINGS, ("interfaces", "a\x1bb"), INTERFACE),
        ("settings", SETTINGS, ("governors", "performance"), True),
        ("survey", SURVEY, ("disk", "free_bytes"), -5),
        ("survey", SURVEY, ("load",), [0.1, float("nan"), 1.0]),
        ("survey", SURVEY, ("processes", 0, "pid"), "7"),
        ("survey", SURVEY, ("leftovers",), [{"kind": "link", "name": "x"}] * 1000),
        ("listen.stop", HEARD, ("heard", 0, "udp_sink_port"), 70000),
    ],
)
def test_what_is_not_as_described_is_refused(op: str, ok: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    changed = copy.deepcopy(ok)
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(WireError, match=f"^{op}: "):
        checked(op, changed)


def ruleset(*entries: dict[str, Any]) -> str:
    return json.dumps({"nftables": [{"metainfo": {"version": "1.0.6"}}, *entries]})


def chain(hook: str | None, table: str = "filter", **more: Any) -> dict[str, Any]:
    hooked = {} if hook is None else {"type": "filter", "hook": hook, "prio": 0}
    return {"chain": {"family": "ip", "table": table, "name": "c", **hooked, **more}}


def rule(*expressions: Any, table: str = "filter") -> dict[str, Any]:
    return {"rule": {"family": "ip", "table": table, "chain": "c", "handle": 4, "expr": list(expressions)}}


def test_rules_that_a_forwarded_frame_meets_are_told_from_those_it_does_not() -> None:
    assert read_rules(ruleset()).count == 0
    own = read_rules(ruleset(chain("input", policy="drop"), rule({"drop": None})))
    assert (own.count, own.stopping) == (0, [])
    passing = read_rules(ruleset(chain("forward", policy="accept"), rule({"counter": {}}, {"accept": None})))
    assert (passing.count, passing.stopping, passing.tables) == (1, [], {"ip filter"})
    stopping = read_rules(ruleset(chain("forward", policy="drop"), chain(None), rule({"match": {}}, {"drop": None})))
    assert stopping.stopping == ["chain ip filter c has policy drop", "rule 4 of ip filter c has drop"]
    assert read_rules(ruleset(chain("forward"), rule({"drop": None}, table="other"))).count == 0


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_whatever_nft_says_is_rules_or_not_known(said: Any) -> None:
    for text in (json.dumps(said), json.dumps({"nftables": said}), json.dumps({"nftables": [{"rule": said}]})):
        read_rules(text)
    assert read_rules(str(said)) is None or isinstance(said, dict)


def test_lists_of_processors_are_read_as_the_kernel_writes_them() -> None:
    assert cpu_list("0-3,8") == {0, 1, 2, 3, 8}
    assert cpu_list("5") == {5}
    for text in (None, "", "a", "1-", "-1", "0-9999999999", "1,,2", "²"):
        assert cpu_list(text) is None


def test_a_slot_carries_what_its_line_code_leaves() -> None:
    assert slot_bps("2.5 GT/s PCIe", 1) == pytest.approx(2e9)
    assert slot_bps("8.0 GT/s PCIe", 4) == pytest.approx(31.5e9, rel=0.001)
    assert slot_bps("Unknown", 4) is None
    assert slot_bps(None, 1) is None


def test_ports_that_say_the_same_are_said_together() -> None:
    assert alike({"eth2": "up", "eth1": "up", "eth3": "down"}) == "eth1, eth2 up; eth3 down"


class Bench:
    """One node with one port, eth1, of a stream; says what it is given."""

    def __init__(self, role: str = "uut", *, fix: bool = False, **said: Any) -> None:
        self.said, self.fix, self.plan = said, fix, None
        self.leased: list[str] = []
        self.role = role
        self.inventory = SimpleNamespace(
            emulated=False,
            nodes={"n": SimpleNamespace(generator_cpus=None, become=None, capture_stamps="kernel")},
            defaults=Defaults(),
        )
        self.stream = SimpleNamespace(name="s1", link_speed_bps=10**9)

    def ports(self, node: str) -> dict[str, list[Any]]:
        return {"eth1": [self.stream]}

    def roles(self, node: str) -> tuple[str, ...]:
        return (self.role,)

    async def settings(self, node: str) -> NodeSettings:
        return partly(NodeSettings, {**SETTINGS, **self.said})

    async def survey(self, node: str) -> Survey:
        return partly(Survey, {**SURVEY, **self.said})

    async def facts(self, node: str) -> NodeFacts:
        return partly(NodeFacts, self.said)


def ports_with(**changes: Any) -> dict[str, Any]:
    return {"interfaces": {"eth1": {**INTERFACE, **changes}}}


MANAGEMENT = {"address": "10.0.0.2", "interface": "eth1", "addresses": {"eth1": ["10.0.0.2"]}}
NARROW = {**INTERFACE["bus"], "link_width": 1}
ALIEN = {"pid": 7, "kind": "sniffer", "name": "tcpdump", "command": "tcpdump -i any", "same_network": False}


@pytest.mark.parametrize(
    ("check", "role", "said", "status", "words"),
    [
        (access.management, "uut", {"management": MANAGEMENT}, "fail", "SSH uses eth1"),
        (access.management, "uut", {"management": {**MANAGEMENT, "interface": None}}, "warn", "eth1 has 10.0.0.2"),
        (access.management, "uut", {"management": {**MANAGEMENT, "interface": "eth0"}}, "pass", "uses eth0"),
        (
            access.rights,
            "source",
            {"euid": 1000, "capabilities": ["net_raw"]},
            "fail",
            "without the capabilities net_admin",
        ),
        (access.rights, "sink", {"euid": 1000, "capabilities": ["net_raw"]}, "pass", "net_raw"),
        (access.keep_alive, "uut", {"watchdog": {"armed": False, "heard_before_s": None}}, "fail", "does not watch"),
        (nics.speed, "uut", ports_with(), "warn", "10 Gbit/s full duplex"),
        (nics.speed, "uut", ports_with(speed_mbps=1000), "pass", "1 Gbit/s full duplex"),
        (nics.speed, "uut", ports_with(speed_mbps=100), "fail", "100 Mbit/s"),
        (nics.speed, "uut", ports_with(speed_mbps=1000, duplex="half"), "fail", "half duplex"),
        (nics.speed, "uut", ports_with(speed_mbps=None), "warn", "unknown"),
        (nics.speed, "uut", ports_with(bus=None), "pass", "virtual, 1 Gbit/s by hosts.yaml"),
        (nics.driver, "uut", ports_with(), "pass", "rx ring 512 of 4096, PCIe x8 at 5.0 GT/s PCIe"),
        (nics.driver, "uut", ports_with(bus=NARROW), "warn", "PCIe x1"),
        (nics.stamps, "sink", ports_with(), "pass", "eth1 by the kernel only"),
        (nics.stamps, "sink", ports_with(stamps={"all_received": False, "clock": 3}), "pass", "by the kernel only"),
        (nics.stamps, "sink", ports_with(stamps={"all_received": True, "clock": 0}), "pass", "eth1 by the NIC, too"),
        (nics.stamps, "sink", {"interfaces": {}}, "skipped", "none of its data ports"),
        (
            nics.pause,
            "uut",
            ports_with(),
            "pass",
            "eth1 rx on tx on; left as found unless a platform sets it, and watched",
        ),
        (nics.offloads, "uut", ports_with(offloads={"lro": True}), "fail", "lro"),
        (nics.offloads, "sink", ports_with(offloads={"lro": True}), "warn", "lro"),
        (nics.offloads, "uut", {"interfaces": {}}, "skipped", "none of its data ports"),
        (
            clocks.discipline,
            "uut",
            {"clock": {**SURVEY["clock"], "synchronised": False}},
            "warn",
            "not synchronised by NTP or PTP",
        ),
        (clocks.discipline, "uut", {"clock": None}, "skipped", "does not report"),
        (clocks.source, "source", {"clocksource": "hpet"}, "warn", "hpet"),
        (cpu.governor, "uut", {"governors": {"performance": 3, "powersave": 1}}, "warn", "powersave on 1 CPUs"),
        (cpu.turbo, "uut", {"turbo": True}, "warn", "on"),
        (cpu.interrupts, "uut", {"irqbalance": True}, "warn", "irqbalance runs"),
        (cpu.memory, "uut", {"memory": {"total_bytes": 10**9, "available_bytes": 10**7}}, "fail", "10 MB of 1000 MB"),
        (cpu.heat, "uut", {"heat": {"throttled": 3, "hottest_millidegrees": None}}, "warn", "throttled 3 times"),
        (quiet.pktgen, "source", {"pktgen_devices": ["eth9"], "leftovers": []}, "fail", "eth9"),
        (quiet.programs, "uut", {"processes": [ALIEN]}, "warn", "in another network namespace"),
        (
            quiet.logins,
            "uut",
            {"logins": [{"user": "ann", "line": "pts/0", "host": "desk"}]},
            "warn",
            "ann on pts/0 from desk",
        ),
        (tools.generator, "source", {"pktgen": None, "pktgen_loadable": False}, "warn", "afpacket will be used"),
        (tools.generator, "source", {"pktgen": "2.75", "pktgen_loadable": True}, "pass", "pktgen 2.75"),
        (tools.capture, "sink", {"tcpdump": None}, "fail", "tcpdump is not installed"),
        (uut.conntrack, "uut", {"conntrack": {"entries": 12, "limit": 100}}, "warn", "12 of 100"),
        (
            uut.guests,
            "uut",
            {"processes": [{**ALIEN, "kind": "guest", "name": "qemu-kvm"}]},
            "warn",
            "qemu-kvm (process 7)",
        ),
    ],
)
def test_what_a_lab_of_namespaces_cannot_show_is_judged_by_what_a_machine_says(
    check: Any, role: str, said: dict[str, Any], status: str, words: str
) -> None:
    finding = asyncio.run(check(Bench(role, **said), "n"))
    assert (finding.status, words in finding.evidence) == (status, True), finding
    assert (finding.hint is not None) == (status in ("warn", "fail"))


def test_stamps_of_a_nic_are_asked_of_a_nic_that_has_them() -> None:
    for able, status in ((True, "pass"), (False, "fail")):
        bench = Bench("sink", **ports_with(stamps={"all_received": able, "clock": 0}))
        bench.inventory.nodes["n"].capture_stamps = "nic"
        run: Any = nics.stamps(bench, "n")  # type: ignore[arg-type]
        assert asyncio.run(run).status == status


def test_what_a_flow_does_not_know_is_said_to_be_unknown() -> None:
    inventory = make_inventory(emulated=False)
    seen = observe(inventory, sent=238)
    seen.streams[0].generated = None
    finding = flows.judge(record(inventory, seen), None, None, left_out=[])
    name = inventory.streams[0].name
    assert finding.evidence == (
        f"{name} 238 of ? packets at 1% load: the generator of {name} did not report what it sent"
    )


def _within_calibration(monkeypatch: pytest.MonkeyPatch, known: Any, **asked: Any) -> Any:
    async def latest(bench: Any) -> Any:
        return known

    monkeypatch.setattr(feasibility, "_latest", latest)
    plan = SimpleNamespace(points=[SimpleNamespace(request=replace(REQUEST, **{"generator": "afpacket", **asked}))])
    return asyncio.run(feasibility.envelope(SimpleNamespace(plan=plan)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("calibrated", "words"),
    [
        ({"maximum": 2e5, "capture": (1.5e5, 2e5)}, None),
        ({"maximum": 141_000.0}, None),  # 142 045 were asked: within the margin of a run's verdict
        ({"maximum": 90_000.0, "counters": (95_000.0, 1e5)}, "s1's limit, the generator of src1/eth1 (90 000)"),
        ({"maximum": 2e5, "capture": (80_000.0, 90_000.0)}, "s1's limit, the capture at snk1/eth1 (80 000)"),
        ({"size": 60}, "not calibrated: 64 B from 1 source"),
        ({"maximum": 2e5, "generator": "pktgen"}, "not calibrated: 64 B from 1 source with afpacket"),
    ],
)
def test_a_rate_beyond_what_the_instrument_showed_is_told_with_the_part_that_limits_it(
    monkeypatch: pytest.MonkeyPatch, calibrated: dict[str, Any], words: str | None
) -> None:
    found = _within_calibration(monkeypatch, envelope(envelope_point(**calibrated)))
    assert found.status is (CheckStatus.PASS if words is None else CheckStatus.WARN)
    assert (words or "the only point is within") in found.evidence.replace("\u2009", " ")


@pytest.mark.parametrize(
    ("calibrated", "words"),
    [
        ({}, "not calibrated: 64 B from 1 source (target max)"),  # no trial at target max counted anything
        ({"size": 128, "most_pps": 45_000.0}, "not calibrated: 64 B from 1 source (target max)"),
        ({"sources": 3, "most_pps": 45_000.0}, "not calibrated: 64 B from 1 source (target max)"),
        ({"size": 128, "most_pps": 60_000.0}, "(target max) is above s1's limit, the capture at snk1/eth1"),
        ({"most_pps": 45_000.0}, None),
        ({"capture": (None, None), "size": 128}, None),  # a sink that missed nothing has no bound
    ],
)
def test_at_target_max_a_check_says_before_what_the_verdict_will_say_after(
    monkeypatch: pytest.MonkeyPatch, calibrated: dict[str, Any], words: str | None
) -> None:
    known = envelope(envelope_point(**{"maximum": 1e6, "capture": (50_000.0, 60_000.0), **calibrated}))
    found = _within_calibration(monkeypatch, known, target="max")
    assert found.status is (CheckStatus.PASS if words is None else CheckStatus.WARN)
    assert (words or "the only point is within") in found.evidence
    assert bool(reasons(known, FLAT_OUT, offered_pps=40_000.0)) is (words is not None)


def test_beyond_and_unknown_points_are_told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    known = envelope(envelope_point(maximum=9e4, capture=(50_000.0, 60_000.0), size=128, most_pps=45_000.0))
    asked = [SimpleNamespace(request=each) for each in (REQUEST, FLAT_OUT)]

    async def latest(bench: Any) -> Any:
        return known

    monkeypatch.setattr(feasibility, "_latest", latest)
    found = asyncio.run(feasibility.envelope(SimpleNamespace(plan=SimpleNamespace(points=asked))))  # type: ignore[arg-type]
    assert "s1's limit, the generator of src1/eth1" in found.evidence
    assert "; not calibrated: 64 B from 1 source (target max)" in found.evidence


def test_a_stream_that_a_point_does_not_use_limits_it_not(monkeypatch: pytest.MonkeyPatch) -> None:
    both = envelope_point(sources=2, maximum=2e5)
    both = both.model_copy(update={"streams": (*both.streams, stream("s2", maximum=1e3))})
    assert _within_calibration(monkeypatch, envelope(both)).status is CheckStatus.PASS
    assert "s2's limit" in _within_calibration(monkeypatch, envelope(both), sources=2).evidence


def result(**changes: Any) -> CheckResult:
    given = {
        "id": "nic.up",
        "node": "src1",
        "title": "links up",
        "status": CheckStatus.PASS,
        "evidence": "eth1 up",
    }
    return CheckResult(**{**given, **changes})


def test_people_see_glyph_word_evidence_and_below_it_what_to_do() -> None:
    results = [
        result(),
        result(title="a longer title", status=CheckStatus.FAIL, evidence="eth1 down", hint="set it up"),
        result(node=None, status=CheckStatus.SKIPPED, evidence="no plan"),
    ]
    assert report_lines(results, ["src1"]) == [
        "src1: 1 pass, 1 fail",
        "  ✓ pass    links up        eth1 up",
        "  ✗ fail    a longer title  eth1 down",
        "                            → set it up",
        "",
        "testbed: 1 skipped",
        "  - skipped links up        no plan",
    ]
    brief = report_lines(results, ["src1"], brief=True, ascii_only=True)
    assert brief[1] == "  x fail    a longer title  eth1 down"
    assert not any("pass  " in line for line in brief)


def test_long_words_are_folded_under_themselves_and_colour_is_never_alone() -> None:
    lines = report_lines([result(evidence="word " * 30)], ["src1"], width=60, colour=True)
    assert "\x1b[32m✓ pass   \x1b[0m" in lines[1]
    assert all(len(re.sub(r"\x1b\[[\d;]*m", "", line)) <= 60 for line in lines)
    assert all(line.startswith(" " * 22) for line in lines[2:])


def test_every_check_is_in_the_documentation() -> None:
    text = DOCS.read_text()
    missing = [name for name in catalogue() if f"`{name}`" not in text and name != FLOW]
    assert missing == []
    assert "`flow.PLATFORM`" in text


def test_documentation_names_no_check_that_there_is_not() -> None:
    named = set(re.findall(r"`((?:ssh|nic|clock|cpu|quiet|tools|capacity|cable|uut|plan)\.[a-z_]+)`", DOCS.read_text()))
    assert named <= set(catalogue())


def test_a_plan_that_needs_other_platforms_is_for_another_testbed():
    plan = SimpleNamespace(platforms=("raw", "xen", "kvm"), points=[object()] * 6)
    here = SimpleNamespace(platforms={"raw": None, "lxc": None}, streams=[SimpleNamespace(link_speed_bps=1e9)])
    bench: Any = SimpleNamespace(plan=plan, inventory=here)
    found = asyncio.run(feasibility.points(bench))
    assert found.status is CheckStatus.FAIL
    assert found.evidence == (
        "the plan is for another testbed: it needs platforms xen, kvm; "
        "this one (hosts.yaml) has platforms raw, lxc and 1 stream of at most 1 Gbit/s"
    )


def test_what_several_nodes_say_alike_is_shown_once_and_brief_shows_warnings_and_failures() -> None:
    load = {"id": "cpu.load", "title": "load", "status": CheckStatus.WARN, "evidence": "12.1 on 2 CPUs"}
    results = [
        *(result(node=node, **load, hint=f"look at {node}") for node in ("src1", "snk1")),
        result(node="uut", **{**load, "evidence": "0.5 on 2 CPUs"}),
        *(
            result(node=node, title="stated", status=CheckStatus.SKIPPED, evidence="nothing is")
            for node in ("src1", "uut")
        ),
    ]
    lines = report_lines(results, ["src1", "snk1", "uut"])
    assert [line for line in lines if "12.1 on" in line] == ["  ! warn    load    12.1 on 2 CPUs"]
    assert [line.strip() for line in lines if "look at" in line] == ["→ look at src1, snk1"]
    assert "src1, snk1: alike" in lines and "src1, uut: alike" in lines and "  ! warn    load    0.5 on 2 CPUs" in lines
    assert not any("skipped stated" in line for line in report_lines(results, ["src1", "snk1", "uut"], brief=True))


def test_nodes_to_be_put_right_in_different_ways_are_not_alike() -> None:
    full = {"id": "x", "status": CheckStatus.WARN, "evidence": "nearly full"}
    results = [
        result(node=node, **full, hint=f"on {node}: rm /{what}") for node, what in (("src1", "a"), ("src10", "b"))
    ]
    lines = report_lines(results, ["src1", "src10"])
    assert [line.strip() for line in lines if "rm" in line] == ["→ on src1: rm /a", "→ on src10: rm /b"]


def test_the_last_line_has_the_time_of_the_checks_and_that_of_connecting() -> None:
    assert closing_line([result()], 4.4, 8.0, stopped=False) == "1 checks in 4.4 s, connecting took 8.0 s: 1 pass"
