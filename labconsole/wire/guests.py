"""Guests that are processes of the agent: starting them, talking to their consoles, ending them."""

from __future__ import annotations

from typing import Annotated, List, Optional

from labconsole.wire.execution import Output
from labconsole.wire.message import AgentEvent, Done, Message, Request
from labconsole.wire.rules import Amount, Count, Most, Name, Rule, Sentence, Word, WordList, above, bad, lines

MAX_WAIT_S = 1800
"""The longest published start of guests took 1400 s (Quétier et al., figure 2: fifty of VMware, cold)."""

MAX_STOP_S = 3600
"""The longest shutdown time that hosts.yaml may allow a guest."""

MAX_WORK_S = 86400
MAX_GUESTS = 256
TOGETHER_S = 60.0
"""After this, a guest that has not read its line does not begin with the others."""

MAX_PRINTED_BYTES = 4096

Wait = Annotated[float, Rule(above(0, MAX_WAIT_S))]


class GuestStarted(Message):
    """``console``: output of the guest before it was up. Times are those of the node's CLOCK_MONOTONIC."""

    pid: Count
    started_ns: Count
    ready_ns: Count
    console: Output


class StartGuest(Request[GuestStarted], op="guest.start"):
    """Start a guest, whose console is the program's standard input and output; it ends with the agent.

    ``ready``: text that its console prints when it is up. ``own_session`` false: it stays in the agent's session, for
    kernels that share processors by session (autogrouping).
    """

    guest: Word
    argv: WordList
    ready: Word
    timeout_s: Wait
    namespace: Optional[Word] = None
    own_session: Optional[bool] = None


class GuestAnswer(Message):
    """Output of the guest's console after the line, up to ``until`` (the last 64 KiB)."""

    printed: Output


class AskGuest(Request[GuestAnswer], op="guest.ask"):
    """Write a line to a guest's console."""

    guest: Word
    line: Word
    until: Word
    timeout_s: Wait


class AskedGuest(Message):
    """One guest's answer: its output up to ``until`` (the last 4 KiB), or ``code`` and ``message`` with the reason for
    none.

    Times are those of the node's CLOCK_MONOTONIC. ``asked_ns``: when the line, or the empty line that the guest waited
    for, was written, or None if it was not.
    """

    guest: Name
    asked_ns: Optional[Count]
    answered_ns: Optional[Count]
    printed: Optional[Annotated[str, Rule(lines(MAX_PRINTED_BYTES))]]
    code: Optional[Name]
    message: Optional[Sentence]

    def check_fields(self) -> None:
        """Check that there is either an answer or a reason for none."""
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
    """Answers in the order of the request.

    ``waited_s``: from the last line written to the first answer of a guest that got one, a time when all were at work.
    ``waited_cpu_s``: the agent's processor time meanwhile. ``cpu_s``: the same from the first line written to the last
    answer.
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
    """Write a line to each of these guests' consoles in immediate succession, and wait for all answers.

    A guest with a request already under way is skipped (``busy``). A guest that does not answer does not delay the
    others. ``waits``: text that each guest prints when it has read its line and waits for an empty one to begin. The
    empty lines are written in immediate succession, once every guest has printed that text or is given up.
    """

    asked: Annotated[List[GuestLine], Most(MAX_GUESTS)]
    until: Word
    timeout_s: Annotated[float, Rule(above(0, MAX_WORK_S))]
    waits: Optional[Word] = None

    def misfit(self, reply: AskedGuests) -> Optional[str]:
        requested, answered = ([each.guest for each in side] for side in (self.asked, reply.guests))
        return None if requested == answered else "its guests are not the requested ones in the requested order"


class GuestState(Message):
    """``cpu_s``: CPU time of its process."""

    running: bool
    pid: Count
    cpu_s: Optional[Amount]


class GuestStatus(Request[GuestState], op="guest.status"):
    """Request whether a guest is running."""

    guest: Word


class StopGuest(Request[Done], op="guest.stop"):
    """End a guest at once."""

    guest: Word


class PromiseStop(Request[Done], op="guest.promise_stop"):
    """Announce that a guest of an installed hypervisor will be started, or something made on its disk, that outlives
    the agent.

    If this session ends before the promise is withdrawn, its keeper runs ``ask``, for ``limit_s`` at most, and if that
    fails or there is none, ``kill``. ``runs`` prints the same output as long as this start of the guest lasts: while it
    does, the keeper waits, and it runs ``kill`` after ``limit_s``. A promise for the same guest replaces the previous
    one. ``inside``: ``kill`` works inside the guest, for ``limit_s`` at most, so it runs while the guest still does:
    before processes of the session are killed and guests stopped.
    """

    guest: Word
    inside: bool = False
    ask: Optional[WordList] = None
    kill: WordList
    limit_s: Annotated[float, Rule(above(0, MAX_STOP_S))]
    runs: Optional[WordList] = None


class StopKept(Request[Done], op="guest.stop_kept"):
    """Withdraw a guest's promise: the guest was stopped, or belongs to another session, or what was made on its disk is
    gone.
    """

    guest: Word


class GuestEnded(AgentEvent, kind="guest.ended"):
    """A guest ended by itself."""

    guest: Name
    message: Sentence
