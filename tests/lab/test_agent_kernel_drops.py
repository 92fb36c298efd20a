"""The kernel's word for dropped packets against whoever else counted them: equal to the packet, wherever they went."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator

import pytest

from support.agent_process import AgentProcess, Net, eventually
from support.bpf_programs import programs
from support.drop_chain import CASES, SINK_IP, DropCase, DropChain
from support.requirements import missing, require

pytestmark = pytest.mark.alone
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
