"""The requests to each node, in a bounded ring per node, recorded at the one place that every request passes.

Heartbeats and clock pings are not recorded: the link itself sends them below this layer, and they would bury the rest.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from labconsole.contracts.ports import AgentLink
from labconsole.errors import LabError
from labconsole.wire.capture import CaptureStarted
from labconsole.wire.execution import Execute, Executed
from labconsole.wire.message import R, Request

KEPT = 500
"""Commands kept per node."""

MAX_CHARACTERS = 400
"""Characters kept of a command's arguments."""


@dataclass(slots=True)
class LoggedRequest:
    """One request to a node. ``outcome`` is "" until it has ended, then "ok" or the problem.

    ``argv`` is True if ``words`` is the command line of a program that ran on the node.
    """

    number: int
    at_wall_s: float
    op: str
    words: str
    argv: bool = False
    took_s: float | None = None
    outcome: str = ""

    @property
    def failed(self) -> bool:
        return self.outcome not in ("", "ok")


class CommandHistory:
    """The newest commands of one node, oldest first. ``total`` counts all commands so far."""

    def __init__(self) -> None:
        self.commands: deque[LoggedRequest] = deque(maxlen=KEPT)
        self.total = 0
        self.revision = 0

    def begin(self, request: Request[Any]) -> LoggedRequest:
        """Record the beginning of a request."""
        return self._begin(request.op, *summarize_request(request))

    def _begin(self, op: str, text: str, argv: bool = False) -> LoggedRequest:
        self.total += 1
        self.revision += 1
        command = LoggedRequest(self.total, time.time(), op, text, argv)
        self.commands.append(command)
        return command

    def end(self, command: LoggedRequest, outcome: str, took_s: float) -> None:
        """Record the end of a request: answered, refused, or given up because the node is gone."""
        command.outcome, command.took_s = outcome, took_s
        self.revision += 1

    def tried_to_connect(self, address: str, outcome: str, took_s: float) -> None:
        """Record an attempt to connect. A repeated failure replaces the last one: a node may be off for days."""
        last = self.commands[-1] if self.commands else None
        if last is None or (last.op, last.outcome) != ("connect", outcome):
            last = self._begin("connect", f"address={address}"[:MAX_CHARACTERS])
        last.at_wall_s = time.time() - took_s
        self.end(last, outcome, took_s)


def summarize_request(request: Request[Any]) -> tuple[str, bool]:
    """The request in one line, and whether that is a program's command line."""
    if isinstance(request, Execute):
        return shlex.join(request.argv)[:MAX_CHARACTERS], True
    parts = []
    for key, value in request.arguments().items():
        text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), default=str)
        parts.append(f"{key}={text}")
    return " ".join(parts)[:MAX_CHARACTERS], False


class RecordedLink:
    """An AgentLink that records every request."""

    def __init__(self, link: AgentLink, history: CommandHistory) -> None:
        self._link, self._history = link, history
        self.name = link.name
        self.hello = link.hello

    @property
    def round_trip_s(self) -> float:
        return self._link.round_trip_s

    @property
    def clock_offset_ns(self) -> int:
        return self._link.clock_offset_ns

    @property
    def monotonic_offset_ns(self) -> int:
        return self._link.monotonic_offset_ns

    @property
    def clock_error_ns(self) -> int:
        return self._link.clock_error_ns

    @property
    def awaits_answer(self) -> bool:
        return self._link.awaits_answer

    async def ask(self, request: Request[R], *, timeout_s: float = 30.0) -> R:
        """Send a request to the agent; see AgentLink."""
        command = self._history.begin(request)
        began = time.monotonic()
        outcome = "ended by an internal error"
        try:
            answer: R = await self._link.ask(request, timeout_s=timeout_s)
            outcome = "ok"
        except LabError as exc:
            outcome = str(getattr(exc, "message", exc))
            raise
        except asyncio.CancelledError:
            outcome = "given up before it was answered"
            raise
        finally:
            self._history.end(command, outcome, time.monotonic() - began)
        if isinstance(answer, CaptureStarted):  # the command line that the agent ran for it
            command.words, command.argv = shlex.join(answer.argv)[:MAX_CHARACTERS], True
        elif isinstance(answer, Executed) and answer.exit_status:
            command.outcome = f"exit status {answer.exit_status}"
        return answer

    async def measure_clock(self) -> None:
        await self._link.measure_clock()

    async def close(self) -> None:
        await self._link.close()

    async def wait_lost(self) -> str:
        return await self._link.wait_lost()
