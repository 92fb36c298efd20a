"""What is read of the kernel by netlink: our decoder of counters against pyroute2's, and link events however many."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from labconsole.agent import netlink
from labconsole.wire.codec import STAT_NAMES
from support.agent_process import AgentProcess, Net

ROOT = Path(__file__).resolve().parents[2]
BOTH = """
import json, sys
sys.path.insert(0, sys.argv[1])
from labconsole.agent import netlink
from labconsole.agent.reading.counters import parse_stats
route = netlink.RouteSocket()
parts = route.stats()
theirs = [[each["ifindex"], each.get_attr("IFLA_STATS_LINK_64")] for each in route.decode(parts)]
print(json.dumps({
    "parts": len(parts),
    "ours": parse_stats(parts),
    "theirs": [[index, {name: numbers[name] for name, _ in numbers.fields}] for index, numbers in theirs],
    "names": route.names(),
}))
"""
NEWER = {"rx_nohandler", "rx_otherhost_dropped"}
"""Counters that the kernel has told since 4.6 and 5.19, and that pyroute2 0.9.7 leaves out."""


def test_our_decoder_of_counters_says_what_that_of_pyroute2_says(net: Net) -> None:
    net.run("sh", "-c", "for n in $(seq 20); do ip link add c$n type veth peer name d$n; done")
    net.pair("a0", "b0")
    net.send("a0", 137)
    net.send("b0", 11)
    found = json.loads(net.run(sys.executable, "-c", BOTH, str(ROOT)))
    assert found["parts"] > 1, "else nothing is shown of a list in several parts"
    assert len(found["ours"]) == len(found["theirs"]) == 43
    for (index, numbers), (same, theirs) in zip(found["ours"], found["theirs"], strict=True):
        ours = dict(zip(STAT_NAMES, numbers, strict=False))
        assert index == same
        assert {name: ours[name] for name in theirs} == theirs
        assert set(ours) - set(theirs) <= NEWER
    counted = {found["names"][str(index)]: numbers for index, numbers in found["ours"]}
    assert (counted["a0"][:2], counted["b0"][:2]) == ([11, 137], [137, 11])


def test_the_words_of_our_decoders_are_the_librarys() -> None:
    from pyroute2 import netlink as theirs
    from pyroute2.netlink import rtnl

    assert netlink.REQUEST_DUMP == theirs.NLM_F_REQUEST | theirs.NLM_F_DUMP
    assert (netlink.ERROR, netlink.DONE) == (theirs.NLMSG_ERROR, theirs.NLMSG_DONE)
    assert (netlink.DUMP_INTERRUPTED, netlink.LINK_EVENTS) == (theirs.NLM_F_DUMP_INTR, rtnl.RTMGRP_LINK)


def test_more_link_events_than_a_socket_holds_do_no_harm(net: Net, agent: AgentProcess) -> None:
    net.pair("a0", "b0")
    assert len(agent.ok("links")["links"]) == 3
    os.kill(agent.hello["pid"], signal.SIGSTOP)
    try:
        net.run("sh", "-c", "for n in $(seq 5000); do echo link set a0 mtu $((1000 + n % 400)); done | ip -batch -")
        dropped = [int(line.split()[8]) for line in net.run("cat", "/proc/net/netlink").splitlines()[1:]]
    finally:
        os.kill(agent.hello["pid"], signal.SIGCONT)
    assert any(dropped), "the socket held them all, so nothing is shown"
    assert told(agent, "a0")["mtu"] == 1000 + 5000 % 400
    net.run("ip", "link", "set", "a0", "mtu", "1499")
    assert told(agent, "a0")["mtu"] == 1499


def test_counters_go_by_the_names_of_now(net: Net, agent: AgentProcess) -> None:
    def names() -> list[str]:
        return [row[1] for row in agent.ok("counters.read")["namespaces"][""]]

    assert names() == ["lo"]
    net.run("ip", "link", "add", "a0", "type", "veth", "peer", "name", "b0")
    assert sorted(names()) == ["a0", "b0", "lo"]
    net.run("ip", "link", "set", "a0", "name", "c0")
    assert sorted(names()) == ["b0", "c0", "lo"]
    net.run("ip", "link", "del", "b0")
    assert names() == ["lo"]


def told(agent: AgentProcess, name: str) -> dict[str, Any]:
    """What the next event says of a link."""
    return next(link for link in agent.event("links")["links"] if link["name"] == name)


def test_events_and_counters_are_those_of_their_namespaces(net: Net, agent: AgentProcess) -> None:
    agent.ok("links")
    agent.ok("counters.read")
    agent.ok("net.apply", token="t", changes=[{"do": "namespace", "name": "inner"}])
    holder = next(pid for pid in children(agent) if os.stat(f"/proc/{pid}/ns/net").st_ino != net.inode)
    argv = ["nsenter", "-t", str(holder), "-n", "ip", "link", "add", "a9", "type", "veth", "peer", "name", "b9"]
    net.run(*argv)
    inside: set[str] = set()
    while inside != {"lo", "a9", "b9"}:
        inside = {link["name"] for link in agent.event("links")["links"] if link["namespace"] == "inner"}
    rows = agent.ok("counters.read")["namespaces"]
    assert [row[1] for row in rows[""]] == ["lo"]
    assert {row[1] for row in rows["inner"]} == inside


def children(agent: AgentProcess) -> list[int]:
    pid = agent.hello["pid"]
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_sockets_bring_no_event_loop_and_keep_no_thread(agent: AgentProcess) -> None:
    agent.ok("counters.read")
    here = Path(f"/proc/{agent.hello['pid']}")
    loops = [path for path in (here / "fd").iterdir() if os.readlink(path) == "anon_inode:[eventpoll]"]
    assert len(loops) == 1
    assert len(list((here / "task").iterdir())) <= 3, "the loop's, and those of its executor that swept and imported"


FIELD_BPS = 8 * (2**32 - 1)
"""The most that fits into the kernel's field of 32 bits (bytes a second), and into pyroute2 0.9.7's for tbf."""


@pytest.mark.parametrize("rate_bps", [8_000, FIELD_BPS, FIELD_BPS + 8, 40 * 10**9, 680 * 10**9])
def test_a_limit_is_set_as_the_kernel_tells_it(net: Net, agent: AgentProcess, rate_bps: int) -> None:
    """Read back by iproute2 6.1, which knows TCA_TBF_RATE64 (Linux 3.13)."""
    net.pair("va", "vb")
    burst_bytes, queue_bytes = max(3028, rate_bps // 8000), max(15_140, rate_bps // 160)
    limit = {"do": "rate_limit", "interface": "va", "queue": "lcq1", "rate_bps": rate_bps}
    agent.ok("net.apply", token="t", changes=[{**limit, "burst_bytes": burst_bytes, "queue_bytes": queue_bytes}])
    (told,) = json.loads(net.run("tc", "-j", "qdisc", "show", "dev", "lcq1"))
    assert (told["kind"], told["options"]["rate"]) == ("tbf", rate_bps // 8)
    assert told["options"]["burst"] == pytest.approx(burst_bytes, rel=0.002)  # it counts in microseconds
    agent.ok("net.undo", token="t")
    assert net.links() == {"lo", "va", "vb"}


@pytest.mark.parametrize("all_bps", [FIELD_BPS, FIELD_BPS + 8, 100 * 10**9])
def test_shares_of_a_fast_queue_are_set_and_read_back(net: Net, agent: AgentProcess, all_bps: int) -> None:
    net.pair("va", "vb")
    rates_bps = [all_bps - 8_000_000, 8_000_000]
    guests = [
        {"interface": port, "address": f"198.18.64.{number}", "rate_bps": rate, "most_bps": all_bps}
        for number, (port, rate) in enumerate(zip(("va", "vb"), rates_bps, strict=True), 1)
    ]
    queue = {"do": "shared_queue", "queue": "lcqw", "rate_bps": all_bps, "queue_packets": 1000, "guests": guests}
    agent.ok("net.apply", token="t", changes=[{**queue, "burst_bytes": all_bps // 8000}])
    classes = agent.ok("queue.read", queue="lcqw", classes=2)["classes"]
    assert [(each["rate_bps"], each["most_bps"]) for each in classes] == [(rate, all_bps) for rate in rates_bps]
    guests[1]["rate_bps"] = 8_000
    said = agent.error("net.apply", token="u", changes=[{**queue, "queue": "lcqx", "burst_bytes": all_bps // 8000}])
    assert "burst_bytes is more than a guest gets in 274 s" in said["message"]
