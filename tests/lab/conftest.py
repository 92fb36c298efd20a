"""Agents in a network namespace of the test's own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.agent_process import AgentProcess, Net


@pytest.fixture
def net() -> Iterator[Net]:
    made = Net()
    yield made
    made.close()


@pytest.fixture
def start(net: Net) -> Iterator[Callable[..., AgentProcess]]:
    """Starts an agent in the namespace; arguments as AgentProcess takes them."""
    started: list[AgentProcess] = []

    def begin(*arguments: str, **more: str) -> AgentProcess:
        started.append(AgentProcess(net, *arguments, **more))
        return started[-1]

    yield begin
    for agent in started:
        with suppress(ProcessLookupError):
            os.kill(agent.hello["pid"], signal.SIGCONT)  # one that a test froze can end again
        agent.close()


@pytest.fixture
def agent(start: Callable[..., AgentProcess], tmp_path: Path) -> AgentProcess:
    """One agent, whose temporary directory is the test's."""
    return start(directory=str(tmp_path))
