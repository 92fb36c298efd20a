"""The kernel's word for dropped packets against whoever else counted them: equal to the packet, wherever they went."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from labconsole.agent.reading.kernel_drops import DropCounter, read_layout
from support.agent_process import AgentProcess, Net, eventually
from support.bpf_programs import programs
from support.drop_chain import CASES, SINK_IP, DropCase, DropChain
from support.requirements import missing, require

pytestmark = pytest.mark.usefixtures("kernel_programs")

PACKETS = 2000


@pytest.fixture
def chain() -> Iterator[DropChain]:
    if os.geteuid() != 0:
        missing("programs in the kernel are for root")
    require("nft", "tc", "bridge")
    made = DropChain()
    yield made
    made.close()


@pytest.fixture
def host(chain: DropChain) -> Iterator[AgentProcess]:
    agent = AgentProcess(chain.host)
    yield agent
    agent.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_kernel_names_every_dropped_packet(chain: DropChain, host: AgentProcess, case: DropCase):
    host.ok("kernel_drops.start", sinks=[SINK_IP])
    truth = case.provoke(chain, PACKETS)
    told = host.ok("kernel_drops.stop")
    found: Counter[tuple[str, str]] = Counter()
    for row in told["rows"]:
        place = (row["interface"], row["function"])
        assert (row["namespace"], row["stream"]) == ("", 0)
        assert row["reason"] in case.told[place], row
        found[place] += row["packets"]
    assert sum(found.values()) == truth > 0
    assert set(found) == set(case.told)
    nothing_else = {"unreadable_packets": 0, "unlisted_packets": 0, "missed_packets": 0, "ended_early": False}
    assert {name: told[name] for name in nothing_else} == nothing_else


@pytest.mark.parametrize("case", CASES[::4], ids=lambda each: each.name)
def test_a_kernel_whose_programs_follow_no_pointers_counts_the_same(chain: DropChain, case: DropCase):
    counter = DropCounter(read_layout(), [chain.host.inode], [SINK_IP], by_helper=True)
    try:
        assert counter.mode == "raw_tp"
        truth = case.provoke(chain, PACKETS)
        counter.detach()
        assert sum(row.packets for row in counter.rows() if row.stream == 0) == truth > 0
        assert counter.totals()["unreadable_packets"] == 0
    finally:
        counter.close()


TCP = """
import socket, threading
server = socket.create_server(("127.0.0.1", 5555))
def end():
    one, _ = server.accept()
    while one.recv(65536): pass
threading.Thread(target=end, daemon=True).start()
client = socket.create_connection(("127.0.0.1", 5555))
client.settimeout(1)
try:
    for _ in range(64): client.sendall(bytes(60000))
except OSError:
    pass
"""


def test_paged_packets_of_others_whose_headers_can_be_read_are_none_of_ours(chain: DropChain, host: AgentProcess):
    """TCP's payload lies in pages; its headers do not."""
    chain.host.run("ip", "link", "set", "lo", "up")
    rules = (
        "table ip t { chain c { type filter hook input priority 0; tcp dport 5555 ip length > 1000 counter drop; }; }"
    )
    chain.host.run("nft", rules)
    host.ok("kernel_drops.start", sinks=[SINK_IP])
    chain.host.run(sys.executable, "-c", TCP)
    told = host.ok("kernel_drops.stop")
    assert "packets 0 " not in chain.host.run("nft", "list", "table", "ip", "t")
    assert told["looked_packets"] > 0
    assert (told["rows"], told["unreadable_packets"]) == ([], 0)


def test_an_interface_that_went_away_meanwhile_has_its_name(chain: DropChain, host: AgentProcess):
    host.ok("kernel_drops.start", sinks=[SINK_IP])
    chain.ip("route", "replace", "blackhole", SINK_IP)
    sent = chain.send(PACKETS)
    chain.ip("link", "del", "u1")
    (row,) = (row for row in host.ok("kernel_drops.stop")["rows"] if row["function"] == "ip_error")
    assert (row["interface"], row["packets"]) == ("u1", sent)


class InUserNamespace(Net):
    """A namespace without rights in the machine, as of a lab that has no root."""

    def __init__(self) -> None:
        super().__init__()
        self.prefix = ["unshare", "-Urn"]


def test_without_rights_it_says_so_and_counts_nothing():
    net = InUserNamespace()
    agent = AgentProcess(net)
    try:
        refused = agent.error("kernel_drops.start", sinks=[SINK_IP])
        assert refused["code"] == "no_permission" and "root" in refused["message"]
        assert agent.error("kernel_drops.stop")["code"] == "not_counting"
        assert agent.ok("ping") is not None
    finally:
        agent.close()
        net.close()


def test_an_agent_that_is_killed_leaves_no_program(chain: DropChain):
    agent = AgentProcess(chain.host)
    before = programs()
    agent.ok("kernel_drops.start", sinks=[SINK_IP])
    assert programs() == before + 1
    os.kill(agent.hello["pid"], signal.SIGKILL)
    eventually(lambda: programs() == before, "the program is gone")
    agent.close()


def test_beyond_its_budget_it_ends_by_itself_and_says_how_far_it_came(chain: DropChain, host: AgentProcess):
    host.ok("kernel_drops.start", sinks=[SINK_IP], budget_ns=0, look_every_s=0.01)
    chain.ip("route", "replace", "blackhole", SINK_IP)
    sent = chain.send(PACKETS)
    told = host.ok("kernel_drops.stop")
    assert told["ended_early"] is True
    # Packets of other namespaces on this machine cost as well: how many of ours were counted is open.
    assert told["looked_packets"] + told["passed_packets"] > 0
    assert sum(row["packets"] for row in told["rows"]) <= told["looked_packets"] <= sent


def test_foreign_traffic_fills_no_table_and_is_told_apart(chain: DropChain, host: AgentProcess):
    """Addresses are none of what is counted by: thirty of them are one row."""
    host.ok("kernel_drops.start", sinks=[SINK_IP])
    for last in range(1, 31):
        chain.send(10, sink_ip=f"198.19.7.{last}")
    told = host.ok("kernel_drops.stop")
    (row,) = (row for row in told["rows"] if row["function"] == "ip_error")
    assert (row["stream"], row["packets"]) == (None, 300)
    assert told["unlisted_packets"] == 0


def test_what_cannot_be_asked_is_refused(host: AgentProcess):
    assert host.error("kernel_drops.start", sinks=["nowhere"])["code"] == "bad_request"
    assert host.error("kernel_drops.start", sinks=[SINK_IP], look_every_s=0)["code"] == "bad_request"
    host.ok("kernel_drops.start", sinks=[SINK_IP])
    assert host.error("kernel_drops.start", sinks=[SINK_IP])["code"] == "exists"
    assert host.ok("kernel_drops.stop")["rows"] == []
    assert host.error("kernel_drops.stop")["code"] == "not_counting"
