"""What was asked of a node is written down once, in short, bounded, and says how it ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from labconsole.engine.live.history import KEPT, MAX_CHARACTERS, CommandHistory, RecordedLink
from labconsole.errors import AgentError, NodeLost
from labconsole.network.sysctl import Sysctl
from labconsole.wire.capture import CaptureStarted, StartCapture
from labconsole.wire.changes import ApplyChanges
from labconsole.wire.execution import Execute, Executed
from labconsole.wire.facts import ReadFacts
from labconsole.wire.lease import TakeLease
from labconsole.wire.message import Done


class Scripted:
    """A link that answers with what it is given."""

    name, hello = "src1", {"kernel": "6.1"}
    round_trip_s, clock_offset_ns, monotonic_offset_ns, clock_error_ns = 0.001, 1, 2, 3

    def __init__(self, *answers) -> None:
        self.answers = list(answers)

    async def ask(self, request, *, timeout_s=30.0):
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def recorded(link: Any, history: CommandHistory) -> RecordedLink:
    return RecordedLink(link, history)


def ask(history: CommandHistory, link: Scripted, request):
    return asyncio.run(recorded(link, history).ask(request))


def executed(exit_status: int) -> Executed:
    return Executed(exit_status=exit_status, stdout="", stderr="", truncated=False)


def test_a_request_is_kept_with_its_arguments_its_time_and_its_end():
    history = CommandHistory()
    ask(history, Scripted(Done()), TakeLease(owner="op@host", purpose="", left_s=2.5))
    (command,) = history.commands
    assert (command.op, command.words, command.outcome, command.argv) == (
        "lease.take",
        "owner=op@host purpose= left_s=2.5",
        "ok",
        False,
    )
    assert command.took_s is not None
    assert command.at_wall_s > 0


def test_a_program_is_kept_as_its_command_line():
    history = CommandHistory()
    ask(history, Scripted(executed(0)), Execute(argv=["ip", "link", "show", "a b"], timeout_s=5))
    ask(history, Scripted(executed(1)), Execute(argv=["false"], timeout_s=5))
    started = CaptureStarted(path="/x", argv=["tcpdump", "-i", "eth1"], tcpdump=None)
    wish = StartCapture(capture="c", interface="eth1", filter="", snap_bytes=64, buffer_kib=64)
    ask(history, Scripted(started), wish)
    assert [(c.words, c.argv, c.outcome) for c in history.commands] == [
        ("ip link show 'a b'", True, "ok"),
        ("false", True, "exit status 1"),
        ("tcpdump -i eth1", True, "ok"),
    ]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (AgentError("src1", "has no such capture", code="x", operation="capture.stop"), "has no such capture"),
        (NodeLost("src1", "the connection was lost", operation="facts"), "the connection was lost"),
        (asyncio.CancelledError(), "given up before it was answered"),
    ],
)
def test_what_went_wrong_is_kept_and_raised_on(error, outcome):
    history = CommandHistory()

    async def body():
        with pytest.raises(type(error)):
            await recorded(Scripted(error), history).ask(ReadFacts())

    asyncio.run(body())
    assert history.commands[-1].outcome == outcome
    assert history.commands[-1].failed


def test_the_history_is_bounded_in_length_and_width():
    history = CommandHistory()
    link = Scripted(*[Done()] * (KEPT + 5))
    for _ in range(KEPT + 5):
        ask(history, link, ApplyChanges(token="t", changes=[Sysctl(name="net.x", value="x" * 10_000)]))
    assert (len(history.commands), history.total) == (KEPT, KEPT + 5)
    assert history.commands[0].number == 6
    assert len(history.commands[-1].words) == MAX_CHARACTERS


def test_a_node_that_stays_away_fills_no_history():
    history = CommandHistory()
    for _ in range(50):
        history.tried_to_connect("src1.lab", "refuses connections", 0.1)
    history.tried_to_connect("src1.lab", "ok", 0.2)
    assert [(c.op, c.outcome) for c in history.commands] == [("connect", "refuses connections"), ("connect", "ok")]


def test_a_recorded_link_shows_the_links_own_clocks():
    link = recorded(Scripted(), CommandHistory())
    assert (link.name, link.round_trip_s, link.clock_offset_ns, link.clock_error_ns) == ("src1", 0.001, 1, 3)
