"""The agent: takes requests line by line, runs them side by side, and undoes everything when its stdin ends.

There is one way out (``_shut_down``) for the end of stdin, the request ``close``, a signal and a console that does not
read any more. It is bounded twice: an alarm kills the process if it hangs, and the keeper does what is left then.
"""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import sys
import time
import traceback
from typing import Any, Dict, List, Optional, Set

from labconsole.agent import spool
from labconsole.agent.keeper import UndoJournal
from labconsole.agent.operations.answering import answers, operations_of
from labconsole.agent.operations.capturing import Captures
from labconsole.agent.operations.checking import Checking
from labconsole.agent.operations.counting import Counting
from labconsole.agent.operations.execute import Executor
from labconsole.agent.operations.generating import Generating
from labconsole.agent.operations.guests import Guests
from labconsole.agent.operations.leasing import Leasing
from labconsole.agent.operations.marking import Marking
from labconsole.agent.operations.network import NetworkChanges
from labconsole.agent.operations.queues import SharedQueues
from labconsole.agent.operations.reading import Reading
from labconsole.agent.operations.stopping import Stopping
from labconsole.agent.operations.timing import Timing
from labconsole.agent.operations.tracing import Tracing
from labconsole.agent.pipes import Inlet, Outlet
from labconsole.agent.processes.namespaces import Namespaces
from labconsole.agent.reading.counters import Counters
from labconsole.agent.reading.links import Links
from labconsole.wire import codec
from labconsole.wire.codec import WireError
from labconsole.wire.generator import StopGenerator
from labconsole.wire.message import Done
from labconsole.wire.session import Clocks, Close, OnlyWatch, Ping, Undone, Watchdog
from labconsole.wire.survey import WatchdogState
from labconsole.wire.version import __version__

ALARM_S = 1.1
"""After this a hanging shutdown is killed; the keeper then has the rest of the two seconds."""
FLUSH_S = 0.2


def hello() -> Dict[str, Any]:
    uname = os.uname()
    return {
        "event": "hello",
        "protocol": codec.PROTOCOL,
        "version": __version__,
        "python": platform.python_version(),
        "pid": os.getpid(),
        "euid": os.geteuid(),
        "hostname": uname.nodename,
        "kernel": uname.release,
        **clocks(),
    }


