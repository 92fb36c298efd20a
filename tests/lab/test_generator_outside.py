"""Node code of other packages in a real agent: it sends, counts, stops and leaves nothing, whatever it does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.agent_process import AgentProcess, Net, eventually, processes_in
from support.plugged_generators import HONEST, plugged_generators

LEAVES_OTHERS = "import os, subprocess\n" + HONEST.replace(
    "    while job.more():",
    "    subprocess.Popen(['sleep', '1000'])\n"
    "    if not os.fork():\n        os.execvp('sleep', ['sleep', '1001'])\n"
    "    while job.more():",
)
NODES = {
    "honest": HONEST,
    "deaf": "import time\n" + HONEST.replace("while job.more():", "while True:\n        time.sleep(0.1)"),
    "family": LEAVES_OTHERS,
    "raising": HONEST + "        if job.sent_packets == 5:\n            raise RuntimeError('enough')\n",
    "lazy": HONEST + "        if job.sent_packets == 5:\n            return\n",
    "dying": "import os\n" + HONEST + "        if job.sent_packets == 5:\n            os._exit(0)\n",
    "backwards": HONEST + "    job.sent(-3)\n",
    "forwards": HONEST + "    job.sent(3)\n",
    "negative": HONEST + "    job.refused(-1)\n",
    "huge": HONEST + "    job.sent(2**70)\n",
    "unready": HONEST.replace("opened = socket", "raise OSError(1, 'no luck')\n    opened = socket"),
    "absent": "import os\nos.environ['A_VARIABLE_THAT_NOBODY_HAS']\n" + HONEST,
}
STREAM: dict[str, Any] = {
    "stream": "s1",
    "interface": "a0",
    "destination_mac": "02:00:00:00:01:02",
    "source_ip": "198.18.1.1",
    "sink_ip": "198.19.1.1",
    "udp_source_port": 9,
    "udp_sink_port": 9,
    "pkt_size_bytes": 60,
    "delay_ns": 1_000_000,
    "count": 200,
    "max_count": 400,
    "duration_s": 30.0,
}


@pytest.fixture
def agent(tmp_path: Path, net: Net) -> Iterator[AgentProcess]:
    with plugged_generators(tmp_path / "site", NODES):
        net.pair("a0", "b0")
        started = AgentProcess(net)
        yield started
        started.close()


def prepare(agent: AgentProcess, generator: str, **changes: Any) -> dict[str, Any]:
    (prepared,) = agent.ok("generator.prepare", streams=[{**STREAM, "generator": generator, **changes}])["streams"]
    return prepared


def taken(agent: AgentProcess, generator: str, **changes: Any) -> dict[str, Any]:
    prepare(agent, generator, **changes)
    agent.ok("generator.start", progress_interval_s=0.05)
    (sent,) = agent.ok("generator.wait")["streams"]
    agent.ok("generator.close")
    return sent


def test_it_sends_what_it_counts_and_says_which_code_it_was(net: Net, agent: AgentProcess) -> None:
    agent.ok("capture.start", **agent.capture("b0"))
    sent = taken(agent, "honest")
    counted = agent.ok("capture.stop", capture="s1")["analysis"]["streams"][0]
    assert (sent["generator"], sent["sent_packets"], sent["errors"], sent["error_text"]) == ("honest", 200, 0, None)
    assert sent["version"].startswith("7 sha256:") and len(sent["version"]) == len("7 sha256:") + 64
    assert sent["stopped_by"] == "count"
    assert sent["elapsed_ns"] >= 200 * STREAM["delay_ns"]
    assert (counted["packets"], counted["sequence"]["lost_packets"]) == (200, 0)
    agent.event("generator")  # progress was told meanwhile


def test_a_duration_ends_it(agent: AgentProcess) -> None:
    sent = taken(agent, "honest", count=None, duration_s=0.1, max_count=100_000)
    assert (sent["stopped_by"], sent["sent_packets"]) == ("duration", 100)


def test_one_that_was_asked_to_stop_says_so_and_one_that_does_not_hear_is_ended(agent: AgentProcess) -> None:
    for generator, ended, error in (("honest", "stopped", None), ("deaf", "error", "the sending process died")):
        prepare(agent, generator, count=None, max_count=10**6)
        agent.ok("generator.start", progress_interval_s=0.05)
        agent.event("generator")
        agent.ok("generator.stop")
        (sent,) = agent.ok("generator.wait")["streams"]
        assert (sent["stopped_by"], sent["error_text"]) == (ended, error)
        agent.ok("generator.close")


@pytest.mark.parametrize(
    ("generator", "words", "sent"),
    [
        ("raising", "generator raising failed: RuntimeError: enough", 5),
        ("lazy", "generator lazy ended after 5 of 200 packets", 5),
        ("dying", "the sending process died", 5),
        ("backwards", "generator backwards counts nonsense: ", None),
        ("forwards", "generator forwards counts nonsense: 203 packets sent, of 200", None),
        ("negative", "generator negative counts nonsense: -1 errors", None),
        ("huge", "generator huge failed: ValueError: ", 200),
    ],
)
def test_what_goes_wrong_is_said_in_words(agent: AgentProcess, generator: str, words: str, sent: int | None) -> None:
    told = taken(agent, generator)
    assert told["stopped_by"] == "error"
    assert told["error_text"].startswith(words)
    assert told["sent_packets"] == sent
    assert taken(agent, "honest")["sent_packets"] == 200, "all others work"


@pytest.mark.parametrize(
    ("generator", "code", "words"),
    [
        ("unready", "generator_failed", "generator unready cannot send on a0: PermissionError: [Errno 1] no luck"),
        ("absent", "generator_import", "generator absent cannot be imported on this node: KeyError"),
        ("unheard", "generator_missing", "this console did not send a generator unheard"),
    ],
)
def test_one_that_cannot_begin_says_why(agent: AgentProcess, generator: str, code: str, words: str) -> None:
    error = agent.error("generator.prepare", streams=[{**STREAM, "generator": generator}])
    assert error["code"] == code
    assert error["message"].startswith(words)
    assert taken(agent, "honest")["sent_packets"] == 200


def test_what_it_started_ends_with_it(net: Net, agent: AgentProcess) -> None:
    before = processes_in(net.inode)
    assert taken(agent, "family")["sent_packets"] == 200
    eventually(lambda: processes_in(net.inode) == before, "its children are gone, and the session goes on")


def agent_killed(agent: AgentProcess) -> None:
    os.kill(agent.hello["pid"], signal.SIGKILL)


def keeper_killed(agent: AgentProcess) -> None:
    agent.popen.kill()


def link_ended(agent: AgentProcess) -> None:
    agent.stdin.close()


@pytest.mark.parametrize("end", [agent_killed, keeper_killed, link_ended], ids=lambda end: end.__name__)
@pytest.mark.parametrize("generator", ["deaf", "family"])
def test_nothing_of_it_outlives_the_agent(
    net: Net, agent: AgentProcess, generator: str, end: Callable[[AgentProcess], None]
) -> None:
    prepare(agent, generator, count=None, max_count=10**6)
    agent.ok("generator.start", progress_interval_s=0.05)
    agent.event("generator")
    assert len(net.processes()) >= 3
    end(agent)
    eventually(lambda: not net.processes(), "no process of the session is left")
