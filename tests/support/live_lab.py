"""What the tests on a lab share: the real command, and a look into the nodes from outside SSH."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labconsole.lab import commands as lab
from support.forked_command import run_command

COMMAND = [sys.executable, "-m", "labconsole"]

STATE = """
running=$(ps -eo args=)
echo "$running" | grep -v -e 'ps -eo' -e '^sh -c' -e 'labconsole.lab' | sort
ip -o link | sed 's/NO-CARRIER,//; s/ state [A-Z]*//; s/@[^:]*//' | cut -d' ' -f2,3,4,5 | sort
ip route | sort; ip neigh | grep PERMANENT | sort; ip netns
for f in /proc/sys/net/ipv4/conf/*/forwarding; do echo $f $(cat $f); done
ls -A /tmp /var/tmp
"""


def labconsole(
    *words: str, hosts: Path | str | None = None, store: Path | None = None, timeout_s: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does; no traceback may reach them."""
    argv = [*words]
    if hosts is not None:
        argv += ["--hosts", str(hosts)]
    if store is not None:
        argv += ["--store", str(store)]
    done = run_command(argv, timeout_s)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def records(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The JSON lines that a command printed."""
    assert done.returncode in (0, 1), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def node_state(name: str, node: str) -> str:
    """Everything of a node that a run might leave changed: processes, links, routes, neighbours, forwarding, files."""
    found = lab.execute(name, node, ["sh", "-c", STATE])
    return found.stdout


def lab_state(name: str) -> dict[str, str]:
    """The state of every node."""
    status = lab.status(name)
    assert status is not None
    return {node.name: node_state(name, node.name) for node in status.nodes}


def wait_until(condition: Callable[[], object], *, timeout_s: float, what: object) -> None:
    """Poll until it holds; fails with ``what`` when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def processes(name: str, node: str) -> str:
    """The command lines of what runs in a node."""
    return lab.execute(name, node, ["ps", "-eo", "args="]).stdout


def finished(process: subprocess.Popen[str], trials: int) -> list[dict[str, Any]]:
    """What is told of the next so many trials that end."""
    assert process.stdout is not None
    found: list[dict[str, Any]] = []
    while len(found) < trials:
        event = json.loads(process.stdout.readline())
        if event["event"] == "trial_finished":
            found.append(event)
    return found
