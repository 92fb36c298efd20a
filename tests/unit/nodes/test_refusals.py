"""What a link does with an answer that is not of the protocol: it ends, and says which operation and what was wrong."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from labconsole.errors import AgentError, NodeLost, NodeSilent
from labconsole.nodes.channel import AgentSession
from labconsole.nodes.link import NodeLink
from labconsole.wire.guests import AskGuests, GuestLine
from labconsole.wire.session import Ping
from support.asking import asked

pytestmark = pytest.mark.asyncio

HELLO = {"event": "hello", "protocol": 1, "monotonic_ns": 1, "wall_ns": 2}


class Channel:
    """Answers every request with the next of the answers, as an agent's lines would arrive."""

    def __init__(self, session: AgentSession, answers: list[dict[str, Any]]) -> None:
        self._session, self._answers = session, answers

    def write(self, line: bytes) -> None:
        if not self._answers:
            return
        answer = {"id": json.loads(line)["id"], **self._answers.pop(0)}
        asyncio.get_running_loop().call_soon(self._session.data_received, json.dumps(answer).encode() + b"\n", None)

    def write_eof(self) -> None:
        self._session.end("the agent ended")


class Dialled:
    """A connection that has nothing to close."""

    aborted = False

    async def close(self) -> None:
        pass

    def abort(self) -> None:
        self.aborted = True


def link(*answers: dict[str, Any]) -> tuple[NodeLink, Dialled]:
    """A link to an agent that gives these answers, one after the other."""
    session, dialled = AgentSession("uut"), Dialled()
    session.data_received(json.dumps(HELLO, separators=(",", ":")).encode() + b"\n", None)
    channel: Any = Channel(session, list(answers))
    connection: Any = dialled
    return NodeLink("uut", connection, channel, session, lambda name, event: None), dialled


@pytest.mark.parametrize(
    ("op", "answer", "what"),
    [
        ("links", {"ok": {"links": {}}}, "links: links is not a list of at most 4096"),
        ("ping", {"ok": {"monotonic_ns": 1.5, "wall_ns": 1}}, "ping: monotonic_ns is not a whole number from 0"),
        ("capture.stop", {"ok": {}}, "capture.stop: ok has no captured_packets"),
        ("capture.drain", {"ok": [1]}, "capture.drain: ok is not an object"),
        ("lease.take", {"error": {"code": "x", "message": 7}}, "lease.take: message is not text"),
        ("lease.take", {"error": {"code": "x", "message": "", "detail": 10**30}}, "lease.take: detail has a number"),
    ],
)
async def test_an_answer_that_is_not_of_the_protocol_ends_the_link(op: str, answer: dict[str, Any], what: str) -> None:
    node, dialled = link(answer)
    with pytest.raises(NodeLost) as caught:
        await asked(node, op)
    assert f"uut: sent something that does not follow the protocol ({what}" in str(caught.value)
    assert caught.value.operation == op
    assert what in await node.wait_lost()
    assert dialled.aborted
    with pytest.raises(NodeLost):
        await asked(node, "ping")


async def test_a_clock_that_is_none_is_a_lost_node() -> None:
    node, _ = link({"ok": {"monotonic_ns": "now", "wall_ns": 1}})
    with pytest.raises(NodeLost, match="ping: monotonic_ns"):
        await node.measure_clock()


async def test_a_refusal_arrives_with_its_detail_and_leaves_the_link_alone() -> None:
    error = {"code": "lease_held", "message": "ann has this node", "detail": {"owner": "a\x1b[2Jnn"}}
    node, _ = link({"error": error}, {"ok": {"packets": 3}})
    with pytest.raises(AgentError) as caught:
        await asked(node, "lease.take")
    assert (caught.value.code, caught.value.detail) == ("lease_held", {"owner": "ann"})
    assert await asked(node, "capture.drain") == {"packets": 3}


async def test_of_heartbeats_that_a_node_does_not_answer_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node may answer every other request for weeks."""
    monkeypatch.setattr("labconsole.nodes.link.BEAT_S", 0.0)
    node, _ = link({"ok": {}})
    await node.keep_alive()
    while node._last_id < 100:
        await asyncio.sleep(0)
    assert len(node._pending) == 1
    node._session.end("the test is over")


@pytest.mark.parametrize("failed", [["cannot remove lcb1"], 5, None])
async def test_closing_takes_whatever_an_agent_says_of_it(failed: Any) -> None:
    node, dialled = link({"ok": {"failed": failed}})
    await node.close()
    assert dialled.aborted


async def test_an_answer_for_other_guests_than_were_asked_is_refused_and_leaves_the_link_alone() -> None:
    said = {"guest": "g2", "asked_ns": 1, "answered_ns": 2, "printed": "", "code": None, "message": None}
    whole = {"waited_s": 0.0, "waited_cpu_s": 0.0, "cpu_s": 0.0}
    node, _ = link({"ok": {"guests": [said], **whole}}, {"ok": {"guests": [], **whole}})
    request = AskGuests(asked=[GuestLine(guest="g1", line="true")], until="DONE", timeout_s=1.0)
    for _ in range(2):
        with pytest.raises(AgentError, match="its guests are not the requested ones"):
            await node.ask(request)


async def test_no_answer_in_time_is_told_from_a_link_that_is_gone() -> None:
    node, _ = link()
    with pytest.raises(NodeSilent):
        await node.ask(Ping(), timeout_s=0.01)
