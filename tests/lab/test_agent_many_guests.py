"""Many guests asked at once. Shells stand in for them, with the loop that a guest's console runs."""

from __future__ import annotations

import fcntl
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labconsole.platforms.base.guest_shell import DONE, LOOP, READY, WAITS, build_simultaneous_line
from labconsole.wire.guests import MAX_GUESTS, MAX_PRINTED_BYTES, AskedGuest, AskedGuests
from support.agent_process import AgentProcess, Net, eventually
from support.requirements import require

ONE = {"guest": "one", "line": "true"}
MANY = [f"g{number:03}" for number in range(100)]


def stand(agent: AgentProcess, names: list[str]) -> dict[str, int]:
    """Start a shell for each, which knows its name as $N; their processes."""
    argv = ["sh", "-c", LOOP]
    posted = {
        name: agent.post("guest.start", guest=name, argv=["env", f"N={name}", *argv], ready=READY, timeout_s=60)
        for name in names
    }
    return {name: agent.reply(number)["ok"]["pid"] for name, number in posted.items()}


def asking(names: list[str], line: str, timeout_s: float = 60) -> dict[str, Any]:
    asked = [{"guest": name, "line": line} for name in names]
    return {"asked": asked, "until": DONE, "timeout_s": timeout_s}


def answers(agent: AgentProcess, number: int) -> list[AskedGuest]:
    """As the console reads them."""
    return AskedGuests.parse(agent.reply(number)["ok"]).guests


def ask(agent: AgentProcess, names: list[str], line: str, timeout_s: float = 60) -> list[AskedGuest]:
    return answers(agent, agent.post("guest.ask_all", **asking(names, line, timeout_s)))


class Barrier:
    """A lock that the guests wait for until the test lets go."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self.line = f"flock -s {path} true; echo $N"

    def open(self) -> None:
        self._file.close()


@pytest.fixture
def barrier(tmp_path: Path) -> Iterator[Barrier]:
    require("flock")
    made = Barrier(tmp_path / "barrier")
    yield made
    made.open()


def waiting(net: Net) -> int:
    """How many guests have come to the barrier."""

    def name(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            return ""

    return sum(name(pid) == "flock" for pid in net.processes())


def woken(agent: AgentProcess) -> int:
    """How often the agent has waited for something and it came."""
    with open(f"/proc/{agent.hello['pid']}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt_switches"))


def test_a_hundred_guests_are_asked_before_any_is_waited_for_and_cost_nothing_while_they_work(
    net: Net, agent: AgentProcess, barrier: Barrier
) -> None:
    stand(agent, MANY)
    number = agent.post("guest.ask_all", **asking(MANY, barrier.line))
    eventually(lambda: waiting(net) == len(MANY), "all of them work")
    before = woken(agent)
    net.run("sleep", "1")
    assert woken(agent) == before, "nobody is asked whether it is ready"
    barrier.open()
    answered = AskedGuests.parse(agent.reply(number)["ok"])
    told = answered.guests
    assert answered.waited_s >= 1, "the time in which all worked"
    assert 0 <= answered.waited_cpu_s <= answered.cpu_s
    assert [each.guest for each in told] == MANY
    assert all((each.printed or "").split() == [each.guest] for each in told)
    asked = [each.asked_ns or 0 for each in told]
    assert asked == sorted(asked)
    assert max(asked) < min(each.answered_ns or 0 for each in told)
    assert {each.printed for each in ask(agent, MANY[::-1], "true")} == {""}


def test_a_guest_that_does_not_answer_keeps_none_of_the_others_from_it(agent: AgentProcess) -> None:
    stand(agent, ["fine", "ends", "silent"])
    line = "case $N in fine) echo 7 packets;; ends) kill -9 $PPID;; *) sleep 1000;; esac"
    fine, ends, missing, silent = ask(agent, ["fine", "ends", "nobody", "silent"], line, timeout_s=2)
    assert (fine.printed, fine.code, fine.message) == ("7 packets\n", None, None)
    assert (fine.asked_ns or 0) < (fine.answered_ns or 0)
    assert (ends.code, silent.code, missing.code) == ("guest_ended", "guest_silent", "no_such_guest")
    assert "status -9" in (ends.message or "")
    assert "did not answer within 2 s" in (silent.message or "")
    assert missing.asked_ns is None
    for each in (ends, silent):
        assert each.asked_ns is not None and (each.answered_ns, each.printed) == (None, None)
    assert agent.event("guest.ended")["guest"] == "ends"


def test_a_guest_that_is_being_asked_is_refused_and_asked_again_afterwards(
    net: Net, agent: AgentProcess, barrier: Barrier
) -> None:
    stand(agent, ["one", "two", "three"])
    alone = agent.post("guest.ask", guest="one", line=barrier.line, until=DONE, timeout_s=60)
    together = agent.post("guest.ask_all", **asking(["one", "two", "three"], barrier.line))
    eventually(lambda: waiting(net) == 3, "all three work")
    again = ask(agent, ["two", "three"], "true")
    assert {each.code for each in again} == {"busy"}
    assert agent.error("guest.ask", guest="two", line="true", until=DONE, timeout_s=60)["code"] == "busy"
    barrier.open()
    assert agent.reply(alone)["ok"]["printed"].split() == ["one"]
    assert [(each.guest, each.code) for each in answers(agent, together)] == [
        ("one", "busy"),
        ("two", None),
        ("three", None),
    ]
    assert [each.printed for each in ask(agent, ["three", "one", "two"], "echo $N")] == ["three\n", "one\n", "two\n"]
    assert agent.ok("guest.ask", guest="two", line="echo $N", until=DONE, timeout_s=60)["printed"] == "two\n"


def test_of_what_a_guest_prints_the_end_is_kept(agent: AgentProcess) -> None:
    stand(agent, ["one"])
    (told,) = ask(agent, ["one"], "head -c 1000000 /dev/zero | tr '\\0' x; echo end")
    assert told.printed is not None and told.printed.endswith("xend\n")
    assert len(told.printed) == MAX_PRINTED_BYTES


def test_each_guest_is_asked_a_line_of_its_own(agent: AgentProcess) -> None:
    stand(agent, ["one", "two"])
    lines = [{"guest": "two", "line": "echo $N 2"}, {"guest": "one", "line": "echo $N 1"}]
    told = answers(agent, agent.post("guest.ask_all", asked=lines, until=DONE, timeout_s=60))
    assert [each.printed for each in told] == ["two 2\n", "one 1\n"]


def test_guests_that_wait_for_each_other_begin_together(net: Net, agent: AgentProcess) -> None:
    """The slowest to read its line takes half a second; what each says of its beginning is the kernel's uptime."""
    stand(agent, ["slow", *MANY[:9]])
    begin = "read begun rest </proc/uptime; sleep 0.3; echo begun $begun"
    lines = [
        {"guest": name, "line": build_simultaneous_line([begin] * copies)}
        for name, copies in zip(MANY[:9], [1, 2, 3] * 3, strict=True)
    ]
    lines.insert(0, {"guest": "slow", "line": "sleep 0.5; " + build_simultaneous_line([begin])})
    told = answers(agent, agent.post("guest.ask_all", asked=lines, until=DONE, timeout_s=60, waits=WAITS))
    begun = [float(said) for each in told for said in re.findall(r"begun ([\d.]+)", each.printed or "")]
    assert len(begun) == 19
    assert max(begun) - min(begun) <= 0.2
    for each in told:
        assert each.asked_ns is not None and each.answered_ns is not None
        assert each.answered_ns - each.asked_ns < 2e9
        assert each.asked_ns / 1e9 > min(begun) - 0.2  # of the beginning, not of the line


