"""The kernel's word for dropped packets against whoever else counted them: equal to the packet, wherever they went."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from support.agent_process import AgentProcess
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
