"""Guests that are a program: spoken to on their console, and gone with the agent. A shell stands in for the guest."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from support.agent_process import AgentProcess, Net, eventually

SHELL = ["sh", "-c", 'sleep 1000 & echo hello; echo UP; while read -r line; do sh -c "$line"; echo "DONE $?"; done']


def sleeping(net: Net) -> bool:
    def comm(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            return ""

    return any(comm(pid) == "sleep" for pid in net.processes())


def start(agent: AgentProcess, **more: object) -> dict:
    return agent.ok("guest.start", guest="one", argv=SHELL, ready="UP", timeout_s=10, **more)


def test_a_guest_is_started_asked_and_ended(net: Net, agent: AgentProcess) -> None:
    started = start(agent)
    assert started["console"].strip() == "hello"
    asked = agent.ok("guest.ask", guest="one", line="echo 6 packets; exit 3", until="DONE", timeout_s=10)
    assert asked["printed"] == "6 packets\n"
    status = agent.ok("guest.status", guest="one")
    assert (status["running"], status["pid"]) == (True, started["pid"])
    assert agent.error("guest.start", guest="one", argv=SHELL, ready="UP", timeout_s=5)["code"] == "exists"
    agent.ok("guest.stop", guest="one")
    eventually(lambda: not sleeping(net), "the guest and what it started are gone")
    assert agent.error("guest.status", guest="one")["code"] == "no_such_guest"


@pytest.mark.parametrize("own_session", [None, True, False])
def test_a_guest_has_a_session_of_its_own_or_the_agents_and_ends_whole_either_way(
    net: Net, agent: AgentProcess, own_session: bool | None
) -> None:
    """By its group: a kernel that shares processors by session shares them between the agent's guests as processes."""
    pid = start(agent, **({} if own_session is None else {"own_session": own_session}))["pid"]
    assert os.getsid(pid) == (os.getsid(agent.hello["pid"]) if own_session is False else pid)
    assert os.getpgid(pid) == pid
    agent.ok("guest.ask", guest="one", line="sleep 1000 & sleep 1000 &", until="DONE", timeout_s=10)
    agent.ok("guest.stop", guest="one")
    eventually(lambda: not sleeping(net), "the guest and what it started are gone")
    agent.ok("ping")


def test_when_memory_ends_a_guest_and_what_runs_in_it_are_killed_before_the_agent(agent: AgentProcess) -> None:
    pid = start(agent)["pid"]
    asked = agent.ok("guest.ask", guest="one", line="cat /proc/self/oom_score_adj", until="DONE", timeout_s=10)
    own = Path(f"/proc/{agent.hello['pid']}/oom_score_adj").read_text()
    assert int(asked["printed"]) == int(Path(f"/proc/{pid}/oom_score_adj").read_text()) == 900 > int(own)


def test_a_guest_in_a_namespace_of_the_agents_sees_that_network_only(agent: AgentProcess) -> None:
    agent.ok("net.apply", token="t", changes=[{"do": "namespace", "name": "inner"}])
    agent.ok("guest.start", guest="one", argv=SHELL, namespace="inner", ready="UP", timeout_s=10)
    asked = agent.ok("guest.ask", guest="one", line="ls /sys/class/net", until="DONE", timeout_s=10)
    assert asked["printed"].split() == ["lo"]
    refused = agent.error("guest.start", guest="two", argv=SHELL, namespace="outer", ready="UP", timeout_s=5)
    assert refused["code"] == "no_such_namespace"


def test_what_a_guest_and_its_descendants_used_is_told_and_what_is_gone_is_named(agent: AgentProcess) -> None:
    pid = start(agent)["pid"]
    before = agent.ok("process.usage", pids=[pid])
    assert before["processes"] >= 2, "the shell and what sleeps below it"
    assert before["gone"] == []
    busy = "i=0; while [ $i -lt 40000 ]; do i=$((i + 1)); done"
    agent.ok("guest.ask", guest="one", line=f"{busy} & wait", until="DONE", timeout_s=60)
    after = agent.ok("process.usage", pids=[pid, 2**22 + 1])
    assert after["gone"] == [2**22 + 1]
    assert after["monotonic_ns"] > before["monotonic_ns"]
    for pids in ([], [0], ["1"], [True], list(range(1, 99))):
        assert agent.error("process.usage", pids=pids)["code"] == "bad_request"


@pytest.mark.parametrize("own_session", [True, False])
@pytest.mark.parametrize("end", ["stdin", "agent killed", "agent terminated"])
def test_a_guest_is_gone_with_the_agent_however_that_ends(
    net: Net, agent: AgentProcess, end: str, own_session: bool
) -> None:
    start(agent, own_session=own_session)
    ends: dict[str, Callable[[], None]] = {
        "stdin": agent.stdin.close,
        "agent killed": lambda: os.kill(agent.hello["pid"], signal.SIGKILL),
        "agent terminated": lambda: os.kill(agent.popen.pid, signal.SIGTERM),
    }
    ends[end]()
    eventually(lambda: not net.processes(), "everything is gone")


def test_a_guest_that_does_not_come_up_is_told_with_its_last_words_and_is_gone(net: Net, agent: AgentProcess) -> None:
    silent = ["sh", "-c", "echo cannot find the disk; sleep 1000"]
    error = agent.error("guest.start", guest="one", argv=silent, ready="UP", timeout_s=0.3)
    assert error["code"] == "guest_silent"
    assert "cannot find the disk" in error["message"]
    eventually(lambda: not sleeping(net), "it is gone")
    ended = agent.error("guest.start", guest="one", argv=["sh", "-c", "echo panic; exit 1"], ready="UP", timeout_s=10)
    assert ended["code"] == "guest_ended"
    assert "status 1" in ended["message"]
    assert "panic" in ended["message"]
    missing = agent.error("guest.start", guest="one", argv=["no-such-hypervisor"], ready="UP", timeout_s=10)
    assert missing["code"] == "command_missing"


def test_a_guest_that_dies_by_itself_is_told_at_once(agent: AgentProcess) -> None:
    started = start(agent)
    os.killpg(started["pid"], signal.SIGKILL)
    event = agent.event("guest.ended")
    assert event["guest"] == "one"
    assert "status -9" in event["message"]
    assert agent.error("guest.ask", guest="one", line="true", until="DONE", timeout_s=1)["code"] == "no_such_guest"


def test_a_console_that_prints_without_end_is_kept_in_bounds(agent: AgentProcess) -> None:
    start(agent)
    line = "head -c 5000000 /dev/zero | tr '\\0' x"
    asked = agent.ok("guest.ask", guest="one", line=line, until="DONE", timeout_s=10)
    assert len(asked["printed"]) <= 65536


def test_what_is_no_line_or_no_name_is_refused(agent: AgentProcess) -> None:
    start(agent)
    bad = agent.error("guest.ask", guest="one", line="true\nfalse", until="DONE", timeout_s=1)
    assert bad["code"] == "bad_request"
    for name in ("", "../x", "a b", "x" * 40):
        error = agent.error("guest.start", guest=name, argv=SHELL, ready="UP", timeout_s=1)
        assert error["code"] == "bad_request"
