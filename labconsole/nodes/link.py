"""One node: an SSH session with a running agent, and why an agent did not start."""

from __future__ import annotations

import asyncio
import logging
import re
import shlex
import time
from contextlib import suppress
from typing import Any

import asyncssh

from labconsole.contracts.ports import OnAgentEvent
from labconsole.errors import AgentError, CapabilityMissing, NodeError, NodeLost, NodeSilent, NodeUnreachable
from labconsole.model.inventory import Inventory
from labconsole.nodes.channel import AgentSession, OutputTail, read_event, read_reply
from labconsole.nodes.ssh_connection import STARTS, SshConnection, dial
from labconsole.nodes.ssh_route import find_route
from labconsole.wire.clean import clean, last_line
from labconsole.wire.codec import MAX_LINE_BYTES, encode
from labconsole.wire.message import R, Refusal, Request
from labconsole.wire.rules import Check
from labconsole.wire.session import Close, Ping, Watchdog

# -- failed starts -----------------------------------------------------------------------------------------------------
# Why an agent did not start, from the output of the shell, sudo or Python: the missing capability, and the remedy.

MIN_PYTHON = (3, 9)
_VERSION = re.compile(r"\b(\d+)\.(\d+)\b")
_LACKING = re.compile(r"^ModuleNotFoundError: No module named '((?!labconsole|pyroute2)\w+)'")
_WHOLE_PYTHON = "install Debian's python3 (python3-minimal is not enough) or set `python:` in hosts.yaml"


def version_command(python: str, become: str | None) -> str:
    """A command line that prints major.minor of the node's Python, of any version."""
    code = "import sys; sys.stdout.write('%d.%d' % sys.version_info[:2])"
    return shlex.join([*(["sudo", "-n", "--"] if become else []), python, "-c", code])


def explain(
    name: str, *, user: str, python: str, become: str | None, exit_status: int | None, stderr: bytes, junk: bytes
) -> NodeError:
    """The error for an agent that ended before its hello."""
    last_output = last_line(stderr) or last_line(junk)
    text = stderr[-4096:].decode("utf-8", "replace").lower()
    quoted = f" ({last_output})" if last_output else ""
    absent = exit_status == 127 or "not found" in text or "no such file" in text
    if become == "sudo" and absent and not re.search(r"^sudo: ", text, re.MULTILINE):
        return _missing(
            name, f"sudo is not installed there{quoted}: install it, or log in as root and remove `become: sudo`"
        )
    if become == "sudo" and re.search(r"password is required|terminal is required|askpass|conversation failed", text):
        return _missing(name, f"sudo wants a password from {user}{quoted}; {_sudoers(user)}")
    if become == "sudo" and re.search(r"sudoers|not allowed to|may not run", text):
        return _missing(name, f"sudo does not let {user} in{quoted}; {_sudoers(user)}")
    if absent and not text.lstrip().startswith("traceback"):
        return _missing(name, f"{python} is not installed there{quoted}: {_WHOLE_PYTHON}")
    if exit_status == 126:
        return _missing(name, f"{python} cannot be run there{quoted}: set another `python:` in hosts.yaml")
    status = "" if exit_status is None else f" (exit status {exit_status})"
    return NodeUnreachable(
        name,
        f"the agent did not start{status}" + (f": {last_output}" if last_output else " without a message"),
        operation="connect",
    )


def too_old(name: str, python: str, answer: str) -> NodeError | None:
    """The error for a Python that is too old for the agent, by version_command's output, or None."""
    found = _VERSION.search(answer)
    if found is None or (int(found[1]), int(found[2])) >= MIN_PYTHON:
        return None
    wanted = ".".join(map(str, MIN_PYTHON))
    return _missing(
        name,
        f"{python} there is Python {found[0]}, which is too old; {wanted} or newer is needed: set `python:` in "
        f"hosts.yaml",
    )


def lacks_library(name: str, python: str, stderr: bytes) -> NodeError | None:
    """The error for a Python of a sufficient version that lacks a part of its standard library, or None."""
    lacking = _LACKING.search(last_line(stderr))
    if lacking is None:
        return None
    return _missing(name, f"{python} there lacks {lacking[1]} of the standard library: {_WHOLE_PYTHON}")


