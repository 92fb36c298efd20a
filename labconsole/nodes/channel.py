"""The SSH channel in which an agent runs: bytes in, checked messages out, and why it ended."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import asyncssh
from pydantic_core import from_json

from labconsole.wire.catalogue import EVENTS
from labconsole.wire.clean import clean, last_line
from labconsole.wire.codec import MAX_LINE_BYTES, PROTOCOL, WireError, decode
from labconsole.wire.message import AgentEvent, Refusal
from labconsole.wire.rules import Check, bad, count
from labconsole.wire.session import Hello

# -- messages ----------------------------------------------------------------------------------------------------------
# Checks an agent's messages before other code sees them: its hello, its events, its answers.
#
# A node is not trusted: a wrong type deep inside a message would otherwise end as a traceback in the engine or the
# console. Names and sentences are cleaned rather than refused, because an interface's name may really contain an escape
# sequence. The class of a message defines its format (labconsole/wire).


def read_hello(message: dict[str, Any]) -> Hello:
    """Parse the first line of an agent. Raises WireError."""
    protocol = count(message.get("protocol"), "protocol")
    if protocol != PROTOCOL:
        raise WireError("protocol", f"the agent speaks protocol {protocol}, this console {PROTOCOL}")
    return Hello.parse({key: value for key, value in message.items() if key != "event"}, "hello")


def read_event(message: dict[str, Any]) -> AgentEvent | None:
    """Parse one event, or return None for an unknown kind. Removes the kind from ``message``.

    Raises WireError naming the kind and the problem.
    """
    kind = message.get("event")
    if type(kind) is not str:
        raise bad("event", "is not a name")
    if kind not in EVENTS:
        return None
    del message["event"]
    try:
        return EVENTS[kind].parse(message, "the event")
    except WireError as exc:
        raise WireError(exc.code, f"{kind}: {exc.message}") from None


def read_reply(op: str, check: Check, message: dict[str, Any]) -> Any:
    """Parse the answer to ``op``: its ``ok`` by ``check``, or its error as a Refusal.

    Raises WireError naming the operation and the problem.
    """
    try:
        if "error" in message:
            return Refusal.parse(message["error"], "error")
        return check(message.get("ok"), "ok")
    except WireError as exc:
        raise WireError(exc.code, f"{op}: {exc.message}") from None


# -- the channel -------------------------------------------------------------------------------------------------------
# asyncssh calls this object from its own data path. There is no reader task, so nothing is left over when a link goes
# away, and a message costs one call. Until the agent's hello, lines outside the protocol are tolerated: login shells
# and sshrc files print greetings, which cannot be turned off on other people's machines.

log = logging.getLogger("labconsole.nodes")

MAX_STDERR_BYTES = 64 * 1024
MAX_STDERR_NOTES = 100
"""Most parts of an agent's stderr that are logged: the console's log keeps the newest entries of all nodes together."""
MAX_JUNK_LINES = 200
MAX_JUNK_BYTES = 64 * 1024
EOF_GRACE_S = 1.0
"""Time for an agent to report how it ended, after the end of its output."""
_HELLO = re.compile(rb'\{ *"event" *: *"hello"')
_REFUSED = re.compile(rb'^\{ *"event" *: *"refused"')

SHORT_LINE_BYTES = 64 * 1024

TAIL_BYTES = 64

WireMessage = dict[str, Any]
Receive = Callable[[WireMessage], None]


def decode_line(line: bytes) -> WireMessage:
    """The same result as decode(), in half the time for short lines, which arrive by the thousand.

    decode() handles what pydantic's decoder refuses (half a surrogate pair, a number that is too long), or refuses it
    with an explanation.
    """
    if len(line) <= SHORT_LINE_BYTES:
        with suppress(ValueError):
            message = from_json(line, allow_inf_nan=False)
            if isinstance(message, dict):
                return message
    return decode(line)


class OutputTail(asyncssh.SSHClientSession[bytes]):
    """The channel of a program whose last TAIL_BYTES of output matter; the rest is thrown away as it arrives."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tail = bytearray()

    @property
    def text(self) -> str:
        """What was printed last."""
        return self._tail.decode("utf-8", "replace")

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        """Called by asyncssh with bytes of stdout (no datatype) or stderr."""
        if datatype is None:
            self._tail += data[-TAIL_BYTES:]
            del self._tail[:-TAIL_BYTES]

    def connection_lost(self, exc: Exception | None) -> None:
        """Called once the channel is gone."""
        if not self.ended.done():
            self.ended.set_result(None)


