"""What processes and all that descend from them hold of the node's memory."""

from __future__ import annotations

from typing import Annotated, List, Optional

from labconsole.wire.message import Message, Request
from labconsole.wire.rules import Count, Most, Sentence
from labconsole.wire.usage import Pid

MAX_GUESTS = 1024


class HeldMemory(Message):
    """Of one process with its descendants: the sum of their proportional set sizes, each memory once, and what the
    guest's own control group holds, or None. ``group_reason``: why the group is not known.
    """

    pid: Pid
    pss_bytes: Optional[Count]
    group_bytes: Optional[Count]
    group_reason: Optional[Sentence] = None


class HeldMemories(Message):
    """In the order asked for."""

    processes: Annotated[List[HeldMemory], Most(MAX_GUESTS)]


class ReadMemory(Request[HeldMemories], op="process.memory"):
    """Ask what these processes hold now."""

    pids: Annotated[List[Pid], Most(MAX_GUESTS)]
