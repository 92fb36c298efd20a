"""Two agents on one node: who holds it, how it is taken over, and how an agent that only looks keeps still."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.agent_process import AgentProcess, Net, eventually
from support.requests import REQUESTS
from support.requirements import missing, require

Start = Callable[..., AgentProcess]


def take(agent: AgentProcess, owner: str = "anna@a", **more: object) -> dict:
    return agent.ok("lease.take", owner=owner, purpose=f"the plan of {owner}", **more)


def test_a_lease_says_who_since_when_until_when_and_what_for(start: Start) -> None:
    first, second = start(), start()
    assert first.ok("lease.read")["holder"] is None
    before = time.time_ns()
    assert take(first, left_s=60, observe="quiet")["taken_from"] is None
    own, seen = first.ok("lease.read")["holder"], second.ok("lease.read")["holder"]
    assert (own.pop("own"), seen.pop("own")) == (True, False)
    assert own == seen
    assert (seen["owner"], seen["purpose"], seen["observe"]) == ("anna@a", "the plan of anna@a", "quiet")
    assert before <= seen["since_wall_ns"] <= time.time_ns()
    assert seen["until_wall_ns"] > seen["since_wall_ns"] + 50e9
    take(first, left_s=None)  # renewed: nothing is known of its end any more
    renewed = second.ok("lease.read")["holder"]
    assert (renewed["since_wall_ns"], renewed["until_wall_ns"]) == (seen["since_wall_ns"], None)
    first.ok("lease.release")
    assert second.ok("lease.read")["holder"] is None


def test_started_guests_of_who_lost_a_node_are_asked_to_stop_all_at_once(start: Start, tmp_path: Path) -> None:
    """However many they are: each may take its time."""
    asked = tmp_path / "asked"
    asked.mkdir()
    first, second = start(), start()
    take(first)
    names = {f"guest{number}" for number in range(50)}
    for name in names:
        ask = ["sh", "-c", f"touch {asked}/{name}; sleep 2"]
        first.ok("guest.promise_stop", guest=name, ask=ask, kill=["true"], limit_s=5)
    assert take(second, "ben@b", take_over=True)["taken_from"]["owner"] == "anna@a"
    eventually(lambda: {each.name for each in asked.iterdir()} == names, "all were asked")
    first.ok("ping")


def test_the_loser_of_a_lease_is_told_and_its_changes_are_undone_before_the_taker_has_it(
    net: Net, start: Start
) -> None:
    net.pair("a0", "b0")
    first, second = start(), start()
    take(first)
    first.ok("net.apply", token="t", changes=[{"do": "sysctl", "name": "net.ipv4.conf.a0.forwarding", "value": "1"}])
    wanted = second.post("lease.take", owner="ben@b", purpose="a look", take_over=True)
    lost = first.event("lease_lost")
    assert (lost["by"], lost["purpose"]) == ("ben@b", "a look")
    refused = first.error("generator.prepare", streams=[])
    assert refused["code"] == "lease_lost"
    assert refused["message"] == "ben@b took this node over for a look"
    assert first.ok("exec", argv=["true"], timeout_s=5)["exit_status"] == 0  # to restore a platform
    first.ok("net.undo", token=None)
    first.ok("lease.release")
    taken = second.reply(wanted)["ok"]
    assert taken["taken_from"]["owner"] == "anna@a"
    assert second.ok("lease.read")["holder"]["own"] is True
    held = first.error("lease.take", owner="anna@a", purpose="again")
    assert held["code"] == "lease_held" and held["message"].startswith("ben@b has this node since")


def test_a_console_that_does_not_give_back_loses_all_the_same(net: Net, start: Start) -> None:
    net.pair("a0", "b0")
    first, second = start(), start()
    take(first)
    first.ok("net.apply", token="t", changes=[{"do": "sysctl", "name": "net.ipv4.conf.a0.forwarding", "value": "1"}])
    assert take(second, "ben@b", take_over=True)["taken_from"]["owner"] == "anna@a"
    assert net.read_sysctl("ipv4/conf/a0/forwarding") == "0"
    for op, args in (
        ("exec", {"argv": ["true"], "timeout_s": 5}),
        ("net.apply", {"token": "t", "changes": []}),
        ("marks.start", {"marks": "m", "interface": "a0", "address": "198.18.127.1"}),
        ("sink_ports.hold", {"ports": []}),
    ):
        assert first.error(op, **args)["code"] == "lease_lost"
    first.ok("lease.release")  # seen: from here on it may look around again
    assert first.ok("exec", argv=["true"], timeout_s=5)["exit_status"] == 0


def test_guests_of_a_console_that_does_not_give_back_are_ended_and_their_groups_removed(net: Net, start: Start) -> None:
    if not Path("/sys/fs/cgroup/cpu").is_dir():
        pytest.skip("no control groups here")
    first, second = start(), start()
    take(first)
    group = f"taken-{os.getpid()}"
    limits = {"group": "g1", "cpu_shares": None, "cpu_quota_ratio": 0.5, "memory_mib": None}
    first.ok("net.apply", token="t", changes=[{"do": "control_groups", "name": group, "groups": [limits]}])
    enter = f"echo $$ >/sys/fs/cgroup/cpu/{group}/g1/cgroup.procs; echo up; exec sleep 600"
    guest = first.ok("guest.start", guest="g1", argv=["sh", "-c", enter], ready="up", timeout_s=10)
    assert take(second, "ben@b", take_over=True)["taken_from"]["owner"] == "anna@a"
    assert not Path(f"/sys/fs/cgroup/cpu/{group}").exists()
    eventually(lambda: guest["pid"] not in net.processes(), "the guest's end")


@pytest.mark.parametrize("gives_back", [True, False])
def test_guests_that_it_has_started_are_asked_to_stop_before_another_has_the_node_and_never_again(
    start: Start, tmp_path: Path, gives_back: bool
) -> None:
    """The next holder may start the same."""
    log, tool = tmp_path / "asked", tmp_path / "virsh"
    tool.write_text(f'#!/bin/sh\necho "$*" >>{log}\n')
    tool.chmod(0o755)
    first, second = start(), start()
    take(first)
    promise = {"guest": "one", "ask": [str(tool), "shutdown"], "kill": [str(tool), "destroy"], "limit_s": 5}
    first.ok("guest.promise_stop", **promise)
    if gives_back:
        first.ok("lease.release")
        take(second, "ben@b")
    else:
        take(second, "ben@b", take_over=True)
        assert first.error("guest.promise_stop", **promise)["code"] == "lease_lost"
    eventually(lambda: log.exists() and "shutdown" in log.read_text(), "the guest was asked")
    first.ok("lease.read")
    first.stdin.close()
    first.popen.wait(10)
    assert log.read_text() == "shutdown\n"


def test_a_started_guest_that_is_off_is_not_stopped_again_whatever_the_others_take(
    start: Start, tmp_path: Path
) -> None:
    """The next holder may have started it: the keeper of the former stops those alone that it still has to."""
    log, slow = tmp_path / "asked", tmp_path / "slow"
    first, second = start(), start()
    take(first)
    for name, ask in (("fast", "true"), ("slow", f"mkdir {slow} && sleep 60")):
        argv = ["sh", "-c", f"echo {name} >>{log}; {ask}"]
        first.ok("guest.promise_stop", guest=name, ask=argv, kill=["true"], limit_s=90)
    inside = ["sh", "-c", f"sleep 0.2; echo disk >>{log}"]
    first.ok("guest.promise_stop", guest="the disk of slow", inside=True, kill=inside, limit_s=3)
    take(second, "ben@b", take_over=True)
    eventually(lambda: log.exists() and len(log.read_text().split()) == 3, "all were asked")
    assert log.read_text().startswith("disk\n")
    time.sleep(0.5)
    first.ok("lease.read")
    first.stdin.close()
    first.popen.wait(10)
    assert sorted(log.read_text().split()) == ["disk", "fast", "slow", "slow"]


def test_a_frozen_holder_is_killed_and_its_keeper_undoes_what_it_did(net: Net, start: Start) -> None:
    net.pair("a0", "b0")
    first, second = start(), start()
    take(first)
    first.ok("net.apply", token="t", changes=[{"do": "sysctl", "name": "net.ipv4.conf.a0.forwarding", "value": "1"}])
    os.kill(first.popen.pid, signal.SIGSTOP)
    os.kill(first.hello["pid"], signal.SIGSTOP)
    assert take(second, "ben@b", take_over=True)["taken_from"]["owner"] == "anna@a"
    assert net.read_sysctl("ipv4/conf/a0/forwarding") == "0"
    assert first.popen.wait(5) != 0


def test_what_holds_the_lock_and_is_no_agent_is_not_killed(net: Net, start: Start) -> None:
    first, second = start(), start()
    take(first)
    path = second.error("lease.take", owner="ben@b", purpose="a look")["detail"]["path"]
    first.ok("lease.release")
    argv = [*net.prefix, "flock", "--no-fork", path, "sh", "-c", "echo; exec sleep 60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as squatter:
        assert squatter.stdout is not None and squatter.stdout.readline()
        refused = second.error("lease.take", owner="ben@b", purpose="a look", take_over=True)
        assert refused["code"] == "lease_stuck", refused
        assert refused["message"].startswith(f"process {squatter.pid} (sleep) of user {os.geteuid()} has this node")
        assert squatter.poll() is None
        squatter.kill()


def test_another_user_s_lease_is_seen_and_only_root_may_end_it(start: Start, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        missing("only root can become nobody")
    require("setpriv")
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nexec setpriv --reuid 65534 --clear-groups /usr/bin/python3 "$@"\n')
    python.chmod(0o755)
    root, nobody, other = start(), start(str(python)), start(str(python))
    take(root)
    refused = nobody.error("lease.take", owner="ben@b", purpose="a look", take_over=True)
    assert refused["code"] == "lease_held"
    assert refused["message"].startswith("anna@a has this node since")
    assert refused["message"].endswith("it is a session of user 0 of this node; only that user and root can end it")
    root.ok("lease.release")
    take(nobody, "ben@b")
    held = root.error("lease.take", owner="anna@a", purpose="a plan")
    assert held["code"] == "lease_held" and "ben@b" in held["message"]
    assert other.error("lease.take", owner="carl@c", purpose="another")["code"] == "lease_held"
    assert take(root, take_over=True)["taken_from"]["owner"] == "ben@b"
    assert nobody.event("lease_lost")["by"] == "anna@a"


def test_an_agent_that_only_looks_keeps_still_while_another_counts(net: Net, start: Start) -> None:
    net.pair("a0", "b0")
    measuring, watching = start(), start()
    watching.ok("lease.watch", on=True)
    assert watching.event("lease")["holder"] is None
    watching.ok("counters.start", interval_s=0.02)
    watching.event("counters")
    take(measuring, left_s=10)
    told = watching.event("lease")
    assert (told["holder"]["owner"], told["quiet"]) == ("anna@a", False)
    measuring.ok("counters.start", interval_s=0.02)
    measuring.ok("counters.quiet", on=True)
    assert watching.event("lease")["quiet"] is True
    watching.ok("ping")
    watching.events.clear()
    before = switches(watching.hello["pid"])
    time.sleep(0.5)  # the window: 25 samples if it took any
    assert switches(watching.hello["pid"]) <= before + 2  # it may have been on its way to sleep
    watching.ok("ping")
    assert watching.events == []
    measuring.ok("counters.quiet", on=False)
    assert watching.event("lease")["quiet"] is False
    assert watching.event("counters")["missed"] < 10, "what is not wanted is not missed"
    os.kill(measuring.hello["pid"], signal.SIGKILL)
    assert watching.event("lease")["holder"] is None


def test_in_a_counted_window_no_agent_reads_what_its_processors_do(net: Net, start: Start) -> None:
    """The next reading covers all of the window, at the one who measures and at the one who looks on."""
    net.pair("a0", "b0")
    measuring, watching = start(), start()
    watching.ok("lease.watch", on=True)
    take(measuring)
    for agent in (measuring, watching):
        agent.ok("counters.start", interval_s=0.02)
        agent.event("processors")
    measuring.ok("counters.quiet", on=True)
    eventually(lambda: watching.event("lease")["quiet"], "the watcher keeps still")
    for agent in (measuring, watching):
        agent.ok("ping")
        agent.events.clear()
    began_ns = time.monotonic_ns()
    time.sleep(1.5)
    for agent in (measuring, watching):
        agent.ok("ping")
        assert agent.events == []
    measuring.ok("counters.quiet", on=False)
    ended_ns = time.monotonic_ns()
    for agent in (measuring, watching):
        told = agent.event("processors")
        assert told["monotonic_ns"] - told["elapsed_ns"] <= began_ns < ended_ns
        assert told["elapsed_ns"] >= ended_ns - began_ns
        assert 0 <= told["mean"]["busy"] <= told["busiest"]["busy"] + 0.001 <= 1.001


def test_a_watcher_of_a_holder_that_dies_in_its_window_looks_again(net: Net, start: Start) -> None:
    net.pair("a0", "b0")
    measuring, watching = start(), start()
    watching.ok("lease.watch", on=True)
    watching.ok("counters.start", interval_s=0.02)
    take(measuring)
    measuring.ok("counters.quiet", on=True)
    eventually(lambda: watching.event("lease")["quiet"], "the watcher keeps still")
    os.kill(measuring.hello["pid"], signal.SIGKILL)
    assert watching.event("lease")["holder"] is None
    watching.events.clear()
    watching.event("counters")


def test_a_watcher_without_a_watch_looks_by_itself(net: Net, start: Start, tmp_path: Path) -> None:
    """A user may have only so many."""
    limit = Path("/proc/sys/user/max_inotify_instances")
    if os.geteuid() != 0 or not limit.exists():
        missing("only root of a user namespace of its own can take the watches away")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec unshare -Ur sh -c \'echo 0 > {limit}; exec "$0" "$@"\' {sys.executable} "$@"\n')
    python.chmod(0o755)
    watching = start(str(python))
    watching.ok("lease.watch", on=True)
    assert watching.event("lease")["holder"] is None
    take(start())
    assert watching.event("lease")["holder"]["owner"] == "anna@a"


def switches(pid: int) -> int:
    """How often the process has given up a CPU: once for each time it was woken."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt_switches"))


