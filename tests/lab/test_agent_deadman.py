"""However a session ends, nothing that it started lives on and nothing that it changed stays changed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from support.agent_process import AgentProcess, Net, eventually, processes_in
from support.requirements import require


def end_of_stdin(agent: AgentProcess) -> None:
    agent.stdin.close()


def terminated(agent: AgentProcess) -> None:
    os.kill(agent.popen.pid, signal.SIGTERM)


def agent_killed(agent: AgentProcess) -> None:
    os.kill(agent.hello["pid"], signal.SIGKILL)


def keeper_killed(agent: AgentProcess) -> None:
    agent.popen.kill()


def agent_frozen(agent: AgentProcess) -> None:
    os.kill(agent.hello["pid"], signal.SIGSTOP)
    agent.stdin.close()


def closed(agent: AgentProcess) -> None:
    agent.post("close")


def console_stops_reading_and_goes(agent: AgentProcess) -> None:
    agent.ok("counters.start", interval_s=0.001)
    agent.stdout.close()


ENDINGS = [end_of_stdin, terminated, agent_killed, keeper_killed, agent_frozen, closed, console_stops_reading_and_goes]


@pytest.mark.parametrize("end", ENDINGS, ids=lambda end: end.__name__)
def test_nothing_is_left(net: Net, agent: AgentProcess, tmp_path: Path, end: Callable[[AgentProcess], None]) -> None:
    require("tcpdump")
    net.pair("a0", "b0")
    before = net.links()
    changes = [
        {"do": "sysctl", "name": "net.ipv4.ip_forward", "value": "1"},
        {"do": "namespace", "name": "guest1"},
        {"do": "veth", "name": "lcv1", "peer": "eth0", "peer_namespace": "guest1"},
        {"do": "bridge", "name": "lcb1", "ports": ["b0", "lcv1"]},
        {"do": "route", "destination": "198.19.1.1/32", "interface": "a0"},
    ]
    agent.ok("net.apply", token="t", changes=changes)
    agent.ok("capture.start", **agent.capture("b0", directory=str(tmp_path)))
    inside = agent.ok("exec", argv=["stat", "-Lc", "%i", "/proc/self/ns/net"], timeout_s=5, namespace="guest1")
    guest = int(inside["stdout"])
    # One that ignores every polite request, one that has left its parent and session, one inside the guest.
    agent.post("exec", argv=["sh", "-c", "trap '' TERM INT HUP; sleep 1000"], timeout_s=1000)
    if end is not keeper_killed:  # it is the keeper that orphans come to
        agent.post("exec", argv=["setsid", "-f", "sleep", "1000"], timeout_s=1000)
    agent.post("exec", argv=["sleep", "1000"], timeout_s=1000, namespace="guest1")
    agent.ok("ping")
    assert len(processes_in(guest)) >= 1
    end(agent)
    eventually(lambda: not net.processes() and not processes_in(guest), "no process of the session is left")
    eventually(lambda: net.links() == before, "the interfaces are those of before")
    assert net.read_sysctl("ipv4/ip_forward") == "0"
    assert "198.19.1.1" not in net.run("ip", "route")
    assert list(tmp_path.iterdir()) == []


def test_a_console_that_says_nothing_any_more_is_given_up(net: Net, agent: AgentProcess) -> None:
    agent.ok("watchdog", silence_s=1.0)
    eventually(lambda: not net.processes(), "the agent has ended")


def test_a_generator_ends_with_the_session(net: Net, agent: AgentProcess) -> None:
    net.pair("a0", "b0")
    spec = {
        "stream": "s1",
        "interface": "a0",
        "generator": "afpacket",
        "destination_mac": "02:00:00:00:00:02",
        "source_mac": None,
        "source_ip": "198.18.1.1",
        "sink_ip": "198.19.1.1",
        "udp_source_port": 9,
        "udp_sink_port": 9,
        "pkt_size_bytes": 60,
        "delay_ns": 100_000,
        "count": 10**7,
        "duration_s": 1000.0,
        "max_count": 10**7,
        "cpus": None,
    }
    agent.ok("generator.prepare", streams=[spec])
    agent.ok("generator.start", at_monotonic_ns=None, progress_interval_s=0.05)
    while not agent.event("generator")["streams"][0]["sent_packets"]:
        continue
    os.kill(agent.hello["pid"], signal.SIGKILL)
    eventually(lambda: not net.processes(), "no sender is left")


STOPS = """\
#!/bin/sh
echo "$*" >>LOG
test "$1" != "$REFUSES"
"""


@pytest.mark.parametrize("end", ENDINGS, ids=lambda end: end.__name__)
def test_guests_of_a_hypervisor_are_asked_to_shut_down(
    net: Net, start: Callable[..., AgentProcess], tmp_path: Path, end: Callable[[AgentProcess], None]
) -> None:
    """One that refuses loses its power; one that the console has stopped, or that is somebody else's, is left alone."""
    log, tool = tmp_path / "asked", tmp_path / "virsh"
    tool.write_text(STOPS.replace("LOG", str(log)).replace("$REFUSES", "refuse"))
    tool.chmod(0o755)
    agent = start()
    for name, word in (("one", "shutdown"), ("two", "refuse"), ("three", "shutdown"), ("one", "shutdown")):
        told = {"ask": [str(tool), word, name], "kill": [str(tool), "destroy", name], "limit_s": 5}
        agent.ok("guest.promise_stop", guest=name, **told)
    agent.ok("guest.stop_kept", guest="three")
    agent.ok("guest.stop_kept", guest="never started")
    end(agent)
    expected = {"shutdown one", "refuse two"} | (set() if end is keeper_killed else {"destroy two"})
    eventually(lambda: log.exists() and set(log.read_text().splitlines()) >= expected, "they were asked to shut down")
    eventually(lambda: not net.processes(), "no process of the session is left")
    assert set(log.read_text().splitlines()) == expected


