"""The agent: reads requests line by line, runs them concurrently, and undoes everything when its stdin ends.

There is one way out (``_shut_down``) for the end of stdin, the request ``close``, a signal and a console that no longer
reads. It is bounded twice: an alarm kills the process if it hangs, and the keeper does the rest then.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import traceback
from typing import Any, Dict, List, Optional, Set

from labconsole.agent.keeper import ENDING, UndoJournal
from labconsole.agent.operations import find_operations, handles
from labconsole.agent.parts import Parts
from labconsole.agent.pipes import Inlet, Outlet
from labconsole.wire import codec
from labconsole.wire.codec import WireError
from labconsole.wire.message import Done
from labconsole.wire.session import Clocks, Close, OnlyWatch, Ping, Undone, Watchdog

ALARM_S = 1.1
"""After this a hanging shutdown is killed; the keeper then has the rest of the two seconds."""
FLUSH_S = 0.2


class Agent:
    """One session with one console."""

    def __init__(self, journal: UndoJournal) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._outlet = Outlet(1, self._end)
        self._parts = Parts(journal, self._outlet, self.notice, self._bug, self._watch_state)
        self._tasks: Set["asyncio.Task[None]"] = set()
        self._last_line_s = self._loop.time()
        self._silence: Optional[asyncio.TimerHandle] = None
        for number in ENDING:
            self._loop.add_signal_handler(number, self._end)
        self._loop.set_exception_handler(self._unhandled)
        self._inlet = Inlet(0, self._line, self._line_too_long, self._end)
        self._parts.operations.update(find_operations(self))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)

    async def run(self) -> None:
        """Serve until the end, then leave nothing behind."""
        self._loop.run_in_executor(None, _sweep)
        await self._ended.wait()
        await self._shut_down()

    def notice(self, code: str, message: str) -> None:
        self._outlet.send({"event": "notice", "code": code, "message": message})

    # -- requests -------------------------------------------------------------------------------------------------

    def _line(self, line: bytes) -> None:
        self._last_line_s = self._loop.time()
        if self._ended.is_set():
            return
        try:
            request = codec.decode(line)
        except WireError as exc:
            self.notice(exc.code, exc.message)
            return
        number = request.get("id")
        if not isinstance(number, int) or isinstance(number, bool):
            self.notice("bad_line", "a request has no valid number: id must be an integer")
            return
        if request.get("op") == Close.op:
            self._start(self._close(number))
            return
        self._start(self._answer(number, request.get("op"), request.get("args")))

    def _line_too_long(self) -> None:
        self.notice("bad_line", "a line is longer than %d bytes" % codec.MAX_LINE_BYTES)

    def _start(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, number: int, op: Any, args: Any) -> None:
        reply: Dict[str, Any]
        try:
            operation = self._parts.operation(op) if isinstance(op, str) else None
            if operation is None:
                raise WireError("no_such_op", "%r is not an operation of this agent" % (op,))
            if args is None:
                args = {}
            if not isinstance(args, dict):
                raise WireError("bad_request", "args must be an object, got %s" % type(args).__name__)
            if self._parts.only_watches and not operation.request.watches:
                raise WireError(
                    "only_watches", "this console only watches (--read-only), and %s is more than that" % op
                )
            for leasing in self._parts.made("leasing"):
                leasing.refuse_if_lost(op)
            reply = {"id": number, "ok": await operation(args)}
        except WireError as exc:
            error: Dict[str, Any] = {"code": exc.code, "message": exc.message}
            if exc.detail is not None:
                error["detail"] = exc.detail
            reply = {"id": number, "error": error}
        except asyncio.CancelledError:
            reply = {"id": number, "error": {"code": "closing", "message": "the agent is closing down"}}
        except Exception as exc:  # noqa: BLE001 - a bug here must reach the console as a reply, not end the session
            message = self._bug("%s failed" % op, exc)
            reply = {"id": number, "error": {"code": "internal", "message": message}}
        self._outlet.send(reply)

    def _bug(self, what: str, exc: BaseException) -> str:
        message = "%s: %s: %s" % (what, type(exc).__name__, exc)
        if os.environ.get("LABCONSOLE_AGENT_DEBUG"):
            traceback.print_exception(type(exc), exc, exc.__traceback__, file=sys.stderr)
        self.notice("internal", message)
        return message

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: Dict[str, Any]) -> None:
        exc = context.get("exception")
        if isinstance(exc, WireError):
            return  # already reported, by an event
        self._bug(str(context.get("message")), exc if exc is not None else RuntimeError("unknown"))

    @handles(Ping)
    async def ping(self, request: Ping) -> Clocks:
        return Clocks(monotonic_ns=time.monotonic_ns(), wall_ns=time.time_ns())

    @handles(Watchdog)
    async def watchdog(self, request: Watchdog) -> Done:
        """End as if stdin had ended after this long without a line: a pulled cable does not end stdin for hours."""
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
        if request.silence_s is not None:
            self._watch_silence(request.silence_s)
        return Done()

    @handles(OnlyWatch)
    async def only_watch(self, request: OnlyWatch) -> Done:
        self._parts.only_watches = True
        return Done()

    def _watch_state(self) -> Dict[str, Any]:
        heard_s = None if self._silence is None else round(self._loop.time() - self._last_line_s, 3)
        return {"armed": self._silence is not None, "heard_before_s": heard_s}

    def _watch_silence(self, silence_s: float) -> None:
        left_s = self._last_line_s + silence_s - self._loop.time()
        if left_s <= 0:
            self._end()
        else:
            self._silence = self._loop.call_later(left_s, self._watch_silence, silence_s)

    # -- the end --------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        self._ended.set()

    async def _close(self, number: int) -> None:
        signal.setitimer(signal.ITIMER_REAL, ALARM_S + FLUSH_S)
        failed = await self._clean_up()
        self._outlet.send({"id": number, "ok": Undone(failed=failed).to_wire()})
        self._end()

    async def _shut_down(self) -> None:
        # The default action of SIGALRM ends the process without Python's help, however it may hang.
        signal.setitimer(signal.ITIMER_REAL, ALARM_S)
        self._inlet.close()
        await self._clean_up()
        try:
            await asyncio.wait_for(self._outlet.drained(), FLUSH_S)
        except asyncio.TimeoutError:
            return  # the console does not read; the alarm's time is better spent on ending

    async def _clean_up(self) -> List[str]:
        self._parts.stop()
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()
        return await self._parts.undo()


def _sweep() -> None:
    """Import and sweep in a thread: a disk that hangs must not keep the console waiting."""
    from labconsole.agent import capture_dir

    capture_dir.sweep(capture_dir.default_directory())


async def serve(journal: UndoJournal) -> None:
    """Serve one session and end the process: worker threads that hang (a dead disk) must not keep it."""
    await Agent(journal).run()
    os._exit(0)