def _sudoers(user: str) -> str:
    return f"allow it in a file created by `visudo -f /etc/sudoers.d/labconsole`: {user} ALL=(root) NOPASSWD: ALL"


def _missing(name: str, text: str) -> NodeError:
    return CapabilityMissing(name, text, operation="connect")


# -- the link ----------------------------------------------------------------------------------------------------------
# One node: an SSH session with a running agent. ``connect`` opens it; the engine uses it as ``NodeLink``.

log = logging.getLogger("labconsole.nodes")
# Without a handler, Python would print warnings into the console's screen.
log.addHandler(logging.NullHandler())

CLOSE_S = 2.0
PINGS = 5
PROBE_S = 5.0
BEAT_S = 2.5
SILENCE_S = 10.0
"""The agent gives up after this time without a line from the console. A line is sent every BEAT_S, also in a quiet
window, where SSH's own keep-alive sends more anyway."""

MAX_NOTES = 10
"""Maximum number of oddities logged per link, since a node could send thousands."""


class NodeLink:
    """See labconsole.contracts.ports.AgentLink. Owns the connection and no task.

    ``unknown_replies`` counts answers without a pending request (mostly late ones), ``unknown_events`` events of an
    unknown kind.
    """

    def __init__(
        self,
        name: str,
        dialled: SshConnection,
        channel: asyncssh.SSHClientChannel[bytes],
        session: AgentSession,
        on_event: OnAgentEvent,
    ) -> None:
        self.name = name
        self.hello = session.hello.result()
        self.round_trip_s = 0.0
        self.clock_offset_ns = 0
        self.monotonic_offset_ns = 0
        self.clock_error_ns = 0
        self.unknown_replies = 0
        self.unknown_events = 0
        self._dialled = dialled
        self._channel = channel
        self._session = session
        self._on_event = on_event
        self._pending: dict[int, tuple[str, Check, asyncio.Future[Any]]] = {}
        self._last_id = self._beat_id = 0
        self._awaited = 0
        self._closing = False
        self._notes = 0
        self._beat_timer: asyncio.TimerHandle | None = None
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        session.ended.add_done_callback(self._on_ended)
        session.listen(self._receive)

    @property
    def awaits_answer(self) -> bool:
        """Whether an answer is pending; answers to heartbeats do not count."""
        return self._awaited > 0

    async def ask(self, request: Request[R], *, timeout_s: float = 30.0) -> R:
        """Send a request to the agent. Raises AgentError (refused) or NodeLost (gone, or no answer in time).

        An answer of the wrong class ends the link; NodeLost then says what was wrong.
        """
        op = request.op
        if self._closing and op != Close.op:
            raise NodeLost(self.name, "the link was closed", operation=op)
        if self._session.ended.done():
            raise NodeLost(self.name, self._session.ended.result(), operation=op)
        self._last_id += 1
        number = self._last_id
        line = encode({"id": number, "op": op, "args": request.arguments()})
        if len(line) > MAX_LINE_BYTES:
            raise AgentError(self.name, f"{op} is too long to send", code="bad_request", operation=op)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[number] = (op, request.reply.parse, answer)
        self._awaited += 1
        try:
            self._write(line, op)
            async with asyncio.timeout(timeout_s):
                reply: R | Refusal = await answer
        except TimeoutError as exc:
            raise NodeSilent(self.name, f"no answer to {op} within {timeout_s:g} s", operation=op) from exc
        except _Ended as exc:
            raise NodeLost(self.name, str(exc), operation=op) from None
        finally:
            self._awaited -= 1
            self._pending.pop(number, None)
        if isinstance(reply, Refusal):
            raise AgentError(self.name, reply.message, code=reply.code, operation=op, detail=reply.detail)
        if (misfit := request.misfit(reply)) is not None:
            raise AgentError(
                self.name, f"the answer to {op} does not match the request: {misfit}", code="internal", operation=op
            )
        return reply

    async def measure_clock(self) -> None:
        """Refresh round trip and clock offsets from the fastest of a few pings, which bounds the error most tightly."""
        best: int | None = None
        for _ in range(PINGS):
            wall_ns, sent_ns = time.time_ns(), time.monotonic_ns()
            clocks = await self.ask(Ping(), timeout_s=10.0)
            round_trip_ns = time.monotonic_ns() - sent_ns
            if best is None or round_trip_ns < best:
                best = round_trip_ns
                # The node read its clocks within the round trip; the middle is wrong by at most half of it.
                half_ns = (round_trip_ns + 1) // 2
                self.round_trip_s = round_trip_ns / 1e9
                self.clock_error_ns = half_ns
                self.monotonic_offset_ns = clocks.monotonic_ns - (sent_ns + half_ns)
                self.clock_offset_ns = clocks.wall_ns - (wall_ns + half_ns)

    async def keep_alive(self) -> None:
        """Let the agent end when the console falls silent: after a pulled cable, stdin stays open for hours."""
        await self.ask(Watchdog(silence_s=SILENCE_S))
        self._schedule_beat()

    def _schedule_beat(self) -> None:
        self._beat_timer = asyncio.get_running_loop().call_later(BEAT_S, self._beat)

    def _beat(self) -> None:
        """Send a heartbeat; its answer is discarded. One without an answer is forgotten at the next."""
        if self._closing or self._session.ended.done():
            return
        self._pending.pop(self._beat_id, None)
        self._last_id += 1
        number = self._beat_id = self._last_id
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: (self._pending.pop(number, None), done.cancelled() or done.exception()))
        self._pending[number] = (Ping.op, Ping.reply.parse, answer)
        try:
            self._write(encode({"id": number, "op": Ping.op, "args": {}}), Ping.op)
        except NodeLost:
            answer.cancel()
            return  # the end of the session is reported anyway
        self._schedule_beat()

    async def close(self) -> None:
        """End the agent, which undoes everything, then the connection. Each step is bounded; the last one is abort."""
        if self._closing:
            return
        self._closing = True
        if self._beat_timer is not None:
            self._beat_timer.cancel()
        try:
            if not self._session.ended.done():
                await self._say_goodbye()
            await self._dialled.close()
        finally:
            self._dialled.abort()
            self._session.end("the link was closed")

    async def wait_lost(self) -> str:
        """Return why the link was lost. Never returns once close() was called."""
        return await asyncio.shield(self._lost)

    async def _say_goodbye(self) -> None:
        try:
            reply = await self.ask(Close(), timeout_s=CLOSE_S)
            for failed in reply.failed:
                log.warning("%s: not undone: %s", self.name, failed)
            self._channel.write_eof()
            async with asyncio.timeout(CLOSE_S):
                await asyncio.shield(self._session.ended)
        except NodeError as exc:
            log.debug("%s: closing: %s", self.name, exc.message)
        except (TimeoutError, OSError, asyncssh.Error) as exc:
            log.debug("%s: closing: the agent did not end in time (%s)", self.name, clean(exc))

    def _write(self, line: bytes, op: str) -> None:
        try:
            self._channel.write(line)
        except OSError as exc:  # asyncssh: the channel is no longer open for sending
            raise NodeLost(self.name, "the connection was lost", operation=op) from exc

    def _receive(self, message: dict[str, Any]) -> None:
        """Handle one message of the agent. A WireError, for a violation of the protocol, ends the session."""
        if "event" in message:
            event = read_event(message)
            if event is None:
                self.unknown_events += 1
                self._note("an event of an unknown kind: %s", message["event"])
                return
            if self._closing:
                return
            try:
                self._on_event(self.name, event)
            except Exception:
                log.exception("%s: a listener failed on an event %s", self.name, event.kind)
            return
        number = message.get("id")
        pending = self._pending.get(number) if type(number) is int else None
        if pending is None or pending[-1].done():
            self.unknown_replies += 1
            self._note("an unexpected answer: %s", number)
            return
        op, check, answer = pending
        answer.set_result(read_reply(op, check, message))

    def _note(self, text: str, value: object) -> None:
        self._notes += 1
        if self._notes <= MAX_NOTES:
            log.debug("%s: " + text, self.name, clean(value, 100))

    def _on_ended(self, ended: asyncio.Future[str]) -> None:
        reason = ended.result()
        for _, _, answer in list(self._pending.values()):
            if not answer.done():
                answer.set_exception(_Ended(reason))
        if not self._closing:
            log.warning("%s: lost: %s", self.name, reason)
            if not self._lost.done():
                self._lost.set_result(reason)
            # A remaining agent sees its stdin end with the connection, and undoes everything.
            self._dialled.abort()