def clocks() -> Dict[str, int]:
    return {"monotonic_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}


class Agent:
    """One session with one console."""

    def __init__(self, journal: UndoJournal) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._journal = journal
        self._outlet = Outlet(1, self._end)
        self._outlet.send(hello())
        self._namespaces = Namespaces(self._namespace_died)
        enter = self._namespaces.to_enter
        self._changes = NetworkChanges(
            journal, self._namespaces, self._namespaces_changed, together=lambda: self._links.held()
        )
        self._counters = Counters(self._namespaces, self._outlet, self.notice)
        self._counting = Counting(self._counters, self._outlet.send, lambda quiet: self._leasing.mark_quiet(quiet))
        self._links = Links(self._namespaces, self._counting.links_changed)
        self._reading = Reading(self._namespaces, self._links)
        self._queues = SharedQueues(self._outlet.offer)
        self._captures = Captures(journal, self._outlet.send, enter)
        self._marking = Marking(self._namespaces, self._outlet.offer)
        self._tracing = Tracing(self._namespaces)
        self._timing = Timing(journal)
        self._executor = Executor(enter)
        self._guests = Guests(self._outlet.send, enter)
        self._stopping = Stopping(journal)
        self._checking = Checking(self._reading, self._watch_state)
        self._generating = Generating(journal, self._outlet.send, self._outlet.offer, time.monotonic_ns)
        self._leasing = Leasing(
            self._outlet.send,
            stop_traffic=self._stop_traffic,
            undo=self._undo_for_another,
            give_up=self._give_up,
            keep_still=self._counting.keep_still,
        )
        self._tasks: Set["asyncio.Task[None]"] = set()
        self._last_line_s = self._loop.time()
        self._silence: Optional[asyncio.TimerHandle] = None
        self._failed: List[str] = []
        self._only_watches = False
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            self._loop.add_signal_handler(number, self._end)
        self._loop.set_exception_handler(self._unhandled)
        self._inlet = Inlet(0, self._line, self._line_too_long, self._end)
        self._operations = operations_of((
            self, self._reading, self._counting, self._checking, self._leasing, self._generating, self._captures,
            self._marking, self._tracing, self._timing, self._changes, self._queues, self._guests, self._stopping,
            self._executor,
        ))  # fmt: skip

    async def run(self) -> None:
        """Serve until the end, then leave nothing behind."""
        # In a thread: a disk that hangs must not keep the console waiting.
        self._loop.run_in_executor(None, spool.sweep, spool.default_directory())
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
            operation = self._operations.get(op) if isinstance(op, str) else None
            if operation is None:
                raise WireError("no_such_op", "%r is not an operation of this agent" % (op,))
            if args is None:
                args = {}
            if not isinstance(args, dict):
                raise WireError("bad_request", "args must be an object, got %s" % type(args).__name__)
            if self._only_watches and not operation.request.watches:
                raise WireError(
                    "only_watches", "this console only watches (--read-only), and %s is more than that" % op
                )
            self._leasing.refuse_if_lost(str(op))
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
            return  # told already, by an event
        self._bug(str(context.get("message")), exc if exc is not None else RuntimeError("unknown"))

    @answers(Ping)
    async def ping(self, request: Ping) -> Clocks:
        return Clocks(**clocks())

    @answers(Watchdog)
    async def watchdog(self, request: Watchdog) -> Done:
        """End as if stdin had ended when no line came for so long: a pulled cable ends no stdin for hours."""
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
        if request.silence_s is not None:
            self._watch_silence(request.silence_s)
        return Done()

    @answers(OnlyWatch)
    async def only_watch(self, request: OnlyWatch) -> Done:
        self._only_watches = self._leasing.only_watches = True
        return Done()

    def _watch_state(self) -> WatchdogState:
        heard_s = None if self._silence is None else round(self._loop.time() - self._last_line_s, 3)
        return WatchdogState(armed=self._silence is not None, heard_before_s=heard_s)

    def _watch_silence(self, silence_s: float) -> None:
        left_s = self._last_line_s + silence_s - self._loop.time()
        if left_s <= 0:
            self._end()
        else:
            self._silence = self._loop.call_later(left_s, self._watch_silence, silence_s)

    # -- what happens by itself -----------------------------------------------------------------------------------

    def _namespaces_changed(self, leaving: Optional[str]) -> None:
        self._counters.follow_namespaces(leaving)
        self._links.follow_namespaces(leaving)
        self._marking.follow_namespaces(leaving)

    def _namespace_died(self, name: str) -> None:
        self._namespaces_changed(name)
        self.notice("namespace_gone", "the guest in namespace %s is gone: its process was killed" % name)

    async def _stop_traffic(self) -> None:
        try:
            await self._generating.stop(StopGenerator())
        except WireError as exc:
            if exc.code != "not_prepared":
                self.notice(exc.code, exc.message)

    def _give_up(self) -> None:
        self._changes.give_up()
        self._stopping.stop_for_another()

    async def _undo_for_another(self) -> None:
        self._reading.close()
        self._marking.close()
        self._tracing.close()
        self._timing.close()
        self._guests.kill_all()
        self._stopping.stop_for_another()
        for what, step in (("stopping the generator", self._generating.abandon), ("undoing changes", self._undo)):
            try:
                await step()
            except Exception as exc:  # noqa: BLE001 - whatever fails, the node is not ours any more
                self._bug(what, exc)

    # -- the end --------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        self._ended.set()

    async def _close(self, number: int) -> None:
        signal.setitimer(signal.ITIMER_REAL, ALARM_S + FLUSH_S)
        await self._clean_up()
        self._outlet.send({"id": number, "ok": Undone(failed=self._failed).to_wire()})
        self._end()

    async def _shut_down(self) -> None:
        # The default action of SIGALRM ends the process without Python's help, however it may hang.
        signal.setitimer(signal.ITIMER_REAL, ALARM_S)
        self._inlet.close()
        await self._clean_up()
        try:
            await asyncio.wait_for(self._outlet.drained(), FLUSH_S)
        except asyncio.TimeoutError:
            return  # nobody reads; the alarm's time is better spent on ending

    async def _clean_up(self) -> None:
        """Stop what runs, then undo what was changed, each step whatever became of the others."""
        self._counters.stop()
        self._checking.close()
        self._reading.close()
        self._marking.close()
        self._tracing.close()
        self._timing.close()
        self._captures.kill_all()
        self._executor.kill_all()
        self._guests.kill_all()
        self._stopping.close()
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()
        for what, step in (
            ("stopping the generator", self._generating.abandon),
            ("closing the captures", self._captures.close),
            ("undoing changes", self._undo),
        ):
            try:
                await step()
            except Exception as exc:  # noqa: BLE001 - one failed step must not keep the next from running
                self._failed.append(self._bug(what, exc))
        self._links.close()
        self._counters.close()
        self._leasing.close()

    async def _undo(self) -> None:
        self._failed += await self._changes.take_back(None)


async def serve(journal: UndoJournal) -> None:
    """Serve one session and end the process: worker threads that hang (a dead disk) must not keep it."""
    await Agent(journal).run()
    os._exit(0)
