"""What `labconsole check` says of a kernel that tells more than counters, and of one that does not."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from labconsole.engine.check import tools
from labconsole.engine.check.context import CheckContext, Wave
from labconsole.engine.check.result import CheckFinding, CheckStatus
from labconsole.engine.check.runner import CHECKS, CheckRun, catalogue
from labconsole.engine.trial.setup import TIMED_BY
from labconsole.errors import AgentError, NodeSilent
from labconsole.wire.packet_times import LINK_S, PacketTimesStarted, PortTimes, TimedPackets, XdpChanges
from support.fake_session import make_inventory


def finding(
    check: Any,
    node: str,
    refusals: list[str],
    changes: XdpChanges | None = None,
    takes_s: dict[str, float] | None = None,
    bench: Any = CheckContext,
    **defaults: str,
) -> tuple[CheckFinding, list[str]]:
    """What comes of it, and what the node was asked. ``refusals``: codes, one for each time it is asked to begin.
    ``takes_s``: how long an answer takes.
    """
    asked: list[str] = []
    inventory = make_inventory()
    inventory = inventory.model_copy(update={"defaults": inventory.defaults.model_copy(update=defaults)})

    async def ask(request: Any, *, timeout_s: float) -> Any:
        asked.append(request.op)
        if (takes_s or {}).get(request.op, 0.0) > timeout_s:
            raise NodeSilent(node, f"no answer to {request.op} within {timeout_s:g} s", operation=request.op)
        if request.op.endswith(".start") and refusals:
            raise AgentError(node, "it says no", code=refusals.pop(0), operation=request.op)
        if request.op == "packet_times.stop" and changes is not None:
            return TimedPackets(ports=[PortTimes(interface="eth1", streams=[], xdp=changes)], clock_moved_ns=0)
        if request.op == "packet_times.start":
            assert request.by == TIMED_BY.get(inventory.defaults.packet_times, "socket filter")
            return PacketTimesStarted(instructions=200, memory_bytes=1_234_567)

    session = SimpleNamespace(inventory=inventory, links={node: SimpleNamespace(ask=ask)})
    return asyncio.run(check(bench(cast(Any, session), None, fix=False), node)), asked


@pytest.mark.parametrize(
    ("check", "node", "op", "setting"),
    [
        (tools.drop_reasons, "uut", "kernel_drops", "drop_reasons"),
        (tools.packet_times, "snk1", "packet_times", "packet_times"),
    ],
)
def test_it_is_begun_and_ended_and_what_the_kernel_refuses_is_a_doubt_where_it_is_asked_for(
    check: Any, node: str, op: str, setting: str
) -> None:
    found, asked = finding(check, node, [])
    memory = ", 1.2 MB of the kernel's memory while it counts" if op == "packet_times" else ""
    assert (found.status, found.evidence) == ("pass", f"available ({setting}: off){memory}")
    assert asked == [f"{op}.start", f"{op}.stop"]
    found, _ = finding(check, node, ["no_permission"])
    assert (found.status, found.values["refused"]) == ("pass", "no_permission")
    assert f"not requested ({setting}: off)" in found.evidence and "it says no" in found.evidence
    found, _ = finding(check, node, ["no_permission"], None, None, CheckContext, **{setting: "on"})
    assert found.status == "warn" and found.hint is not None
    assert found.evidence == "not available: it says no"


def test_what_an_xdp_program_would_change_is_told_and_a_refusal_names_the_way_without() -> None:
    changes = XdpChanges(features=["rx-gro-hw off"], left_features=[], link_changes=2)
    found, _ = finding(tools.packet_times, "snk1", [], changes, packet_times="xdp-native")
    assert found.status == "pass" and found.evidence.startswith("available (packet_times: xdp-native), 1.2 MB")
    assert found.evidence.endswith("; at eth1 it causes rx-gro-hw off, 2 changes of its link")
    found, _ = finding(tools.packet_times, "snk1", ["busy"], packet_times="xdp-generic")
    assert (found.status, found.evidence) == ("warn", "not available: it says no")
    assert found.hint == "set packet_times: on, which changes nothing"


CHANGES = XdpChanges(features=["rx-gro-hw off"], left_features=[], link_changes=4, link_is_back=True)


def test_links_that_take_their_time_are_waited_for_and_an_end_that_was_not_heard_is_a_doubt() -> None:
    slow = {"packet_times.start": LINK_S, "packet_times.stop": LINK_S}
    found, _ = finding(tools.packet_times, "snk1", [], CHANGES, slow, packet_times="xdp-native")
    assert found.status == "pass" and found.evidence.endswith("causes rx-gro-hw off, 4 changes of its link")
    for wanted in ("xdp-native", "on"):
        found, asked = finding(
            tools.packet_times, "snk1", [], CHANGES, {"packet_times.stop": 60.0}, packet_times=wanted
        )
        assert found.status == "warn" and asked == ["packet_times.start", "packet_times.stop"]
        assert "it is not known whether it ended and what it changed: no answer to packet_times.stop" in found.evidence


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"left_features": ["rx-gro-hw off"]}, "and could not restore rx-gro-hw off"),
        ({"link_is_back": False}, "and 7 s after its removal the link was not up again"),
    ],
)
def test_what_is_not_as_before_is_a_doubt(changes: dict[str, Any], words: str) -> None:
    left = XdpChanges(**{**CHANGES.to_wire(), **changes})
    found, _ = finding(tools.packet_times, "snk1", [], left, packet_times="xdp-native")
    assert found.status == "warn" and words in found.evidence and found.hint is not None


def test_a_link_at_the_other_end_that_is_down_afterwards_is_waited_for_and_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[tuple[str, str]] = []

    class Ports(CheckContext):
        back_after = 5

        def blocked(self, node: str, interface: str) -> str | None:
            looks.append((node, interface))
            down = node == "uut" and 2 < len(looks) < self.back_after
            return f"{node}/{interface} has no carrier" if down else None

    monkeypatch.setattr(tools, "PORTS_S", 0.1)
    monkeypatch.setattr(tools, "POLL_S", 0.01)
    found, _ = finding(tools.packet_times, "snk1", [], CHANGES, bench=Ports, packet_times="xdp-native")
    assert found.status == "pass" and looks[:2] == [("uut", "eth5"), ("snk1", "eth1")] and len(looks) > 4
    Ports.back_after = 10**6
    looks.clear()
    found, _ = finding(tools.packet_times, "snk1", [], CHANGES, bench=Ports, packet_times="xdp-native")
    assert found.status is CheckStatus.WARN and found.evidence.endswith("; afterwards uut/eth5 has no carrier")
    looks.clear()
    finding(tools.packet_times, "snk1", [], bench=Ports, packet_times="on")
    assert looks == []


def test_it_has_a_wave_of_its_own_between_those_that_look_and_those_that_send(monkeypatch: pytest.MonkeyPatch) -> None:
    (own,) = (each for each in CHECKS if each.wave is Wave.LINKS)
    assert own.id == "kernel.packet_times" and own.deadline_s > 25
    ids = list(catalogue())
    assert ids.index("kernel.packet_times") == ids.index("kernel.drop_reasons") + 1, "people read it where it was"
    done: list[str] = []

    async def waves(run: CheckRun, wave: Wave) -> None:
        done.append(wave.name)

    async def nothing(run: CheckRun) -> None:
        done.append("sends")

    monkeypatch.setattr(CheckRun, "_node_checks", waves)
    for name in ("_cables", "_flows", "_captures"):
        monkeypatch.setattr(CheckRun, name, nothing)
    monkeypatch.setattr(CheckRun, "_whole_checks", lambda run: asyncio.sleep(0))

    async def all_steps() -> None:
        session = SimpleNamespace(inventory=make_inventory())
        for step in CheckRun(cast(Any, session), None, fix=False, on_result=None)._steps():
            await step()

    asyncio.run(all_steps())
    assert done == ["FIRST", "FIXES", "OTHERS", "LINKS", "sends", "sends", "sends"]


def test_what_a_former_trial_left_is_ended_first() -> None:
    found, asked = finding(tools.packet_times, "snk1", ["exists"])
    assert found.status == "pass"
    assert asked == ["packet_times.start", "packet_times.stop", "packet_times.start", "packet_times.stop"]
