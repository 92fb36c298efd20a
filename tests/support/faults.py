"""What can break in a testbed, as a table, and the one helper that breaks it and checks the three things.

1. the right word: exit status, a sentence on stderr, the reason's code in the record;
2. nothing is left on any node two seconds after the links have ended;
3. everything measured before is still there, unchanged, and ``replay`` finishes the plan to the same set of runs.

tests/lab/test_faults.py takes each fault once, tools/soak.py takes them at random.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from labconsole.lab import commands as lab
from labconsole.lab.spec import SSH_PORT
from support.live_lab import COMMAND, lab_state, wait_until

GONE_S = 2.0
"""The bound that docs/agent-protocol.md promises (section "End")."""

FIGHTS_S = 90.0
"""No console takes longer than this to notice, to finish or to give up; only a hang is meant to fail here."""

PLAN = """\
plan: faults
platforms: [{platform}]
frame_sizes: [64, 1500]
targets: [20Mbit]
sources: [1]
duration_s: {duration_s}
repetitions: {repetitions}
settle_s: 0
drain_s: 0.2
"""

AGENT = """
for p in $(pgrep -f 'python.*-I -S'); do
  parent=$(cut -d' ' -f4 /proc/$p/stat)
  if tr '\\0' ' ' < /proc/$parent/cmdline | grep -q -e '-I -S'; then echo $p; fi
