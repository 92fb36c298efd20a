"""The agent answers, counts, captures and tunes as docs/agent-protocol.md says."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from labconsole.wire.codec import MAX_LINE_BYTES, PROTOCOL, STAT_NAMES
from support.agent_process import AgentProcess, Net, eventually
from support.requirements import old_python, require


def test_the_first_line_says_who_speaks(agent: AgentProcess) -> None:
    assert agent.hello["event"] == "hello"
    assert agent.hello["protocol"] == PROTOCOL
    assert agent.hello["hostname"] == os.uname().nodename
    assert agent.hello["python"] == ".".join(map(str, sys.version_info[:3]))
    assert Path(f"/proc/{agent.hello['pid']}").exists()


def test_counters_are_those_that_ip_shows(net: Net, agent: AgentProcess) -> None:
    net.pair("a0", "b0")
    net.send("a0", 137)
    mine = agent.ok("counters.read")["namespaces"][""]
    theirs = json.loads(net.run("ip", "-s", "-s", "-j", "link"))
    assert [row[1] for row in mine] == [link["ifname"] for link in theirs]
    for index, _, numbers in mine:
        named = dict(zip(STAT_NAMES, numbers, strict=False))
        link = next(link for link in theirs if link["ifindex"] == index)
        for direction in ("rx", "tx"):
            for key in ("packets", "bytes", "errors", "dropped"):
                assert named[f"{direction}_{key}"] == link["stats64"][direction][key], (link["ifname"], direction, key)
    assert next(row for row in mine if row[1] == "b0")[2][0] == 137


def test_a_capture_holds_every_packet_even_when_stopped_at_once(net: Net, agent: AgentProcess, tmp_path: Path) -> None:
    require("tcpdump")
    net.pair("a0", "b0")
    started = agent.ok("capture.start", **agent.capture("b0", directory=str(tmp_path)))
    assert "-Q" in started["argv"]
    assert list(tmp_path.iterdir()) == []  # it has no name, so it cannot be left behind
    net.send("a0", 3000)
    with open(started["path"], "rb") as capture:
        stopped = agent.ok("capture.stop", capture="s1")
        assert hashlib.sha256(capture.read()).hexdigest() == stopped["sha256"]
    assert stopped["captured_packets"] == 3000
    assert stopped["received_by_filter_packets"] == 3000
    assert stopped["dropped_kernel_packets"] == 0
    assert stopped["analysis"]["packets"] == 3000
    assert stopped["analysis"]["streams"][0]["sequence"]["lost_packets"] == 0
    assert agent.error("capture.stop", capture="s1")["code"] == "no_such_capture"


def test_a_listener_counts_one_source_s_frames_and_says_when_there_were_more_than_it_counts(
    net: Net, agent: AgentProcess
) -> None:
    net.pair("a0", "b0")
    agent.ok("listen.start", interfaces=["b0"], source_ip="198.18.77.1")
    net.send("a0", 200)
    assert agent.ok("listen.read") == {"heard": [], "complete": True}
    agent.ok("listen.start", interfaces=["b0"], source_ip="198.18.1.1")
    net.send("a0", 200)
    (row,) = agent.ok("listen.stop")["heard"]
    assert (row["interface"], row["source_ip"], row["packets"]) == ("b0", "198.18.1.1", 200)
    assert agent.error("listen.start", interfaces=["b0"], source_ip="x")["message"].endswith("is not an IPv4 address")
    agent.ok("listen.start", interfaces=["b0"])
    net.send("a0", 110_000)
    assert agent.ok("listen.stop")["complete"] is False


def test_a_listener_counts_what_arrived_while_a_busy_node_did_not_run_it(net: Net, agent: AgentProcess) -> None:
    net.pair("a0", "b0")
    agent.ok("listen.start", interfaces=["b0"], source_ip="198.18.1.1")
    os.kill(agent.hello["pid"], signal.SIGSTOP)
    net.send("a0", 200)
    os.kill(agent.hello["pid"], signal.SIGCONT)
    stopped = agent.ok("listen.stop")
    assert [row["packets"] for row in stopped["heard"]] == [200]
    assert stopped["complete"] is True


def test_a_port_whose_nic_stamps_nothing_says_so_and_is_not_captured_by_the_kernels_stamps(
    net: Net, agent: AgentProcess, tmp_path: Path
) -> None:
    require("tcpdump")
    net.pair("a0", "b0")
    assert agent.ok("settings")["interfaces"]["b0"]["stamps"] == {"all_received": False, "clock": None}
    refused = agent.error("capture.start", **agent.capture("b0", directory=str(tmp_path), nic_stamps=True))
    assert (refused["code"], refused["message"]) == (
        "not_supported",
        "tcpdump gets no time stamps from this port's NIC",
    )
    assert list(tmp_path.iterdir()) == []
    change = {"do": "nic_stamps", "interface": "b0"}
    refused = agent.error("net.apply", token="t", changes=[change])
    assert refused["message"] == "the NIC of b0 stamps no frames: Operation not supported"
    assert agent.error("clock.nic", interface="b0")["message"] == "b0: this port's NIC has no clock of its own"
    assert "-j" not in agent.ok("capture.start", **agent.capture("b0"))["argv"]


def test_of_the_interfaces_asked_for_all_is_told_that_is_told_of_them_among_others(
    net: Net, agent: AgentProcess
) -> None:
    net.pair("a0", "b0")
    net.pair("c0", "d0")
    whole = agent.ok("settings")["interfaces"]
    assert {"a0", "b0", "c0", "d0"} <= whole.keys()
    asked = agent.ok("settings", ports=["b0", "c0", "no0"])["interfaces"]
    assert asked == {name: whole[name] for name in ("b0", "c0")} and asked["b0"]["qdiscs"]
    assert agent.ok("settings", ports=[])["interfaces"] == {}


def test_a_clock_that_nothing_keeps_is_no_statement(agent: AgentProcess) -> None:
    for keeper in ("chrony", "ptp4l"):
        assert agent.error("clock.keeper", keeper=keeper)["code"] == "not_told"
    assert agent.error("clock.keeper", keeper="ntpd")["message"].endswith("is not one of chrony, ptp4l")


def test_a_capture_that_cannot_be_says_why(net: Net, agent: AgentProcess, tmp_path: Path) -> None:
    require("tcpdump")
    net.pair("a0", "b0")
    here = str(tmp_path)
    for interface, changed, code in (
        ("no0", {}, "no_such_interface"),
        ("b0", {"filter": "udp and and"}, "bad_filter"),
        ("b0", {"filter": "-r /x"}, "bad_request"),
        ("b0", {"directory": "/no/such"}, "no_directory"),
    ):
        arguments = agent.capture(interface, **{"directory": here, **changed})
        assert agent.error("capture.start", **arguments)["code"] == code
    full = agent.error("capture.start", **agent.capture("b0", directory=here, expected_packets=10**12))
    assert full["code"] == "no_space"
    assert full["detail"]["needed_bytes"] > full["detail"]["free_bytes"]
    assert list(tmp_path.iterdir()) == []


def test_a_capture_that_dies_is_reported(net: Net, agent: AgentProcess) -> None:
    require("tcpdump")
    net.pair("a0", "b0")
    agent.ok("capture.start", **agent.capture("b0"))
    for pid in net.processes():
        if Path(f"/proc/{pid}/comm").read_text() == "tcpdump\n":
            os.kill(pid, signal.SIGKILL)
    assert agent.event("capture.died")["capture"] == "s1"
    assert "signal 9" in agent.error("capture.stop", capture="s1")["message"]


def test_a_quiet_window_is_silent_and_its_samples_come_afterwards(agent: AgentProcess) -> None:
    agent.ok("counters.quiet", on=True)
    agent.ok("counters.start", interval_s=0.005)
    assert agent.reply(agent.post("exec", argv=["sleep", "0.1"], timeout_s=5))["ok"]["exit_status"] == 0
    assert agent.events == []
    sent = agent.ok("counters.quiet", on=False)
    late = [event for event in agent.events if event["late"]]
    assert len(late) == sent["samples"] > 5
    assert [event["monotonic_ns"] for event in late] == sorted(event["monotonic_ns"] for event in late)


def test_a_console_that_does_not_read_loses_samples_and_is_told_how_many(net: Net, agent: AgentProcess) -> None:
    for number in range(30):
        net.run("ip", "link", "add", f"a{number}", "type", "veth", "peer", "name", f"b{number}")
    agent.ok("counters.start", interval_s=0.001)
    # Not read for a while: at 4 kB per sample the pipe and the agent's megabyte are full before this ends.
    net.run("sleep", "1")
    for _ in range(5000):
        if agent.event("counters")["missed"] > 0:
            break
    else:
        pytest.fail("5000 samples, and none of them says that samples were missed")
    agent.ok("counters.stop")


def test_link_changes_are_told(net: Net, agent: AgentProcess) -> None:
    assert [link["name"] for link in agent.ok("links")["links"]] == ["lo"]
    net.pair("a0", "b0")
    while True:
        links = {link["name"]: link for link in agent.event("links")["links"]}
        if "b0" in links and links["b0"]["carrier"] and links["a0"]["carrier"]:
            break
    assert links["a0"]["kind"] == "veth"
    assert links["a0"]["driver"] == "veth"
    assert links["a0"]["pause"] is None
    assert links["a0"]["up"] is True


def test_changes_are_made_and_undone_in_reverse(net: Net, agent: AgentProcess) -> None:
    net.pair("a0", "b0")
    net.pair("c0", "d0")
    net.run("ip", "address", "add", "198.18.0.1/24", "dev", "d0")
    net.run("ip", "route", "add", "198.19.7.0/24", "dev", "d0", "proto", "77", "src", "198.18.0.1")
    listings = ("route show table main", "neigh show nud permanent", "link")
    before = {what: net.run("ip", "-j", *what.split()) for what in listings}
    changes = [
        {"do": "sysctl", "name": "net.ipv4.ip_forward", "value": "1"},
        {"do": "namespace", "name": "guest1"},
        {"do": "veth", "name": "lcv1", "peer": "eth0", "peer_namespace": "guest1", "peer_mac": "02:6c:63:00:00:01"},
        {"do": "bridge", "name": "lcb1", "ports": ["b0", "lcv1"], "namespace": ""},
        {"do": "link_up", "interface": "eth0", "namespace": "guest1"},
        {"do": "sysctl", "name": "net/ipv4/conf/eth0/forwarding", "value": "1", "namespace": "guest1"},
        {"do": "route", "destination": "198.19.7.0/24", "interface": "c0"},
        {"do": "route", "destination": "198.19.1.1/32", "interface": "eth0", "namespace": "guest1"},
        {"do": "neighbour", "address": "198.19.1.1", "mac": "02:00:00:00:00:05", "interface": "c0"},
    ]
    agent.ok("net.apply", token="t", changes=changes)
    assert net.read_sysctl("ipv4/ip_forward") == "1"
    found = agent.ok("net.read", sysctls=["net.ipv4.ip_forward"], routes=True, neighbours=True)
    assert found["sysctls"] == {"net.ipv4.ip_forward": "1"}
    assert {"destination": "198.19.7.0/24", "interface": "c0", "gateway": None} in found["routes"]
    assert "02:00:00:00:00:05" in [neighbour["mac"] for neighbour in found["neighbours"]]
    inside = agent.ok("exec", argv=["ip", "-j", "link"], timeout_s=5, namespace="guest1")["stdout"]
    assert {link["ifname"]: link["address"] for link in json.loads(inside)}["eth0"] == "02:6c:63:00:00:01"
    assert [row[1] for row in agent.ok("counters.read")["namespaces"]["guest1"]] == ["lo", "eth0"]
    assert agent.ok("net.undo", token="t")["failed"] == []
    after = {what: net.run("ip", "-j", *what.split()) for what in before}
    assert after == before
    assert net.read_sysctl("ipv4/ip_forward") == "0"


def test_forwarding_of_each_interface_is_restored_with_that_of_the_machine(net: Net, agent: AgentProcess) -> None:
    net.pair("a0", "b0")
    net.write_sysctl("ipv4/conf/a0/forwarding", "1")
    agent.ok("net.apply", token="t", changes=[{"do": "sysctl", "name": "net.ipv4.ip_forward", "value": "1"}])
    assert net.read_sysctl("ipv4/conf/b0/forwarding") == "1"
    agent.ok("net.undo", token=None)
    assert net.read_sysctl("ipv4/conf/a0/forwarding") == "1"
    assert net.read_sysctl("ipv4/conf/b0/forwarding") == "0"


def test_a_failing_change_takes_back_those_before_it(net: Net, agent: AgentProcess) -> None:
    net.pair("a0", "b0")
    changes = [{"do": "bridge", "name": "lcb1", "ports": ["b0"]}, {"do": "link_up", "interface": "no0"}]
    failed = agent.error("net.apply", token="t", changes=changes)
    assert failed["code"] == "no_such_interface"
    assert "no0" in failed["message"]
    assert "lcb1" not in net.links()


def test_what_others_made_is_not_touched(net: Net, agent: AgentProcess) -> None:
    net.run("ip", "link", "add", "lcb1", "type", "bridge")
    change = {"do": "bridge", "name": "lcb1", "ports": []}
    assert agent.error("net.apply", token="t", changes=[change])["code"] == "exists"
    agent.ok("net.undo", token=None)
    assert "lcb1" in net.links()


def test_undoing_copes_with_what_is_gone_already(net: Net, agent: AgentProcess) -> None:
    net.pair("a0", "b0")
    changes = [
        {"do": "bridge", "name": "lcb1", "ports": ["b0"]},
        {"do": "sysctl", "name": "net/ipv4/conf/a0/forwarding", "value": "1"},
        {"do": "route", "destination": "198.19.1.1/32", "interface": "a0"},
    ]
    agent.ok("net.apply", token="t", changes=changes)
    net.run("ip", "link", "del", "a0")
    net.run("ip", "link", "del", "lcb1")
    assert agent.ok("net.undo", token="t")["failed"] == []


def test_only_network_settings_can_be_changed(agent: AgentProcess) -> None:
    for name in ("kernel.hostname", "net/../kernel/hostname", "net..ipv4", "/net/ipv4/ip_forward", "net.ipv4\n"):
        change = {"do": "sysctl", "name": name, "value": "1"}
        assert agent.error("net.apply", token="t", changes=[change])["code"] == "bad_request", name


def test_a_program_is_bounded_in_time_and_output(net: Net, agent: AgentProcess) -> None:
    endless = agent.error("exec", argv=["sh", "-c", "sleep 100 & sleep 100"], timeout_s=0.2)
    assert endless["code"] == "exec_timeout"
    eventually(lambda: not any(comm(pid) == "sleep" for pid in net.processes()), "the program and its child are gone")
    much = agent.ok("exec", argv=["head", "-c", "3000000", "/dev/zero"], timeout_s=10)
    assert (len(much["stdout"]), much["truncated"], much["exit_status"]) == (1024 * 1024, True, 0)
    assert agent.ok("exec", argv=["cat"], timeout_s=5, stdin="hello")["stdout"] == "hello"
    assert agent.error("exec", argv=["no-such-program"], timeout_s=5)["code"] == "command_missing"
    assert agent.error("exec", argv=["true"], timeout_s=5, namespace="nowhere")["code"] == "no_such_namespace"


def comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def test_a_node_has_one_lease_and_it_ends_with_its_holder(start: Callable[..., AgentProcess]) -> None:
    first, second = start(), start()
    first.ok("lease.take", owner="anna@a", purpose="plan dedicated")
    held = second.error("lease.take", owner="ben@b", purpose="a look")
    assert held["code"] == "lease_held"
    assert "anna@a" in held["message"] and "plan dedicated" in held["message"]
    assert held["detail"]["owner"] == "anna@a"
    os.kill(first.hello["pid"], signal.SIGKILL)
    first.popen.wait(10)
    second.ok("lease.take", owner="ben@b", purpose="a look")


def test_bad_requests_get_errors_and_the_session_goes_on(agent: AgentProcess) -> None:
    agent.write(b"not json\n[]\n" + b'{"op":"ping"}\n\n')
    assert [agent.event("notice")["code"] for _ in range(3)] == ["bad_line"] * 3
    assert agent.error("no.such")["code"] == "no_such_op"
    assert agent.error(None)["code"] == "no_such_op"
    assert agent.error("counters.start")["code"] == "bad_request"
    assert agent.error("counters.start", interval_s="1")["code"] == "bad_request"
    assert agent.error("counters.start", interval_s=0)["code"] == "bad_request"
    assert agent.error("net.apply", token="t", changes=[1])["code"] == "bad_request"
    assert agent.error("net.apply", token="t", changes=[{"do": "format"}])["code"] == "bad_request"
    assert agent.error("generator.start")["code"] == "not_prepared"
    agent.write(b"[" * (MAX_LINE_BYTES + 10) + b"\n")
    assert agent.event("notice")["code"] == "bad_line"
    assert agent.ok("ping")["monotonic_ns"] > 0


def test_facts_hold_what_is_known_and_none_for_the_rest(agent: AgentProcess) -> None:
    facts = agent.ok("facts")
    assert facts["kernel"] == os.uname().release
    assert facts["cpus"] == len(os.sched_getaffinity(0))
    assert facts["memory_bytes"] > 0
    assert {"tcpdump", "pktgen", "load", "governors", "logins", "capabilities", "os", "cpu_model"} <= set(facts)


def test_the_oldest_python_runs_all_of_it(net: Net, start: Callable[..., AgentProcess]) -> None:
    require("tcpdump")
    agent = start(old_python("3.9"))
    net.pair("a0", "b0")
    assert agent.hello["python"].startswith("3.9.")
    changes = [{"do": "namespace", "name": "g"}, {"do": "bridge", "name": "br", "ports": ["b0"]}]
    agent.ok("net.apply", token="t", changes=changes)
    agent.ok("counters.start", interval_s=0.01)
    agent.ok("capture.start", **agent.capture("b0"))
    net.send("a0", 500)
    assert agent.ok("capture.stop", capture="s1")["analysis"]["packets"] == 500
    assert agent.ok("exec", argv=["true"], timeout_s=5, namespace="g")["exit_status"] == 0
    assert agent.ok("close") == {"failed": []}
    assert agent.popen.wait(10) == 0
    assert net.links() == {"lo", "a0", "b0"}


LATER = [{"do": "bridge", "name": "lcb1", "ports": []}, {"do": "bridge_port", "name": "lcb1", "port": "b0"}]


@pytest.mark.parametrize("changes", [[{"do": "bridge", "name": "lcb1", "ports": ["b0"]}], LATER])
@pytest.mark.parametrize("former", [["master", "theirs", "down"], ["nomaster", "up"]], ids=" ".join)
def test_a_port_goes_back_to_the_bridge_that_it_was_taken_from(
    net: Net, agent: AgentProcess, changes: list, former: list[str]
) -> None:
    net.pair("a0", "b0")
    net.run("ip", "link", "add", "theirs", "type", "bridge")
    net.run("ip", "link", "set", "b0", *former)
    before = json.loads(net.run("ip", "-j", "link", "show", "b0"))
    for change in changes:
        agent.ok("net.apply", token="t", changes=[change])
    assert json.loads(net.run("ip", "-j", "link", "show", "b0"))[0]["master"] == "lcb1"
    assert agent.ok("net.undo", token="t")["failed"] == []
    assert json.loads(net.run("ip", "-j", "link", "show", "b0")) == before


def test_a_port_that_has_gone_by_itself_is_no_failure(net: Net, agent: AgentProcess) -> None:
    net.pair("a0", "b0")
    agent.ok("net.apply", token="t", changes=LATER)
    net.run("ip", "link", "delete", "b0")
    assert agent.ok("net.undo", token="t")["failed"] == []
    assert net.links() == {"lo"}


def test_the_end_of_stdin_amid_a_change_leaves_no_half_of_it(net: Net, agent: AgentProcess) -> None:
    for number in range(20):
        net.run("ip", "link", "add", f"a{number}", "type", "veth", "peer", "name", f"b{number}")
    before = net.links()
    agent.ok("links")  # the netlink library is loaded, so the changes begin at once
    changes = [{"do": "bridge", "name": f"br{n}", "ports": [f"b{n}"]} for n in range(20)]
    agent.post("net.apply", token="t", changes=changes)
    eventually(lambda: "br0" in net.links(), "the first change is made")
    agent.stdin.close()
    agent.popen.wait(10)
    assert net.links() == before


def test_a_generated_stream_is_counted_by_generator_capture_and_counters_alike(net: Net, agent: AgentProcess) -> None:
    require("tcpdump")
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
        "delay_ns": 50_000,
        "count": 4000,
        "duration_s": None,
        "max_count": 10_000,
        "cpus": None,
    }
    assert agent.ok("generator.prepare", streams=[spec])["streams"][0]["generator"] == "afpacket"
    agent.ok("capture.start", **agent.capture("b0"))
    agent.ok("generator.start", at_monotonic_ns=None, progress_interval_s=0.05)
    done = agent.ok("generator.wait")["streams"]
    assert agent.event("generator.done")["streams"] == done
    assert agent.ok("generator.close")["streams"] == done
    assert done[0]["sent_packets"] == 4000
    assert agent.ok("capture.stop", capture="s1")["analysis"]["packets"] == 4000
    rows = {row[1]: row[2] for row in agent.ok("counters.read")["namespaces"][""]}
    assert rows["b0"][0] == 4000
    assert agent.error("generator.stop")["code"] == "not_prepared"
