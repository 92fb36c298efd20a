"""What a batch holds, what it renews, what it says in records, and how it loses a node."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.engine.leases import Leases, build_holder
from labconsole.engine.session import Session
from labconsole.engine.trial.recorder import TrialRecorder
from labconsole.errors import AgentError, LeaseHeld, NodeLost
from labconsole.wire.lease import LeaseChanged, LeaseLost, StatedHolder
from support.asking import Asking
from support.background_records import REQUEST
from support.fake_session import make_inventory

TOLD: dict[str, Any] = {
    "owner": "ben@b",
    "purpose": "plan small",
    "observe": "quiet",
    "quiet": False,
    "since_wall_ns": 1_700_000_000_000_000_000,
    "until_wall_ns": 1_700_000_600_000_000_000,
}


class Link(Asking):
    """A node that answers as it is told to."""

    clock_offset_ns = 0

    def __init__(self, name: str, answer: Any = None) -> None:
        self.name, self.answer = name, answer
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def request(self, op: str, args: dict[str, Any] | None = None, *, timeout_s: float = 30.0) -> dict[str, Any]:
        self.asked.append((op, args or {}))
        if isinstance(self.answer, Exception):
            raise self.answer
        granted = {"since_wall_ns": 1, "taken_from": None}
        return (self.answer or granted) if op == "lease.take" else {}

    def ops(self) -> list[str]:
        return [op for op, _ in self.asked]


def take(leases: Leases, *links: Link, **more: Any) -> None:
    wanted: dict[str, Any] = {"purpose": "raw", "observe": {"uut": "quiet"}, "left_s": 9.0, "take_over": False, **more}
    asyncio.run(leases.take({link.name: link for link in links}, **wanted))  # type: ignore[misc]


def retake(leases: Leases, *links: Link) -> None:
    asyncio.run(leases.retake({link.name: link for link in links}))  # type: ignore[misc]


def test_a_holder_is_one_sentence_by_our_clock():
    text = "ben@b since 2023-11-14 22:13:20 UTC, until about 22:23:20 UTC, for plan small"
    assert build_holder(StatedHolder(**TOLD)).describe() == text
    ahead = {**TOLD, "since_wall_ns": TOLD["since_wall_ns"] + 5_000_000_000, "until_wall_ns": None, "purpose": None}
    assert (
        build_holder(StatedHolder(**ahead), clock_offset_ns=5_000_000_000).describe()
        == "ben@b since 2023-11-14 22:13:20 UTC"
    )
    assert build_holder(StatedHolder(**dict.fromkeys(TOLD))).describe() == "another session"
    assert build_holder(StatedHolder(**{**TOLD, "since_wall_ns": 2**62, "until_wall_ns": 2**63 - 1})).since is not None


def test_nodes_are_taken_in_order_told_again_and_given_back():
    uut, sink, leases = Link("uut"), Link("snk1"), Leases("anna@a")
    take(leases, uut, sink)
    asyncio.run(leases.renew(4.0))
    asyncio.run(leases.renew(None))
    asyncio.run(leases.release())
    assert uut.ops() == sink.ops() == ["lease.take", "lease.take", "lease.release"]
    assert [args["left_s"] for _, args in uut.asked[:2]] == [9.0, 4.0]
    assert [args["observe"] for _, args in uut.asked[:2]] == ["quiet", "quiet"]
    assert "take_over" not in uut.asked[1][1]


def test_one_node_that_is_held_refuses_all_and_says_who():
    uut = Link("uut")
    sink = Link("snk1", AgentError("snk1", "ben@b has this node", code="lease_held", detail=TOLD))
    leases = Leases("anna@a")
    with pytest.raises(LeaseHeld, match="snk1: ben@b has this node") as caught:
        take(leases, uut, sink)
    assert caught.value.detail == TOLD
    asyncio.run(leases.release())
    assert (uut.ops(), sink.ops()) == (["lease.take", "lease.release"], ["lease.take"])


def test_a_take_over_is_noted_for_the_record():
    leases = Leases("anna@a")
    take(leases, Link("uut", {"since_wall_ns": 1, "taken_from": TOLD}), Link("snk1"), take_over=True)
    (note,) = leases.influences
    assert (note["node"], note["kind"], note["owner"]) == ("uut", "lease_taken_over", "ben@b")
    assert note["detail"].startswith("taken over from ben@b since")
    take(leases, Link("uut"))
    assert leases.influences == []


def test_only_a_lease_of_this_batch_can_be_lost_and_only_once():
    leases = Leases("anna@a")
    event = LeaseLost(by="ben@b", purpose="plan small")
    assert not leases.taken_over("uut", event)
    take(leases, Link("uut"), Link("snk1"))
    assert leases.taken_over("uut", event)
    assert not leases.taken_over("snk1", event)
    assert str(leases.lost) == "uut: ben@b took the testbed over for plan small"


def test_a_node_that_went_away_is_asked_nothing_more():
    gone, there, leases = Link("uut"), Link("snk1"), Leases("anna@a")
    take(leases, gone, there)
    leases.seen("uut", LeaseChanged(holder=StatedHolder(**TOLD), quiet=False), 0)
    leases.forget("uut")
    assert leases.holders == {}
    there.answer = NodeLost("snk1", "gone")
    asyncio.run(leases.renew(1.0))
    asyncio.run(leases.release())
    assert (len(gone.asked), len(there.asked)) == (1, 3)


def test_a_node_that_was_lost_and_is_back_is_leased_again_before_it_is_measured():
    uut, sink, leases = Link("uut"), Link("snk1"), Leases("anna@a")
    retake(leases, uut)
    assert uut.ops() == [], "no batch"
    take(leases, uut, sink)
    retake(leases, uut, sink)
    leases.forget("snk1")
    retake(leases, uut)  # it is not back yet
    asyncio.run(leases.renew(4.0))
    back, other = Link("snk1"), Link("src9")
    for _ in range(2):
        retake(leases, uut, back, other)
    assert (uut.ops(), sink.ops(), back.ops()) == (["lease.take"] * 2, ["lease.take"], ["lease.take"])
    assert back.asked[0][1]["take_over"] is False and back.asked[0][1]["left_s"] == 4.0
    assert other.ops() == [], "no node of this batch"
    leases.forget("snk1")
    busy = Link("snk1", AgentError("snk1", "ben@b has this node", code="lease_held", detail=TOLD))
    with pytest.raises(LeaseHeld, match="snk1: ben@b has this node"):
        retake(leases, busy)
    asyncio.run(leases.release())
    retake(leases, uut, back)
    assert (uut.ops()[2:], back.ops()[1:]) == (["lease.release"], []), "the batch is over"


def test_a_trial_and_the_end_of_one_lease_what_is_back_again_and_end_if_another_was_faster():
    """Before anything else is asked of the nodes: the rest of a session is not there."""
    links = {name: Link(name) for name in ("src1", "uut", "snk1")}
    leases = Leases("anna@a")
    take(leases, *links.values())
    leases.forget("snk1")
    links["snk1"] = Link("snk1", AgentError("snk1", "ben@b has this node", code="lease_held", detail=TOLD))
    order: Any = SimpleNamespace(request=REQUEST, repetition=1, repetitions=1, plan=None)
    pool = SimpleNamespace(links=links, require=lambda names: links)
    session: Any = SimpleNamespace(
        inventory=make_inventory(), emit=lambda event: None, leases=leases, links=pool, _leases=leases, _pool=pool
    )
    for asked in (TrialRecorder.take(session, order), Session.renew_lease(session, 4.0)):
        with pytest.raises(LeaseHeld, match="snk1: ben@b has this node"):
            asyncio.run(asked)


def test_others_are_known_as_long_as_they_hold():
    leases = Leases("anna@a")
    leases.seen("uut", LeaseChanged(holder=StatedHolder(**TOLD), quiet=False), 0)
    assert leases.holders["uut"].owner == "ben@b"
    leases.seen("uut", LeaseChanged(holder=None, quiet=False), 0)
    assert leases.holders == {}
