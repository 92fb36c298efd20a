"""Messages about the session itself: its begin, its clocks, its end."""

from __future__ import annotations

from typing import Annotated, List, Optional

from labconsole.wire.message import AgentEvent, Done, Message, Request
from labconsole.wire.rules import Count, Most, Name, Rule, Sentence, between

MAX_FAILURES = 10_000


class Hello(AgentEvent, kind="hello"):
    """The first line of an agent."""

    protocol: Count
    version: Optional[Name] = None
    python: Optional[Name] = None
    pid: Optional[Count] = None
    euid: Optional[Count] = None
    hostname: Optional[Name] = None
    kernel: Optional[Name] = None
    monotonic_ns: Count
    wall_ns: Count


class Clocks(Message):
    """The node's clocks, read at one moment."""

    monotonic_ns: Count
    wall_ns: Count


class Ping(Request[Clocks], op="ping", watches=True):
    """Request the clocks, or show that the console is alive."""


class Watchdog(Request[Done], op="watchdog", watches=True):
    """Start to end the session after this long without a line: a pulled cable may not end stdin for hours."""

    silence_s: Optional[Annotated[float, Rule(between(1, 86400))]] = None


class OnlyWatch(Request[Done], op="watch.only", watches=True):
    """Refuse (``only_watches``) every later request that changes, measures or loads the node. Cannot be taken back."""


class Undone(Message):
    """What could not be undone, in sentences."""

    failed: Annotated[List[Sentence], Most(MAX_FAILURES)]


class Close(Request[Undone], op="close", watches=True):
    """End as if stdin had ended, but reply first."""


class AgentNotice(AgentEvent, kind="notice"):
    """A message for the operator."""

    code: Name
    message: Sentence
