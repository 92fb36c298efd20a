"""Guests that are processes of the agent: started, spoken to on their console, ended."""

from __future__ import annotations

from typing import Annotated, List, Optional

from labconsole.wire.execution import Output
from labconsole.wire.message import AgentEvent, Done, Message, Request
from labconsole.wire.rules import Amount, Count, Most, Name, Rule, Sentence, Word, Words, above, bad, lines

MAX_WAIT_S = 1800
"""The longest published start of guests took 1400 s (Quétier et al., figure 2: fifty of VMware, cold)."""

MAX_STOP_S = 3600
"""As long as hosts.yaml may give a guest to shut down."""

MAX_WORK_S = 86400
MAX_GUESTS = 256
TOGETHER_S = 60.0
"""After this a guest that has not read its line does not begin with the others."""

MAX_PRINTED_BYTES = 4096

Wait = Annotated[float, Rule(above(0, MAX_WAIT_S))]


class GuestStarted(Message):
    """``console``: what the guest printed before it was up. Times are those of the node's CLOCK_MONOTONIC."""

    pid: Count
    started_ns: Count
    ready_ns: Count
    console: Output


class StartGuest(Request[GuestStarted], op="guest.start"):
    """Start a guest, whose console is the program's standard input and output; it ends with the agent.

    ``ready`` is what its console prints when it is up. ``own_session`` false: it stays in the agent's session, for
    kernels that share processors by session (autogrouping).
    """

    guest: Word
    argv: Words
    ready: Word
    timeout_s: Wait
    namespace: Optional[Word] = None
    own_session: Optional[bool] = None


class GuestAnswer(Message):
    """What the guest's console printed after the line, up to ``until`` (the last 64 KiB)."""

    printed: Output


class AskGuest(Request[GuestAnswer], op="guest.ask"):
    """Write a line to a guest's console."""

    guest: Word
    line: Word
    until: Word
    timeout_s: Wait


class AskedGuest(Message):
    """One guest's answer: what it printed up to ``until`` (the last 4 KiB), or ``code`` and ``message``: why not.

    Times are those of the node's CLOCK_MONOTONIC. ``asked_ns``: when the line was written, or the empty one that it
    waited for; None if it was not.
    """

    guest: Name
    asked_ns: Optional[Count]
    answered_ns: Optional[Count]
    printed: Optional[Annotated[str, Rule(lines(MAX_PRINTED_BYTES))]]
    code: Optional[Name]
    message: Optional[Sentence]

    def check_fields(self) -> None:
        """There is an answer, or a reason why there is none."""
        answered = self.answered_ns is not None
        if (
            answered != (self.printed is not None)
            or answered != (self.code is None)
            or answered != (self.message is None)
        ):
            raise bad("answered_ns", "contradicts printed, code or message")
        if self.answered_ns is not None and (self.asked_ns is None or self.asked_ns > self.answered_ns):
            raise bad("asked_ns", "is not before answered_ns")


class AskedGuests(Message):
    """In the order in which they were asked.

    ``waited_s``: from the last line written to the first answer of those that were, when all were at work;
    ``waited_cpu_s``: what the agent used of the processors meanwhile, and ``cpu_s`` from the first line written to the
    last answer.
    """

    guests: Annotated[List[AskedGuest], Most(MAX_GUESTS)]
    waited_s: Amount
    waited_cpu_s: Amount
    cpu_s: Amount


class GuestLine(Message):
    """A line for one guest."""

    guest: Word
    line: Word


class AskGuests(Request[AskedGuests], op="guest.ask_all"):
    """Write a line to each of these guests' consoles, one directly after the other, and wait for all answers.

    A guest that somebody is asking already is not asked (``busy``). One that does not answer keeps none of the others
    from it. ``waits``: what each prints when it has read its line, to begin with another, empty one: that is written to
    all, one directly after the other, once every guest has said so or is given up.
    """

    asked: Annotated[List[GuestLine], Most(MAX_GUESTS)]
    until: Word
    timeout_s: Annotated[float, Rule(above(0, MAX_WORK_S))]
    waits: Optional[Word] = None

    def misfit(self, reply: AskedGuests) -> Optional[str]:
        asked, answered = ([each.guest for each in side] for side in (self.asked, reply.guests))
        return None if asked == answered else "its guests are not those that were asked, in their order"


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


class PromiseStop(Request[Done], op="guest.promise_stop"):
    """A guest of an installed hypervisor is about to be started, or something is to be made on its disk, and neither
    ends with the agent.

    Should this session end with the promise standing, its keeper runs ``ask``, for ``limit_s`` at most, and where that
    fails, or there is none, ``kill``. ``runs`` prints the same as long as this start of the guest lasts: while it does,
    the keeper waits, and runs ``kill`` after ``limit_s``. A promise for the same guest takes the place of the one
    before. ``inside``: what ``kill`` runs is done in the guest, for ``limit_s`` at most, and so while it still runs:
    before processes of the session are killed, and guests stopped.
    """

    guest: Word
    inside: bool = False
    ask: Optional[Words] = None
    kill: Words
    limit_s: Annotated[float, Rule(above(0, MAX_STOP_S))]
    runs: Optional[Words] = None


class StopKept(Request[Done], op="guest.stop_kept"):
    """The guest was stopped, or is somebody else's, or what was made on its disk is gone: nothing is promised for it
    any more.
    """

    guest: Word


class GuestEnded(AgentEvent, kind="guest.ended"):
    """A guest ended by itself."""

    guest: Name
    message: Sentence