def test_a_guest_that_does_not_wait_keeps_none_of_the_others_from_beginning(net: Net, agent: AgentProcess) -> None:
    stand(agent, ["one", "two", "three"])
    lines = [
        {"guest": "one", "line": "kill -9 $PPID"},
        {"guest": "two", "line": build_simultaneous_line(["echo $N"])},
        {"guest": "three", "line": "sleep 30"},
    ]
    told = answers(agent, agent.post("guest.ask_all", asked=lines, until=DONE, timeout_s=2, waits=WAITS))
    assert [each.code for each in told] == ["guest_ended", None, "guest_silent"]
    assert (told[1].printed or "").split()[-1] == "two"
    assert agent.ok("guest.ask", guest="two", line="echo $N", until=DONE, timeout_s=60)["printed"] == "two\n"


@pytest.mark.parametrize(
    "wrong",
    [
        {"asked": []},
        {"asked": [ONE, ONE]},
        {"asked": [{**ONE, "guest": f"g{number}"} for number in range(MAX_GUESTS + 1)]},
        {"asked": [ONE, {"guest": "two", "line": "true\nfalse"}]},
        {"asked": ["one"]},
        {"until": ""},
        {"timeout_s": 0},
        {"timeout_s": 86401},
    ],
)
def test_what_cannot_be_asked_is_refused(agent: AgentProcess, wrong: dict[str, Any]) -> None:
    stand(agent, ["one"])
    assert agent.error("guest.ask_all", **{**asking(["one"], "true"), **wrong})["code"] == "bad_request"
    assert ask(agent, ["one"], "echo fine")[0].printed == "fine\n"


@pytest.mark.parametrize("end", ["stdin", "agent killed"])
def test_a_hundred_guests_at_work_are_gone_with_the_agent(
    net: Net, agent: AgentProcess, barrier: Barrier, end: str
) -> None:
    stand(agent, MANY)
    agent.post("guest.ask_all", **asking(MANY, barrier.line))
    eventually(lambda: waiting(net) == len(MANY), "all of them work")
    if end == "stdin":
        agent.stdin.close()
    else:
        os.kill(agent.hello["pid"], signal.SIGKILL)
    eventually(lambda: not net.processes(), "everything is gone")


def test_of_many_that_start_each_says_when_it_is_up(agent: AgentProcess) -> None:
    """The first ones are heard while the last ones are being started."""
    posted = [
        agent.post("guest.start", guest=name, argv=["sh", "-c", LOOP], ready=READY, timeout_s=60) for name in MANY
    ]
    started = [agent.reply(number)["ok"] for number in posted]
    last_ns = max(each["started_ns"] for each in started)
    heard = sum(each["ready_ns"] < last_ns for each in started)
    assert heard > len(MANY) / 2, f"{heard} of {len(MANY)} said that they were up before the last was started"
