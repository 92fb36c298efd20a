"""Two agents of one console that see each other's processes: what the other does is ours, what a stranger does is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from support.agent_process import AgentProcess, Net

SEEN_S = 0.3
"""Of the 0.4 s that the loop takes: what a process used is counted in ticks."""

BUSY = "import time\nwhile time.process_time() < 0.4: pass"


def window(agent: AgentProcess, meanwhile: Callable[[], object]) -> dict:
    agent.ok("surroundings", begin=True)
    meanwhile()
    told = agent.ok("surroundings", begin=False)
    assert told["pid_namespace"] == os.stat("/proc/self/ns/pid").st_ino
    return told


def by_whom(told: dict, pid: int) -> str | None:
    return next((each["whose"] for each in told["window"]["processes"] if each["pid"] == pid), None)


def test_what_the_agent_of_another_node_runs_is_ours(net: Net, start: Callable[..., AgentProcess], tmp_path):
    here, there = start(directory=str(tmp_path)), start(directory=str(tmp_path))
    told = window(here, lambda: there.ok("exec", argv=[sys.executable, "-c", BUSY], timeout_s=30, stdin=None))
    assert told["window"]["used_s"]["ours"] >= SEEN_S
    assert there.hello["pid"] not in told["sessions"]


def test_the_agent_of_another_console_is_not_ours(net: Net, start: Callable[..., AgentProcess], monkeypatch, tmp_path):
    from labconsole.nodes import archive

    here = start(directory=str(tmp_path))
    monkeypatch.setattr(archive, "SESSION", "session-another")
    there = start(directory=str(tmp_path))
    told = window(here, lambda: there.ok("exec", argv=[sys.executable, "-c", BUSY], timeout_s=30, stdin=None))
    assert told["window"]["used_s"]["labconsole"] >= SEEN_S
    assert len(told["sessions"]) >= 1


def test_a_strangers_busy_loop_is_found_beside_own_ones(net: Net, start: Callable[..., AgentProcess], tmp_path):
    here, there = start(directory=str(tmp_path)), start(directory=str(tmp_path))
    loop = "while :; do :; done"

    here.ok("surroundings", begin=True)
    stranger = subprocess.Popen(["setsid", "sh", "-c", loop])
    try:
        there.ok("exec", argv=[sys.executable, "-c", BUSY], timeout_s=30, stdin=None)
        told = here.ok("surroundings", begin=False)
    finally:
        stranger.kill()
        stranger.wait()
    assert by_whom(told, stranger.pid) == "other"
    assert told["window"]["used_s"]["ours"] >= SEEN_S


def test_our_console_is_ours_where_it_can_be_seen(net: Net, start: Callable[..., AgentProcess], tmp_path):
    agent = start(directory=str(tmp_path))
    console = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    place = {
        "boot_id": agent.ok("surroundings", begin=False)["boot_id"],
        "pid_namespace": os.stat("/proc/self/ns/pid").st_ino,
        "pid": console.pid,
    }
    try:
        whose = []
        for where in (place, {**place, "boot_id": "another machine"}):
            agent.ok("surroundings", begin=True, console=where)
            agent.ok("exec", argv=["sleep", "0.5"], timeout_s=30, stdin=None)
            whose.append(by_whom(agent.ok("surroundings", begin=False, console=where), console.pid))
    finally:
        console.kill()
        console.wait()
    assert whose == ["ours", "other"]
