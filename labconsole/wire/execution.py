"""Running one program on a node."""

from __future__ import annotations

from typing import Annotated, Optional

from labconsole.wire.message import Message, Request
from labconsole.wire.rules import Free, Rule, Word, WordList, above, lines, whole

MAX_OUTPUT = 1024 * 1024
"""Most characters of a program's output; an agent keeps as many bytes."""

MAX_TIMEOUT_S = 86400

Output = Annotated[str, Rule(lines(MAX_OUTPUT))]


class Executed(Message):
    """A program's exit status (a negative status is the signal that ended it) and the beginning of its output."""

    exit_status: Annotated[int, Rule(whole(-255, 255))]
    stdout: Output
    stderr: Output
    truncated: bool


class Execute(Request[Executed], op="exec"):
    """Run a program. The process and its group die with the request; one that left the group dies with the agent."""

    argv: WordList
    timeout_s: Annotated[float, Rule(above(0, MAX_TIMEOUT_S))]
    stdin: Optional[Free] = None
    namespace: Optional[Word] = None
