"""A keyword that there is not is refused in words, and several machines that cannot be reached are all named."""

import pytest

import labconsole
from labconsole.api import discovery
from labconsole.engine.discovery.discovery import DiscoveryRequest
from labconsole.engine.discovery.machines import parse_machines
from labconsole.errors import ConfigError, NodeError, NodeUnreachable


@pytest.mark.parametrize(
    ("word", "meant"), [("duration", "duration_s"), ("frame_size", "frame_size_bytes"), ("repetition", "repetitions")]
)
def test_the_keyword_that_is_meant_is_named(word, meant):
    with pytest.raises(
        ConfigError, match=rf"run: has no argument {word} \(did you mean {meant}\?\); allowed: platform"
    ):
        labconsole.run("hosts.yaml", **{word: 1})


def test_a_keyword_of_replay_too():
    with pytest.raises(ConfigError, match=r"replay: has no argument occassion \(did you mean occasion\?\)"):
        labconsole.replay("plan.yaml", occassion="c1")


@pytest.mark.asyncio
async def test_every_machine_that_cannot_be_reached_is_named(monkeypatch):
    async def connect(name, inventory, hear):
        raise NodeUnreachable(name, f"no route to {name}")

    monkeypatch.setattr(discovery, "connect", connect)
    request = DiscoveryRequest(parse_machines(["uut=dut1", "src1", "snk1"]))
    with pytest.raises(NodeError, match="dut1: no route to dut1; src1: no route to src1; snk1: no route to snk1"):
        async with discovery.leased_nodes(request, lambda node, words: None):
            pass