class _Ended(Exception):
    """Raised in callers that wait for an answer when the session ends."""


async def connect(name: str, inventory: Inventory, on_event: OnAgentEvent) -> NodeLink:
    """Log in to a node, start its agent and compare clocks.

    Raises NodeUnreachable or CapabilityMissing with the remedy. If cancelled, it leaves nothing open.
    """
    route = await asyncio.to_thread(find_route, name, inventory)
    dialled = await dial(name, inventory, route)
    try:
        async with STARTS.one():
            channel, session = await _start(name, inventory, dialled, route[-1].user)
            link = NodeLink(name, dialled, channel, session, on_event)
            try:
                await link.measure_clock()
                await link.keep_alive()
            except NodeLost as exc:
                text = f"the agent started, then: {exc.message}"
                lacking = lacks_library(name, inventory.nodes[name].python, bytes(session.stderr))
                raise lacking or NodeUnreachable(name, text, operation="connect") from exc
    except BaseException:
        dialled.abort()
        raise
    return link


def program(python: str, become: str | None) -> tuple[str, bytes]:
    """The command line that starts an agent, and the first data for its stdin."""
    from labconsole.nodes.archive import launch_command, payload

    return launch_command(python, become), payload()


async def _start(
    name: str, inventory: Inventory, dialled: SshConnection, user: str
) -> tuple[asyncssh.SSHClientChannel[bytes], AgentSession]:
    node, timeout_s = inventory.nodes[name], inventory.defaults.connect_timeout_s
    command, data = await asyncio.to_thread(program, node.python, node.become)
    session = AgentSession(name)
    try:
        async with asyncio.timeout(timeout_s):
            channel, _ = await dialled.connection.create_session(
                lambda: session, command, encoding=None, request_pty=False
            )
            # A command that ends at once may have closed the channel already; its exit says more than this error.
            with suppress(BrokenPipeError):
                channel.write(data)
            either: tuple[asyncio.Future[Any], ...] = (session.hello, session.ended)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError as exc:
        heard = last_line(session.stderr) or last_line(session.junk)
        text = f"no agent after {timeout_s:g} s: is the login shell of {user} waiting for input?"
        raise NodeUnreachable(name, text + (f" ({heard})" if heard else ""), operation="connect") from exc
    except (asyncssh.Error, OSError) as exc:
        if not session.ended.done():
            text = f"the SSH server refuses to run a command ({clean(exc, 200)})"
            raise NodeUnreachable(name, text, operation="connect") from exc
    if session.hello.done() and not session.hello.cancelled():
        return channel, session
    raise await _build_start_error(name, inventory, dialled, session, user)


async def _build_start_error(
    name: str, inventory: Inventory, dialled: SshConnection, session: AgentSession, user: str
) -> NodeError:
    node = inventory.nodes[name]
    if session.exit_status is None:
        return NodeUnreachable(name, f"no agent: {session.ended.result()}", operation="connect")
    if session.refusal is not None:
        hint = "set another `python:` in hosts.yaml"
        return CapabilityMissing(name, f"{session.refusal}: {hint}", operation="connect")
    error = explain(
        name,
        user=user,
        python=node.python,
        become=node.become,
        exit_status=session.exit_status,
        stderr=bytes(session.stderr),
        junk=bytes(session.junk),
    )
    if not isinstance(error, NodeUnreachable):
        return error
    output = OutputTail()
    try:
        async with asyncio.timeout(PROBE_S):
            channel, _ = await dialled.connection.create_session(
                lambda: output, version_command(node.python, node.become), encoding=None, request_pty=False
            )
            channel.write_eof()
            await output.ended
    except (TimeoutError, OSError, asyncssh.Error) as exc:
        log.debug("%s: cannot ask for the version of Python: %s", name, clean(exc))
        return error
    lacking = lacks_library(name, node.python, bytes(session.stderr))
    return too_old(name, node.python, output.text) or lacking or error
