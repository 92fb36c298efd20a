"""A forked child's readiness, failure and end, as the agent hears of them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from labconsole.agent.processes.children import ArmedChild, ChildSide, sleep_until
from labconsole.wire.codec import WireError


def with_child(work: Callable[[ChildSide], None], action: Callable[[ArmedChild], Any]) -> Any:
    async def run() -> Any:
        child = ArmedChild(work)
        try:
            return await asyncio.wait_for(action(child), 10)
        finally:
            await child.close()
            assert not child.alive
            with pytest.raises(ProcessLookupError):
                os.kill(child.pid, 0)

    return asyncio.run(run())


def test_a_child_that_cannot_get_ready_says_why() -> None:
    with pytest.raises(WireError, match="no such luck") as caught:
        with_child(lambda side: side.failed("generator_failed", "no such luck"), lambda child: child.wait_ready())
    assert caught.value.code == "generator_failed"


def test_a_child_that_dies_before_it_is_ready_is_noticed() -> None:
    with pytest.raises(WireError, match="died before"):
        with_child(lambda side: os.kill(os.getpid(), signal.SIGKILL), lambda child: child.wait_ready())


def test_a_child_gets_the_instant_and_ends_by_itself() -> None:
    def work(side: ChildSide) -> None:
        side.ready()
        side.failed("heard", str(side.wait_word()))

    async def action(child: ArmedChild) -> str | None:
        await child.wait_ready()
        assert child.last_words is None
        child.give_word(12345)
        await child.wait_end()
        child.give_word(1)  # too late, and no error
        child.signal(signal.SIGTERM)
        return child.last_words

    assert with_child(work, action) == "12345"


def test_closing_ends_a_child_that_still_waits() -> None:
    def work(side: ChildSide) -> None:
        side.ready()
        side.wait_word()

    with_child(work, lambda child: child.wait_ready())


def test_a_child_ends_when_the_agent_lets_go_of_it() -> None:
    def work(side: ChildSide) -> None:
        side.ready()
        side.wait_word()
        side.failed("heard", "something")

    async def action(child: ArmedChild) -> str | None:
        await child.wait_ready()
        os.close(os.dup(child._word))
        os.dup2(os.open(os.devnull, os.O_WRONLY), child._word)  # the pipe's only writing end is gone
        await child.wait_end()
        return child.last_words

    assert with_child(work, action) is None


def test_a_sleep_can_be_stopped_and_ends_at_its_instant() -> None:
    assert not sleep_until(time.monotonic_ns() + 10**12, lambda: True)
    instant = time.monotonic_ns() + 1_000_000
    assert sleep_until(instant, lambda: False)
    assert time.monotonic_ns() >= instant
