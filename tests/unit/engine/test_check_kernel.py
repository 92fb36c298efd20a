"""What `labconsole check` says of a kernel that tells more than counters, and of one that does not."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from labconsole.engine.check import kernel
from labconsole.engine.check.context import CheckContext
from labconsole.engine.check.result import CheckFinding
from labconsole.engine.trial.setup import TIMED_BY
from labconsole.errors import AgentError
from labconsole.wire.packet_times import PacketTimesStarted, PortTimes, TimedPackets, XdpChanges
from support.fake_session import make_inventory


def finding(
    check: Any, node: str, refusals: list[str], changes: XdpChanges | None = None, **defaults: str
) -> tuple[CheckFinding, list[str]]:
    """What comes of it, and what the node was asked. ``refusals``: codes, one for each time it is asked to begin."""
    asked: list[str] = []
    inventory = make_inventory()
    inventory = inventory.model_copy(update={"defaults": inventory.defaults.model_copy(update=defaults)})

    async def ask(request: Any, *, timeout_s: float) -> Any:
        asked.append(request.op)
        if request.op.endswith(".start") and refusals:
            raise AgentError(node, "it says no", code=refusals.pop(0), operation=request.op)
        if request.op == "packet_times.stop" and changes is not None:
            return TimedPackets(ports=[PortTimes(interface="eth1", streams=[], xdp=changes)], clock_moved_ns=0)
        if request.op == "packet_times.start":
            assert request.by == TIMED_BY.get(inventory.defaults.packet_times, "socket filter")
            return PacketTimesStarted(instructions=200, memory_bytes=1_234_567)

    session = SimpleNamespace(inventory=inventory, links={node: SimpleNamespace(ask=ask)})
    return asyncio.run(check(CheckContext(cast(Any, session), None, fix=False), node)), asked


@pytest.mark.parametrize(
    ("check", "node", "op", "setting"),
    [
        (kernel.drop_reasons, "uut", "kernel_drops", "drop_reasons"),
        (kernel.packet_times, "snk1", "packet_times", "packet_times"),
    ],
)
def test_it_is_begun_and_ended_and_what_the_kernel_refuses_is_a_doubt_where_it_is_asked_for(
    check: Any, node: str, op: str, setting: str
) -> None:
    found, asked = finding(check, node, [])
    memory = ", 1.2 MB of the kernel's memory while it counts" if op == "packet_times" else ""
    assert (found.status, found.evidence) == ("pass", f"to be had ({setting}: off){memory}")
    assert asked == [f"{op}.start", f"{op}.stop"]
    found, _ = finding(check, node, ["no_permission"])
    assert (found.status, found.values["refused"]) == ("pass", "no_permission")
    assert f"not asked for ({setting}: off)" in found.evidence and "it says no" in found.evidence
    found, _ = finding(check, node, ["no_permission"], None, **{setting: "on"})
    assert found.status == "warn" and found.hint is not None
    assert found.evidence == "not to be had: it says no"


def test_what_an_xdp_program_would_change_is_told_and_a_refusal_names_the_way_without() -> None:
    changes = XdpChanges(features=["rx-gro-hw off"], left_features=[], link_changes=2)
    found, _ = finding(kernel.packet_times, "snk1", [], changes, packet_times="xdp-native")
    assert found.status == "pass" and found.evidence.startswith("to be had (packet_times: xdp-native), 1.2 MB")
    assert found.evidence.endswith("; at eth1 it brings rx-gro-hw off, 2 changes of its link")
    found, _ = finding(kernel.packet_times, "snk1", ["busy"], packet_times="xdp-generic")
    assert (found.status, found.evidence) == ("warn", "not to be had: it says no")
    assert found.hint == "set packet_times: on, which changes nothing"


def test_what_a_former_trial_left_is_ended_first() -> None:
    found, asked = finding(kernel.packet_times, "snk1", ["exists"])
    assert found.status == "pass"
    assert asked == ["packet_times.start", "packet_times.stop", "packet_times.start", "packet_times.stop"]