class AgentSession(asyncssh.SSHClientSession[bytes]):
    """One agent's channel. ``hello`` resolves with its first message, ``ended`` with the reason for its end."""

    def __init__(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        self.name = name
        self.hello: asyncio.Future[Hello] = loop.create_future()
        self.ended: asyncio.Future[str] = loop.create_future()
        self.exit_status: int | None = None
        self.exit_signal: str | None = None
        self.stderr = bytearray()
        self.junk = bytearray()
        self.refusal: str | None = None
        self.receive: Receive | None = None
        self._junk_lines = self._stderr_notes = 0
        self._line_begun = bytearray()
        self._early: list[WireMessage] = []
        self._early_bytes = 0
        self._grace: asyncio.TimerHandle | None = None

    def listen(self, receive: Receive) -> None:
        """Pass every message to ``receive``, beginning with those that arrived before."""
        self.receive = receive
        early, self._early = self._early, []
        try:
            for message in early:
                receive(message)
        except WireError as exc:
            self._refuse(exc)

    def end(self, reason: str) -> None:
        """Accept no more data; the first reason is kept."""
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        self._line_begun.clear()
        if not self.ended.done():
            self.ended.set_result(reason)
        if not self.hello.done():
            self.hello.cancel()

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        """Called by asyncssh with bytes of stdout (no datatype) or stderr."""
        if self.ended.done():
            return
        if datatype is not None:
            self.stderr += data
            del self.stderr[:-MAX_STDERR_BYTES]
            self._stderr_notes += 1
            if self._stderr_notes <= MAX_STDERR_NOTES:
                log.debug("%s: stderr: %s", self.name, clean(data))
            return
        try:
            self._feed(data)
        except WireError as exc:
            self._refuse(exc)

    def eof_received(self) -> bool:
        """Called at the end of output. Keeps the channel open, because how the agent ended is reported after this."""
        if not self.ended.done():
            loop = asyncio.get_running_loop()
            self._grace = loop.call_later(EOF_GRACE_S, self.end, "the agent closed its output")
        return True

    def exit_status_received(self, status: int) -> None:
        """Called when the agent's process has exited."""
        self.exit_status = status

    def connection_lost(self, exc: Exception | None) -> None:
        """Called once the channel is gone, with the connection or alone."""
        if exc is not None:
            self.end(f"the connection was lost ({clean(exc, 200)})")
            return
        status = "" if self.exit_status is None else f" with exit status {self.exit_status}"
        if self.exit_signal is not None:
            status = f" by signal {self.exit_signal}"
        error_line = last_line(self.stderr)
        self.end(f"the agent ended{status}" + (f": {error_line}" if error_line else ""))

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        """Called when a signal ended the agent's process."""
        self.exit_signal = clean(signal, 20)

    def _refuse(self, exc: WireError) -> None:
        self.end(f"sent something that does not follow the protocol ({clean(exc.message, 200)})")

    def _feed(self, data: bytes) -> None:
        first, newline, rest = data.partition(b"\n")
        self._line_begun += first  # one buffer: as objects, packets of two bytes each would take 25 times as much
        limit = MAX_LINE_BYTES if self.hello.done() else MAX_JUNK_BYTES
        if len(self._line_begun) > limit:
            raise WireError("bad_line", f"a line is longer than {limit} bytes")
        if not newline:
            return
        line = bytes(self._line_begun)
        self._line_begun.clear()
        self._line(line)
        *lines, tail = rest.split(b"\n")
        for line in lines:
            if self.ended.done():
                return
            self._line(line)
        if tail and not self.ended.done():
            self._line_begun += tail

    def _line(self, line: bytes) -> None:
        if not self.hello.done():
            self._read_hello(line)
            return
        message = decode_line(line)
        if self.receive is not None:
            self.receive(message)
        elif len(self._early) < MAX_JUNK_LINES and self._early_bytes + len(line) <= MAX_LINE_BYTES:
            self._early.append(message)
            self._early_bytes += len(line)
        else:
            raise WireError("bad_line", "too much data arrived before the first request")

    def _read_hello(self, line: bytes) -> None:
        # A greeting without a line feed precedes the hello on its line.
        found = _HELLO.search(line)
        if found is not None:
            hello = read_hello(decode(line[found.start() :]))
            if self.junk or found.start():
                greeting = clean(self.junk + line[: found.start()])
                log.debug("%s: ignored before the agent's hello: %s", self.name, greeting)
            self.hello.set_result(hello)
            return
        if _REFUSED.search(line) is not None:
            # The launcher's message about a Python that is too old to run the agent.
            self.refusal = clean(decode(line).get("message"))
            return
        self._junk_lines += 1
        self.junk += line + b"\n"
        if self._junk_lines > MAX_JUNK_LINES or len(self.junk) > MAX_JUNK_BYTES:
            raise WireError("no_hello", "the login shell prints too much before the agent starts")
