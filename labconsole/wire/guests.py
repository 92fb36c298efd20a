"""Guests that are processes of the agent: started, spoken to on their console, ended."""

from __future__ import annotations

from typing import Annotated, Optional

from labconsole.wire.execution import Output
from labconsole.wire.message import AgentEvent, Done, Message, Request
from labconsole.wire.rules import Amount, Count, Name, Rule, Sentence, Word, Words, above

MAX_WAIT_S = 600

Wait = Annotated[float, Rule(above(0, MAX_WAIT_S))]


class GuestStarted(Message):
    """``console``: what the guest printed before it was up."""

    pid: Count
    console: Output


class StartGuest(Request[GuestStarted], op="guest.start"):
    """Start a guest, whose console is the program's standard input and output; it ends with the agent.

    ``ready`` is what its console prints when it is up.
    """

    guest: Word
    argv: Words
    ready: Word
    timeout_s: Wait
    namespace: Optional[Word] = None


class GuestAnswer(Message):
    """What the guest's console printed after the line, up to ``until`` (the last 64 KiB)."""

    printed: Output


class AskGuest(Request[GuestAnswer], op="guest.ask"):
    """Write a line to a guest's console."""

    guest: Word
    line: Word
    until: Word
    timeout_s: Wait


class GuestState(Message):
    """``cpu_s``: CPU time of its process."""

    running: bool
    pid: Count
    cpu_s: Optional[Amount]


class GuestStatus(Request[GuestState], op="guest.status"):
    """Ask whether a guest is running."""

    guest: Word


class StopGuest(Request[Done], op="guest.stop"):
    """End a guest at once."""

    guest: Word


class GuestEnded(AgentEvent, kind="guest.ended"):
    """A guest ended by itself."""

    guest: Name
    message: Sentence