def test_a_guest_that_does_not_end_in_time_does_not_keep_the_rest_of_the_node_changed(
    net: Net, start: Callable[..., AgentProcess], tmp_path: Path
) -> None:
    log, tool = tmp_path / "asked", tmp_path / "xl"
    tool.write_text(f'#!/bin/sh\necho "$*" >>{log}\ntest "$1" = destroy || exec sleep 1000\n')
    tool.chmod(0o755)
    agent = start()
    net.pair("a0", "b0")
    before = net.links()
    agent.ok("net.apply", token="t", changes=[{"do": "bridge", "name": "lcb1", "ports": ["b0"]}])
    agent.ok("guest.promise_stop", guest="one", ask=[str(tool), "shutdown"], kill=[str(tool), "destroy"], limit_s=4)
    os.kill(agent.hello["pid"], signal.SIGKILL)
    eventually(lambda: net.links() == before, "the bridge is gone")
    eventually(lambda: log.exists() and "shutdown" in log.read_text(), "the guest was asked")
    assert "destroy" not in log.read_text()
    eventually(lambda: "destroy" in log.read_text(), "its power was taken away")


WORDS = {"ask": "shutdown", "kill": "destroy", "runs": "domid"}
HYPERVISOR = """\
#!/bin/sh
cd DIRECTORY
case $1 in
(domid) cat $2 ;;
(shutdown) echo "$*" >>log; case $2 in (meek) echo - >meek ;; (again) echo 8 >again ;; (hung) exec sleep 1000 ;; esac ;;
(destroy) echo "$*" >>log; echo - >$2 ;;
esac
"""


def test_a_guest_that_is_told_and_goes_on_loses_its_power_in_time_and_no_other_does(
    net: Net, start: Callable[..., AgentProcess], tmp_path: Path
) -> None:
    """All at once: they have four seconds together. One was started again meanwhile, by somebody else; what asks hangs for
    another, and is not left behind.
    """
    tool, log = tmp_path / "virsh", tmp_path / "log"
    tool.write_text(HYPERVISOR.replace("DIRECTORY", str(tmp_path)))
    tool.chmod(0o755)
    agent = start()
    for name in ("deaf", "meek", "again", "hung"):
        (tmp_path / name).write_text("7\n")
        words = {each: [str(tool), word, name] for each, word in WORDS.items()}
        agent.ok("guest.promise_stop", guest=name, limit_s=4, **words)
    os.kill(agent.hello["pid"], signal.SIGKILL)
    eventually(lambda: log.exists() and log.read_text().count("shutdown") == 4, "all were asked")
    assert "destroy" not in log.read_text()
    eventually(lambda: log.read_text().count("destroy") == 2, "two lose their power")
    eventually(lambda: not net.processes(), "no process of the session is left")
    assert {line for line in log.read_text().splitlines() if "destroy" in line} == {"destroy deaf", "destroy hung"}
