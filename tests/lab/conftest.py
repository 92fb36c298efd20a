"""Agents in a network namespace of the test's own, and labs that do not wait for packets which are there already."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from support.agent_process import AgentProcess, Net
from support.bpf_programs import no_others

WAITS, WAITS_LESS = "  drain_s: 1\n", "  drain_s: 0.3\n"


@pytest.fixture(scope="session", autouse=True)
def less_drain() -> Iterator[None]:
    """Trials on a lab of veth pairs wait 0.3 s after sending, not 1 s, and then until its counters are steady."""
    up = lab.up

    def up_with_less_drain(spec: LabSpec) -> lab.LabStatus:
        status = up(spec)
        if spec.generator != "pktgen" and spec.uut != "machine":  # emulated machines need their time
            text = status.hosts_file.read_text()
            status.hosts_file.write_text(text.replace(WAITS, WAITS_LESS))
        return status

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab, "up", up_with_less_drain)
        yield


@pytest.fixture
def kernel_programs() -> Iterator[None]:
    """The kernel's programs for this test alone, also where others run beside it."""
    with no_others():
        yield


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
