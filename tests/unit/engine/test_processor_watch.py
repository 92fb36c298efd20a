"""Asking the unit under test what its processors did: wanted only, refused in words, and no trial ends for it."""

from __future__ import annotations

from typing import Any

import pytest

from labconsole.engine.trial.kernel_probes import ProcessorWatch
from labconsole.engine.trial.setup import TrialSettings
from labconsole.errors import AgentError, NodeLost
from labconsole.verdict.observations import TrialObservations
from labconsole.verdict.record import telemetry_extension
from labconsole.wire.message import Done
from labconsole.wire.processor_work import NodeWork
from support.worked import told_work

pytestmark = pytest.mark.asyncio


class Link:
    """Answers in turn; what is an exception is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), []  # type: ignore[var-annotated]

    async def ask(self, request: Any, **how: Any) -> Any:
        self.asked.append(request.op)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def work() -> NodeWork:
    told = told_work()
    return NodeWork.parse({name: value for name, value in told.items() if name not in ("version", "node")})


async def watched(link: Any, *, wanted: bool = True) -> dict[str, Any]:
    """What the record would keep."""
    seen = TrialObservations("r", "2026-01-01T00:00:00Z")
    watch = ProcessorWatch(seen, link, "uut", ["eth1"], wanted=wanted)
    await watch.begin()
    await watch.end()
    await watch.end()
    return telemetry_extension(seen.work)


async def test_it_is_asked_around_traffic_and_once() -> None:
    link = Link(Done(), work())
    told = (await watched(link))["telemetry"]
    assert link.asked == ["processor_work.begin", "processor_work.end"]
    assert told["node"] == "uut" and len(told["processors"]) == 2


async def test_a_trial_that_counts_asks_nothing() -> None:
    link = Link()
    assert await watched(link, wanted=False) == {} and link.asked == []
    settings = TrialSettings(drain_s=1, sample_interval_s=1, capture_buffer_kib=1)
    assert settings.of_role("measured") == settings.of_role("pilot") == settings
    assert settings.of_role("telemetry").telemetry and settings.of_role("telemetry").drop_reasons == "on"


@pytest.mark.parametrize("at", [0, 1])
async def test_a_node_that_refuses_or_is_lost_ends_no_trial_and_the_record_says_why(at: int) -> None:
    for problem, word in (
        (AgentError("uut", "no /proc", code="failed"), "no /proc"),
        (NodeLost("uut", "gone"), "not report"),
    ):
        link = Link(*[Done()][:at], problem)
        refused = (await watched(link))["telemetry"]["refused"]
        assert word in refused["message"]


async def test_what_no_record_can_hold_is_a_refusal_and_loses_no_run() -> None:
    told = work()
    told.__dict__["tick_ns"] = 0
    refused = (await watched(Link(Done(), told)))["telemetry"]["refused"]
    assert refused["code"] == "failed" and "are invalid" in refused["message"]
