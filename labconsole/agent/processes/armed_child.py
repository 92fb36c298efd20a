"""A forked child that gets ready, waits for the instant to begin, works, and never outlives the agent.

Its readiness, its failure to get ready and its end are all reported through one pipe: only the child has the writing
end, so the end of file is its death, whatever killed it, and no signal handler or kernel feature is needed to notice
it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import time
from typing import Any, Callable, Optional

from labconsole.agent.processes import children
from labconsole.wire.codec import WireError

READY_LIMIT_S = 10.0
NAP_NS = 20_000_000
"""The longest sleep in one piece, so that a request to stop is seen within this time."""

_GO = struct.Struct("=q")
_AT_ONCE = -1


class ChildSide:
    """The child's side: it reports once that it is ready (or why not), then waits for the start."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing

    def ready(self) -> None:
        os.write(self._writing, b"{}\n")

    def failed(self, code: str, message: str) -> None:
        os.write(self._writing, json.dumps({"code": code, "message": message}).encode("ascii") + b"\n")

    def wait_word(self) -> Optional[int]:
        """Return the instant to begin at on CLOCK_MONOTONIC, or None for at once. Ends the process if there is no
        start.
        """
        word = os.read(self._reading, _GO.size)
        if len(word) != _GO.size:
            os._exit(0)
        (at_ns,) = _GO.unpack(word)
        return None if at_ns == _AT_ONCE else int(at_ns)


def sleep_until(instant_ns: int, stopped: Callable[[], bool]) -> bool:
    """Sleep until ``instant_ns`` (CLOCK_MONOTONIC), in short pieces. Returns False if stopped before."""
    while True:
        if stopped():
            return False
        rest_ns = instant_ns - time.monotonic_ns()
        if rest_ns <= 0:
            return True
        time.sleep(min(rest_ns, NAP_NS) / 1e9)


class ArmedChild:
    """The agent's handle on one such child. Made on the main thread: the kernel ties the child's life to it."""

    def __init__(self, work: Callable[[ChildSide], None]) -> None:
        word_reading, self._word = os.pipe()
        self._news, news_writing = os.pipe()
        side = ChildSide(word_reading, news_writing)
        self.pid = children.fork(lambda: work(side), keep=(word_reading, news_writing))
        os.close(word_reading)
        os.close(news_writing)
        os.set_blocking(self._news, False)
        self._buffer = b""
        self._alive = True
        self._loop = asyncio.get_running_loop()
        self._first: "asyncio.Future[bytes]" = self._loop.create_future()
        self._end: "asyncio.Future[None]" = self._loop.create_future()
        self._loop.add_reader(self._news, self._hear)

    def _hear(self) -> None:
        try:
            data = os.read(self._news, 65536)
        except BlockingIOError:
            return
        self._buffer += data
        if not self._first.done() and (b"\n" in self._buffer or not data):
            self._first.set_result(self._buffer.partition(b"\n")[0])
        if not data:
            self._reap()

    @property
    def last_words(self) -> Optional[str]:
        """Return the child's error after it was ready, a sentence, or None."""
        lines = self._buffer.split(b"\n")[1:-1]
        return str(json.loads(lines[-1])["message"]) if lines else None

    def _reap(self) -> None:
        self._loop.remove_reader(self._news)
        os.close(self._news)
        os.close(self._word)
        try:
            # Files are closed late in a process's end: this waits for microseconds.
            os.waitpid(self.pid, 0)
        except ChildProcessError:  # another waiter has reaped it
            pass
        self._alive = False
        self._end.set_result(None)

    @property
    def alive(self) -> bool:
        return self._alive

    async def wait_ready(self) -> None:
        """Wait until the child is ready. Raises WireError with the child's own sentence if it failed."""
        done, _ = await asyncio.wait([self._first], timeout=READY_LIMIT_S)
        if not done:
            raise WireError("generator_failed", "the sending process was not ready after %g s" % READY_LIMIT_S)
        line = self._first.result()
        news: Any = json.loads(line) if line else None
        if news is None:
            raise WireError("generator_failed", "the sending process died before it was ready")
        if news:
            raise WireError(news["code"], news["message"])

    def give_word(self, at_monotonic_ns: Optional[int]) -> None:
        if self._alive:
            try:
                os.write(self._word, _GO.pack(_AT_ONCE if at_monotonic_ns is None else at_monotonic_ns))
            except BrokenPipeError:  # it died, which its end of file reports
                pass

    async def wait_end(self) -> None:
        await asyncio.wait([self._end])

    def signal(self, number: int) -> None:
        """Send a signal. The process is not reaped before ``alive`` turns False, so the id cannot be another's."""
        if self._alive:
            os.kill(self.pid, number)

    async def close(self) -> None:
        """Make sure that the child is gone."""
        self.signal(signal.SIGKILL)
        await self.wait_end()
