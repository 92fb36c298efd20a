"""What was asked of a node is written down once, in short, bounded, and says how it ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from labconsole.engine.live.history import KEPT, WORDS, CommandHistory, RecordedLink
from labconsole.errors import AgentError, NodeLost


class Scripted:
    """A link that answers with what it is given."""

    name, hello = "src1", {"kernel": "6.1"}
    round_trip_s, clock_offset_ns, monotonic_offset_ns, clock_error_ns = 0.001, 1, 2, 3

    def __init__(self, *answers) -> None:
        self.answers = list(answers)

    async def request(self, op, args=None, *, timeout_s=30.0):
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def recorded(link: Any, history: CommandHistory) -> RecordedLink:
    return RecordedLink(link, history)


def ask(history: CommandHistory, link: Scripted, op: str, args=None):
    return asyncio.run(recorded(link, history).request(op, args))


def test_a_request_is_kept_with_its_arguments_its_time_and_its_end():
    history = CommandHistory()
    ask(history, Scripted({}), "lease.take", {"owner": "op@host", "left_s": 2.5})
    (command,) = history.commands
    assert (command.op, command.words, command.outcome, command.argv) == (
        "lease.take",
        "owner=op@host left_s=2.5",
        "ok",
        False,
    )
    assert command.took_s is not None
    assert command.at_wall_s > 0


def test_a_program_is_kept_as_its_command_line():
    history = CommandHistory()
    ask(history, Scripted({"exit_status": 0}), "exec", {"argv": ["ip", "link", "show", "a b"], "timeout_s": 5})
    ask(history, Scripted({"exit_status": 1}), "exec", {"argv": ["false"]})
    ask(history, Scripted({"path": "/x", "argv": ["tcpdump", "-i", "eth1"]}), "capture.start", {"capture": "c"})
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
            await recorded(Scripted(error), history).request("facts")

    asyncio.run(body())
    assert history.commands[-1].outcome == outcome
    assert history.commands[-1].failed


def test_the_history_is_bounded_in_length_and_width():
    history = CommandHistory()
    link = Scripted(*[{}] * (KEPT + 5))
    for _ in range(KEPT + 5):
        ask(history, link, "net.apply", {"changes": [{"kind": "sysctl", "value": "x" * 10_000}]})
    assert (len(history.commands), history.total) == (KEPT, KEPT + 5)
    assert history.commands[0].number == 6
    assert len(history.commands[-1].words) == WORDS


def test_a_node_that_stays_away_fills_no_history():
    history = CommandHistory()
    for _ in range(50):
        history.tried_to_connect("src1.lab", "refuses connections", 0.1)
    history.tried_to_connect("src1.lab", "ok", 0.2)
    assert [(c.op, c.outcome) for c in history.commands] == [("connect", "refuses connections"), ("connect", "ok")]


def test_a_recorded_link_shows_the_links_own_clocks():
    link = recorded(Scripted(), CommandHistory())
    assert (link.name, link.round_trip_s, link.clock_offset_ns, link.clock_error_ns) == ("src1", 0.001, 1, 3)
