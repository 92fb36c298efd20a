"""Memory use of processes with all their descendants."""

from __future__ import annotations

from typing import Annotated, List, Optional

from labconsole.wire.message import Message, Request
from labconsole.wire.rules import Count, Most, Sentence
from labconsole.wire.usage import Pid

MAX_GUESTS = 1024


class HeldMemory(Message):
    """Memory use of one process with its descendants: the sum of their proportional set sizes, each memory counted
    once, and the usage of the guest's own control group, or None. ``group_reason``: why the latter is not known.
    """

    pid: Pid
    pss_bytes: Optional[Count]
    group_bytes: Optional[Count]
    group_reason: Optional[Sentence] = None


class HeldMemories(Message):
    """Memory use in the order of the request."""

    processes: Annotated[List[HeldMemory], Most(MAX_GUESTS)]


class ReadMemory(Request[HeldMemories], op="process.memory"):
    """Request the current memory use of these processes."""

    pids: Annotated[List[Pid], Most(MAX_GUESTS)]