def test_a_console_that_only_watches_is_refused_whatever_is_more_than_that(net: Net, start: Start) -> None:
    """Asked without arguments: what is allowed may complain of those, what is refused is refused before they are read."""
    watching = start()
    watching.ok("watch.only")
    for op, request in REQUESTS.items():
        if op == "close":
            continue
        reply = watching.reply(watching.post(op))
        if request.watches:
            assert "ok" in reply or reply["error"]["code"] == "bad_request", (op, reply)
        else:
            assert reply["error"]["code"] == "only_watches", (op, reply)
            assert reply["error"]["message"] == f"this console only watches (--read-only), and {op} is more than that"
    assert watching.ok("close") == {"failed": []}


TRIAL = {
    "run_id": "20261122T1200-abc",
    "platform": "raw",
    "frame_bytes": 64,
    "includes_fcs": False,
    "sources": 2,
    "target_bps": 10_000_000,
    "background": "none",
    "duration_s": 5.0,
    "generator": "auto",
    "observe": "quiet",
    "repetition": 2,
    "repetitions": 5,
    "plan": "night",
    "block": None,
    "set_ups": None,
    "phase": "arming",
}


def test_a_holder_tells_its_trial_and_who_watches_follows_it_until_the_holder_is_gone(net: Net, start: Start) -> None:
    measuring, watching = start(), start()
    watching.ok("watch.only")
    watching.ok("lease.watch", on=True)
    assert watching.event("lease")["holder"] is None
    assert measuring.error("lease.tell", trial=TRIAL)["code"] == "no_lease"
    take(measuring, left_s=60)
    assert watching.event("lease")["holder"]["trial"] is None
    measuring.ok("lease.tell", trial=TRIAL, left_s=3)
    told = watching.event("lease")["holder"]["trial"]
    assert {key: told[key] for key in TRIAL} == TRIAL
    assert told["phase_until_wall_ns"] - told["phase_since_wall_ns"] == 3_000_000_000
    measuring.ok("lease.tell", trial={**TRIAL, "phase": "sending"})
    sending = watching.event("lease")["holder"]["trial"]
    assert (sending["phase"], sending["phase_until_wall_ns"]) == ("sending", None)
    assert sending["since_wall_ns"] == told["since_wall_ns"] <= told["phase_since_wall_ns"]
    measuring.ok("lease.tell", trial={**TRIAL, "run_id": "another", "repetition": 3})
    assert watching.event("lease")["holder"]["trial"]["since_wall_ns"] > sending["since_wall_ns"]
    measuring.ok("lease.tell")
    assert watching.event("lease")["holder"]["trial"] is None
    measuring.ok("lease.tell", trial=TRIAL)
    assert watching.event("lease")["holder"]["trial"] is not None
    os.kill(measuring.hello["pid"], signal.SIGKILL)
    assert watching.event("lease")["holder"] is None