done
"""
"""Agents of a node and what they forked; the first is the agent, its parent the keeper."""


class Bench:
    """A lab, a plan and a store, and one console that executes the plan."""

    def __init__(
        self,
        status: lab.LabStatus,
        directory: Path,
        *,
        platform: str = "container",
        duration_s: float = 1.0,
        repetitions: int = 1,
    ) -> None:
        self.all = [(point, repetition) for point in (0, 1) for repetition in range(1, repetitions + 1)]
        self.status, self.directory = status, directory
        self.name = status.spec.name
        self.plan = directory / "faults.yaml"
        self.plan.write_text(PLAN.format(platform=platform, duration_s=duration_s, repetitions=repetitions))
        self.hosts = directory / "hosts.yaml"
        self.hosts.write_text(status.hosts_file.read_text())
        self.store = directory / "store" / "runs.sqlite"
        self.store.parent.mkdir(exist_ok=True)
        self.console: subprocess.Popen[str] | None = None
        self.errors: list[str] = []
        self._readers: list[threading.Thread] = []
        self._lines: list[str] = []
        self._undo: list[Callable[[], object]] = []
        self._repairs: list[Callable[[], object]] = []

    # the lab

    def sh(self, node: str, script: str) -> str:
        """Run a script in a node, from outside SSH."""
        return lab.execute(self.name, node, ["sh", "-c", script], timeout_s=20).stdout

    def agents(self, node: str) -> list[int]:
        """The agents of a node, oldest first; a sender that one has forked counts as well."""
        return [int(word) for word in self.sh(node, AGENT).split()]

    def received(self) -> int:
        """Packets that the sink's NIC has received; -1 while there is none."""
        return int(self.sh("snk1", "cat /sys/class/net/eth1/statistics/rx_packets || echo -1") or -1)

    def address(self, node: str) -> str:
        return next(each.address for each in self.status.nodes if each.name == node)

    def edit_hosts(self, old: str, new: str) -> None:
        text = self.hosts.read_text()
        assert old in text
        self.hosts.write_text(text.replace(old, new))

    def afterwards(self, undo: Callable[[], object], *, at_once: bool = True) -> None:
        """To be done once the console has ended, or (not ``at_once``) when the plan is finished."""
        (self._repairs if at_once else self._undo).append(undo)

    def mend(self) -> None:
        """Repair what a fault broke and its heal() could not."""
        while self._repairs:
            self._repairs.pop()()

    def tidy(self) -> None:
        """Take everything back that was prepared."""
        self.mend()
        while self._undo:
            self._undo.pop()()

    # the console

    def start(self) -> None:
        """Begin (or go on with) the plan in a console of its own."""
        self.console = subprocess.Popen(
            [
                *COMMAND,
                "replay",
                str(self.plan),
                "--hosts",
                str(self.hosts),
                "--store",
                str(self.store),
                "--json",
                "-v",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.errors, self._lines = [], []
        self._readers = [
            threading.Thread(target=_collect, args=(self.console.stdout, self._lines)),
            threading.Thread(target=_collect, args=(self.console.stderr, self.errors)),
        ]
        for reader in self._readers:
            reader.start()

    def said(self, word: str) -> int:
        return sum(1 for line in self.errors if line.strip() == word)

    def wait_phase(self, word: str, times: int) -> None:
        """Until the console has begun this phase so many times."""
        console = self.running()

        def begun() -> bool:
            assert console.poll() is None or self.said(word) >= times, "".join(self.errors)
            return self.said(word) >= times

        wait_until(begun, timeout_s=FIGHTS_S, what=f"the console never came to {word}")

    def wait_traffic(self) -> None:
        """Until packets arrive at the sink."""
        base = self.received()
        wait_until(lambda: self.received() > base + 50, timeout_s=10, what="no traffic")

    def running(self) -> subprocess.Popen[str]:
        assert self.console is not None
        return self.console

    def end(self) -> int:
        """Wait for the console's end; its exit status. Nothing of it may hang, and nothing end in a traceback."""
        console = self.running()
        try:
            console.wait(FIGHTS_S)
        finally:
            if console.poll() is None:
                console.send_signal(signal.SIGCONT)
                console.kill()
                console.wait()
            for reader in self._readers:
                reader.join()
            for stream in (console.stdout, console.stderr):
                assert stream is not None
                stream.close()
        assert "Traceback" not in self.text, self.text
        return console.returncode

    def give_up(self) -> None:
        """End the console, in whatever state it is."""
        if self.console is not None and self.console.poll() is None:
            self.console.send_signal(signal.SIGCONT)
            self.console.kill()
            self.end()

    @property
    def text(self) -> str:
        """What the console said on stderr."""
        return "".join(self.errors)

    def told(self) -> dict[str, dict[str, Any]]:
        """The runs that the console has told on stdout so far, by their id."""
        lines = [json.loads(line) for line in list(self._lines)]
        runs = [line["run"] for line in lines if line["event"] == "trial_finished"]
        return {run["run_id"]: run for run in runs}

    def stored(self) -> dict[str, dict[str, Any]]:
        """The saved runs, as JSON texts by their id."""
        argv = [*COMMAND, "runs", "export", "--store", str(self.store)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            assert "there is no run store there" in done.stderr, done.stderr
        return {run["run_id"]: run for run in map(json.loads, done.stdout.splitlines())}


def _collect(stream: Iterable[str], lines: list[str]) -> None:
    for line in stream:
        lines.append(line)


SshServer = Literal["builtin", "openssh"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """``strike`` breaks something while the second trial sends; ``heal`` mends it once the console has noticed.

    ``status``: how the console may end. ``says``: a pattern on its stderr. ``codes``: one of them is a reason in a
    record. ``prepare`` is done before the console starts. ``console_goes``: the console's own end is the fault.
    """

    name: str
    strike: Callable[[Bench], object]
    heal: Callable[[Bench], object] = field(default=lambda bench: None)
    prepare: Callable[[Bench], object] = field(default=lambda bench: None)
    status: frozenset[int] = frozenset({0})
    says: str = ""
    codes: frozenset[str] = frozenset()
    ssh_server: SshServer = "builtin"
    soak_only: bool = False
    root: bool = False
    tools: tuple[str, ...] = ("pgrep",)


@dataclass(kw_only=True)
class Outcome:
    """What came of one fault. ``gone_s``: from the console's end until nothing was left, as seen from outside SSH."""

    status: int
    codes: list[str]
    gone_s: float
    runs: int
    invalid: int
    lossy: int
    """Runs that count and yet report a loss: in a lab that drops nothing."""
    said: str
    """What matched the fault's word on stderr, with the rest of its line."""
    resumed: bool
    """A second console had to finish the plan."""


def survive(bench: Bench, fault: Fault, *, phase: str = "sending", times: int = 2, after_s: float = 0.0) -> Outcome:
    """Break it when the console begins ``phase`` for the so-manieth time, and check the three things."""
    expected = (phase, times, after_s) == ("sending", 2, 0.0)  # else the fault may find nothing to break
    try:
        fault.prepare(bench)
        before = lab_state(bench.name)
        bench.start()
        bench.wait_phase(phase, times)
        if expected:
            bench.wait_traffic()
        time.sleep(after_s)
        first = bench.told()
        fault.strike(bench)
        fault.heal(bench)
        status = bench.end()
        ended = time.monotonic()
        bench.mend()
        wait_until(lambda: lab_state(bench.name) == before, timeout_s=GONE_S + 0.5, what=_left(bench.name, before))
        gone_s = time.monotonic() - ended
        text, after = bench.text, bench.stored()
        found = re.search(fault.says, text)
        codes = [reason["code"] for run in after.values() for reason in run["verdict"]["reasons"]]
        if expected:
            assert first, "no run was saved before the fault struck"
            assert status in fault.status, f"exit status {status}: {text}"
            assert found is not None, f"{fault.says!r} is not in {text}"
            assert not fault.codes or fault.codes & set(codes), f"{sorted(fault.codes)} not among {codes}: {text}"
        else:
            assert status in fault.status | {0, 1, 3}, f"exit status {status}: {text}"
            assert status < 2 or "labconsole: " in text, f"exit status {status} without a word"
        for run_id, run in first.items():
            assert after.get(run_id) == run, f"run {run_id} is not what it was"
        resumed = kept(after) != bench.all
        finished = finish(bench, before, after)
    except BaseException:
        bench.give_up()
        raise
    finally:
        bench.tidy()
    counted = [run for run in finished.values() if run["verdict"]["status"] != "invalid"]
    return Outcome(
        status=status,
        codes=codes,
        gone_s=gone_s,
        runs=len(finished),
        invalid=len(finished) - len(counted),
        lossy=sum(1 for run in counted if run["total"]["loss_packets"] != 0),
        said=text[found.start() :].partition("\n")[0] if found is not None and fault.says else "",
        resumed=resumed,
    )


def finish(bench: Bench, before: dict[str, str], after: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Have the plan finished, unless it is; what is stored in the end."""
    if kept(after) == bench.all:
        return after
    bench.start()
    assert bench.end() == 0, bench.text
    wait_until(lambda: lab_state(bench.name) == before, timeout_s=GONE_S + 0.5, what=_left(bench.name, before))
    finished = bench.stored()
    for run_id, run in after.items():
        assert finished.get(run_id) == run, f"run {run_id} is not what it was"
    assert kept(finished) == bench.all, kept(finished)
    return finished


def kept(runs: dict[str, dict[str, Any]]) -> list[tuple[int, int]]:
    """Point and repetition of every run that counts."""
    counts = [run["plan"] for run in runs.values() if run["verdict"]["status"] != "invalid"]
    return sorted((plan["point"], plan["repetition"]) for plan in counts)


class _left:
    """The difference to what was there before, found out only when somebody wants to read it."""

    def __init__(self, name: str, before: dict[str, str]) -> None:
        self._name, self._before = name, before

    def __str__(self) -> str:
        now = lab_state(self._name)
        return "\n".join(
            f"left on {node}: {set(now[node].splitlines()) ^ set(self._before[node].splitlines())}"
            for node in now
            if now[node] != self._before[node]
        )

    __repr__ = __str__


# The faults


def cut_tcp(node: str) -> Callable[[Bench], object]:
    """The kernel forgets the connection, at both ends."""

    def strike(bench: Bench) -> None:
        argv = ["ss", "-K", "-t", "dst", bench.address(node), "dport", "=", str(SSH_PORT)]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        # After the last trial the console may have ended by itself, and its connections with it.
        assert bench.address(node) in done.stdout or bench.running().poll() is not None, done

    return strike


def kill_sshd(bench: Bench) -> None:
    bench.sh("snk1", "pkill -9 sshd")


def kill_agent(node: str) -> Callable[[Bench], object]:
    return lambda bench: [bench.sh(node, f"kill -9 {agent}") for agent in bench.agents(node)[:1]]


def kill_agent_and_keeper(bench: Bench) -> None:
    bench.sh("snk1", "pkill -9 -f 'python.*-I -S'")


def kill_node(node: str) -> Callable[[Bench], object]:
    def strike(bench: Bench) -> None:
        lab.kill_node(bench.name, node)

    return strike


def revive(node: str) -> Callable[[Bench], object]:
    def heal(bench: Bench) -> None:
        ended = bench.running().poll
        noticed = f"{node} lost"
        wait_until(
            lambda: noticed in bench.text or ended() is not None, timeout_s=FIGHTS_S, what="the console never noticed"
        )
        lab.revive_node(bench.name, node)

    return heal


def carrier_down(bench: Bench) -> None:
    bench.sh("snk1", "ip link set eth1 down")
    bench.afterwards(lambda: bench.sh("snk1", "ip link set eth1 up"))


def carrier_up(bench: Bench) -> None:
    """When the console goes on to whatever it does next: the count of a link's changes tells that it was down."""
    said = len(bench.errors)
    ended = bench.running().poll
    wait_until(lambda: len(bench.errors) > said or ended() is not None, timeout_s=FIGHTS_S, what="the console hangs")
    bench.sh("snk1", "ip link set eth1 up; while [ $(cat /sys/class/net/eth1/operstate) != up ]; do sleep 0.05; done")


def kill_tcpdump(bench: Bench) -> None:
    bench.sh("snk1", "pkill -9 tcpdump")


def small_disk(bench: Bench) -> None:
    bench.sh("snk1", "mount -t tmpfs -o size=20m tmpfs /var/tmp")
    bench.afterwards(lambda: bench.sh("snk1", "umount -l /var/tmp"), at_once=False)


def fill_disk(bench: Bench) -> None:
    bench.sh("snk1", "head -c 100m /dev/zero > /var/tmp/fill")
    bench.afterwards(lambda: bench.sh("snk1", "rm /var/tmp/fill"))


def small_buffer(bench: Bench) -> None:
    bench.edit_hosts("settle_s: 0", "settle_s: 0\n  capture_buffer_kib: 64")


def slow_tcpdump(bench: Bench) -> None:
    bench.sh("snk1", "pkill -STOP tcpdump; sleep 0.2; pkill -CONT tcpdump")


def slow_sender(bench: Bench) -> None:
    """Stopped for longer than it could catch up with."""
    # Between two trials there is none, and the agent itself is slowed; after the last, not even that.
    for sender in bench.agents("src1")[-1:]:
        bench.sh("src1", f"kill -STOP {sender}; sleep 1.2; kill -CONT {sender}")


def kill_guest(bench: Bench) -> None:
    """The process that holds the container's network namespace."""
    own = "own=$(readlink /proc/self/ns/net); "
    script = own + (
        "for p in /proc/[0-9]*; do n=$(readlink $p/ns/net 2>/dev/null); "
        '[ -n "$n" ] && [ "$n" != "$own" ] && kill -9 ${p#/proc/}; done; true'
    )
    bench.sh("uut", script)


def console(*numbers: int) -> Callable[[Bench], object]:
    def strike(bench: Bench) -> None:
        for number in numbers:
            bench.running().send_signal(number)

    return strike


def _no_agent(bench: Bench, node: str) -> bool:
    return not bench.agents(node)


def freeze_console(bench: Bench) -> None:
    """As after a pulled cable: no end of stdin, no reset, just silence."""
    agents = {node.name: bench.agents(node.name) for node in bench.status.nodes}
    bench.running().send_signal(signal.SIGSTOP)
    try:
        for node in agents:
            wait_until(partial(_no_agent, bench, node), timeout_s=20, what=f"{node}'s agent still waits")
    finally:
        bench.running().kill()


def small_store(bench: Bench) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(bench.store.parent)], check=True)
    bench.afterwards(lambda: keep_store(bench))


def keep_store(bench: Bench) -> None:
    """Off the small disk again, with all that is on it."""
    (bench.store.parent / "fill").unlink(missing_ok=True)
    kept = bench.directory / "kept"
    subprocess.run(["cp", "-a", str(bench.store.parent), str(kept)], check=True)
    subprocess.run(["umount", str(bench.store.parent)], check=True)
    subprocess.run(["cp", "-a", f"{kept}/.", str(bench.store.parent)], check=True)


def fill_store(bench: Bench) -> None:
    with (bench.store.parent / "fill").open("wb", buffering=0) as fill, suppress(OSError):
        while True:
            fill.write(bytes(4096))


def lock_store(bench: Bench) -> None:
    held = sqlite3.connect(bench.store, isolation_level=None, check_same_thread=False)
    held.execute("BEGIN IMMEDIATE")
    bench.afterwards(held.close)


def own_clock(bench: Bench) -> None:
    """The sink's agent runs with a wall clock that a file of the node sets off: the kernel's is everybody's here."""
    code = CLOCK.replace("'", "'\\''")
    bench.sh(
        "snk1", f"printf %s '{code}' > /tmp/python-clock; chmod 755 /tmp/python-clock; echo 0 > /tmp/clock-offset-ns"
    )
    bench.edit_hosts("roles: [sink]", "roles: [sink], python: /tmp/python-clock")
    bench.afterwards(lambda: bench.sh("snk1", "rm /tmp/python-clock /tmp/clock-offset-ns"), at_once=False)


CLOCK = f"""#!{os.path.realpath(COMMAND[0])}
import sys, time
def offset():
    with open("/tmp/clock-offset-ns") as file:
        return int(file.read())
time_ns = time.time_ns
time.time_ns = lambda: time_ns() + offset()
code, sys.argv = sys.argv[4], ["-c", *sys.argv[5:]]
exec(code)
"""


def step_clock(bench: Bench) -> None:
    bench.sh("snk1", "echo 3000000000 > /tmp/clock-offset-ns")


FAULTS: tuple[Fault, ...] = (
    Fault(
        name="connection cut",
        strike=cut_tcp("snk1"),
        says="snk1 lost: ",
        codes=frozenset({"link_lost"}),
        root=True,
    ),
    Fault(
        name="connection of the UUT cut",
        strike=cut_tcp("uut"),
        says="uut lost: ",
        codes=frozenset({"link_lost"}),
        soak_only=True,
        root=True,
    ),
    Fault(
        name="sshd killed",
        strike=kill_sshd,
        says="snk1 lost: ",
        codes=frozenset({"link_lost"}),
        ssh_server="openssh",
        root=True,
        tools=("sshd", "pgrep"),
    ),
    Fault(name="agent killed", strike=kill_agent("snk1"), says="snk1 lost: ", codes=frozenset({"link_lost"})),
    Fault(
        name="agent of the UUT killed",
        strike=kill_agent("uut"),
        says="uut lost",
        codes=frozenset({"link_lost"}),
        soak_only=True,
    ),
    Fault(
        name="agent and keeper killed", strike=kill_agent_and_keeper, says="snk1 lost", codes=frozenset({"link_lost"})
    ),
    Fault(
        name="node gone and back",
        strike=kill_node("src1"),
        heal=revive("src1"),
        says="src1 lost: ",
        codes=frozenset({"link_lost"}),
    ),
    Fault(
        name="UUT gone and back",
        strike=kill_node("uut"),
        heal=revive("uut"),
        says="uut lost: ",
        codes=frozenset({"link_lost"}),
    ),
    Fault(name="carrier down", strike=carrier_down, heal=carrier_up, codes=frozenset({"carrier_changed"})),
    Fault(name="tcpdump killed", strike=kill_tcpdump, codes=frozenset({"capture_missing"})),
    Fault(
        name="sink's disk full",
        prepare=small_disk,
        strike=fill_disk,
        codes=frozenset({"capture_missing", "capture_incomplete"}),
    ),
    Fault(name="capture drops", prepare=small_buffer, strike=slow_tcpdump, codes=frozenset({"capture_incomplete"})),
    Fault(name="generator slowed", strike=slow_sender, codes=frozenset({"offered_short", "duration_stretched"})),
    Fault(name="guest killed", strike=kill_guest, codes=frozenset({"guest_changed", "interface_gone"})),
    Fault(name="console killed", strike=console(signal.SIGKILL), status=frozenset({-signal.SIGKILL})),
    Fault(name="console frozen", strike=freeze_console, status=frozenset({-signal.SIGKILL})),
    Fault(
        name="console out of disk",
        prepare=small_store,
        strike=fill_store,
        status=frozenset({2}),
        root=True,
        says=r"(?i)cannot save run .*(full|no space)",
    ),
    Fault(
        name="store locked by another",
        strike=lock_store,
        status=frozenset({2}),
        says="cannot save run .*another process has kept it locked",
    ),
    Fault(
        name="Ctrl-C",
        strike=console(signal.SIGINT),
        status=frozenset({130}),
        says="stopping; what was measured is saved",
        codes=frozenset({"aborted"}),
    ),
    Fault(name="Ctrl-C twice", strike=console(signal.SIGINT, signal.SIGTERM), status=frozenset({130}), says="stopping"),
    Fault(name="clock stepped", prepare=own_clock, strike=step_clock, codes=frozenset({"clock_stepped"})),
)