def test_what_a_foreign_hand_writes_into_the_lease_is_checked(net: Net, start: Start) -> None:
    """Another user may write what he likes: what is no trial is left out, and the rest still told.

    Unless it names the process that has the lock: then the kernel says who has the node.
    """
    measuring, watching = start(), start()
    take(measuring)
    pid = measuring.hello["pid"]
    path = Path(start().error("lease.take", owner="ben@b", purpose="a look")["detail"]["path"])
    now = {**TRIAL, "since_wall_ns": 1, "phase_since_wall_ns": 1, "phase_until_wall_ns": None}
    watching.ok("lease.watch", on=True)
    watching.event("lease")
    for number, trial in enumerate(
        (
            {**now, "frame_bytes": 0},
            {**now, "target_bps": 0},
            {**now, "plan": "x" * 300},
            {**now, "more": 1},
            {},
            [now],
            "raw",
            7,
            {**now, "repetition": True},
        )
    ):
        path.write_text(json.dumps({"owner": f"eve{number}", "pid": pid, "observe": "o" * 9999, "trial": trial}))
        holder = watching.event("lease")["holder"]
        while holder["owner"] != f"eve{number}":
            holder = watching.event("lease")["holder"]
        assert (holder["trial"], holder["observe"]) == (None, "o" * 16)
    path.write_text(json.dumps({"owner": "mal", "pid": pid, "trial": {**now, "plan": "\x1b[31mred"}}))
    holder = watching.event("lease")["holder"]
    while holder["owner"] != "mal":
        holder = watching.event("lease")["holder"]
    assert holder["trial"]["plan"].isprintable() and "red" in holder["trial"]["plan"]
    path.write_text(json.dumps({"owner": "eve", "pid": pid + 1}))
    while not holder["owner"].startswith(f"process {pid} ("):
        assert holder["owner"] != "eve", "not the words of one who does not have the lock"
        holder = watching.event("lease")["holder"]
