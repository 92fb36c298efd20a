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
from typing import Any, Awaitable, Callable, Dict, List, Optional, Set

import labconsole
from labconsole.agent import spool, undo
from labconsole.agent.capture import Captures
from labconsole.agent.keeper import UndoJournal
from labconsole.agent.operations.checking import Checking
from labconsole.agent.operations.execute import Executor
from labconsole.agent.operations.generating import Generating
from labconsole.agent.operations.guests import Guests
from labconsole.agent.operations.leasing import Leasing
from labconsole.agent.operations.network import NetworkChanges
from labconsole.agent.pipes import Inlet, Outlet
from labconsole.agent.processes import linux
from labconsole.agent.processes.namespaces import Namespaces
from labconsole.agent.reading import facts
from labconsole.agent.reading.counters import Counters
from labconsole.agent.reading.foreign import PortTaps
from labconsole.agent.reading.links import Links
from labconsole.network import sysctl
from labconsole.wire import codec
from labconsole.wire.codec import WireError, field, names

ALARM_S = 1.1
"""After this a hanging shutdown is killed; the keeper then has the rest of the two seconds."""
FLUSH_S = 0.2
MAX_TIMEOUT_S = 86400.0

Args = Dict[str, Any]
Operation = Callable[[Args], Awaitable[Dict[str, Any]]]


def hello() -> Dict[str, Any]:
    uname = os.uname()
    return {
        "event": "hello",
        "protocol": codec.PROTOCOL,
        "version": labconsole.__version__,
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
        self._tuner = NetworkChanges(journal, self._namespaces, self._namespaces_changed)
        self._counters = Counters(self._namespaces, self._outlet, self.notice)
        self._links = Links(self._namespaces, self._links_changed)
        self._captures = Captures(journal, self._capture_died)
        self._foreign = PortTaps()
        self._executor = Executor()
        self._guests = Guests(self._outlet.send)
        self._checking = Checking(lambda work: self._in_namespace({}, work), self._watch_state)
        self._generating = Generating(journal, self._outlet.send, self._outlet.offer, time.monotonic_ns)
        self._leasing = Leasing(
            self._outlet.send,
            stop_traffic=self._stop_traffic,
            undo=self._undo_for_another,
            keep_still=self._keep_still,
        )
        self._others_window = False
        self._tasks: Set["asyncio.Task[None]"] = set()
        self._tcpdump: Optional["asyncio.Task[Optional[str]]"] = None
        self._surroundings: Any = None
        self._quiet = False
        self._held_links: Optional[List[Dict[str, Any]]] = None
        self._last_line_s = self._loop.time()
        self._silence: Optional[asyncio.TimerHandle] = None
        self._failed: List[str] = []
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            self._loop.add_signal_handler(number, self._end)
        self._loop.set_exception_handler(self._unhandled)
        self._inlet = Inlet(0, self._line, self._line_too_long, self._end)
        self._operations: Dict[str, Operation] = {
            "ping": self._ping,
            "facts": self._facts,
            "links": self._read_links,
            "settings": self._settings,
            **self._checking.operations(),
            "lease.take": self._leasing.take,
            "lease.read": self._leasing.read,
            "lease.watch": self._leasing.watch,
            "lease.release": self._leasing.release,
            "counters.read": self._counters_read,
            "counters.start": self._counters_start,
            "counters.stop": self._counters_stop,
            "counters.quiet": self._counters_quiet,
            "drops.read": self._drops_read,
            "surroundings": self._read_surroundings,
            "generator.prepare": self._generating.prepare,
            "generator.start": self._generating.start,
            "generator.wait": lambda args: self._generating.wait(),
            "generator.stop": lambda args: self._generating.stop(),
            "generator.close": lambda args: self._generating.close(),
            "capture.start": self._capture_start,
            "capture.drain": self._captures.drain,
            "capture.stop": self._captures.stop,
            "foreign.start": self._foreign.start,
            "foreign.stop": self._foreign.stop,
            "net.apply": self._net_apply,
            "net.undo": self._net_undo,
            "net.read": self._net_read,
            "guest.start": self._guest_start,
            "guest.ask": self._guests.ask,
            "guest.status": self._guests.status,
            "guest.stop": self._guests.stop,
            "process.usage": self._process_usage,
            "exec": self._exec,
            "watchdog": self._watchdog,
        }

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
        if request.get("op") == "close":
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

    async def _ping(self, args: Args) -> Dict[str, Any]:
        return dict(clocks())

    async def _facts(self, args: Args) -> Dict[str, Any]:
        return await facts.read()

    async def _read_links(self, args: Args) -> Dict[str, Any]:
        return {"links": await self._links.read()}

    async def _settings(self, args: Args) -> Dict[str, Any]:
        from labconsole.agent.reading import settings

        return await self._in_namespace(args, settings.read)

    def _watch_state(self) -> Dict[str, Any]:
        heard_s = None if self._silence is None else round(self._loop.time() - self._last_line_s, 3)
        return {"armed": self._silence is not None, "heard_before_s": heard_s}

    async def _in_namespace(self, args: Args, work: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
        """``work()`` beside the event loop, inside the namespace that the request names (the node's own)."""
        namespace = self._namespaces.require(field(args, "namespace", str, optional=True) or "")
        result: Dict[str, Any] = await self._loop.run_in_executor(None, linux.in_namespace, namespace, work)
        return result

    async def _counters_read(self, args: Args) -> Dict[str, Any]:
        return self._counters.read()

    async def _counters_start(self, args: Args) -> Dict[str, Any]:
        self._counters.start(field(args, "interval_s", float))
        return {}

    async def _counters_stop(self, args: Args) -> Dict[str, Any]:
        self._counters.stop()
        return {}

    async def _counters_quiet(self, args: Args) -> Dict[str, Any]:
        self._quiet = field(args, "on", bool)
        self._leasing.mark_quiet(self._quiet)
        if self._quiet:
            self._counters.quiet_on()
            return {"samples": 0, "missed": 0}
        sent = await self._counters.quiet_off()
        self._send_held_links()
        return dict(sent)

    def _send_held_links(self) -> None:
        if self._held_links is not None:
            self._outlet.send({"event": "links", "links": self._held_links})
            self._held_links = None

    async def _drops_read(self, args: Args) -> Dict[str, Any]:
        from labconsole.agent.reading import drops

        interfaces = names(args, "interfaces")
        return await drops.read(self._namespaces, interfaces)

    async def _read_surroundings(self, args: Args) -> Dict[str, Any]:
        if self._surroundings is None:
            from labconsole.agent.reading.surroundings import Surroundings

            self._surroundings = Surroundings()
        begin, own = field(args, "begin", bool), field(args, "own", list, optional=True) or []
        console = field(args, "console", dict, optional=True)
        if not all(type(pid) is int for pid in (*own, *([console.get("pid")] if console else []))):
            raise WireError("bad_request", "own must be a list of process ids, and the console's process id an integer")
        guests = names(args, "guests", optional=True)
        return dict(await self._loop.run_in_executor(None, self._surroundings.read, begin, guests, own, console))

    async def _capture_start(self, args: Args) -> Dict[str, Any]:
        namespaces = self._namespaces.to_enter(field(args, "namespace", str, optional=True) or "")
        return await self._captures.start(args, namespaces, self._tcpdump_version)

    async def _tcpdump_version(self) -> Optional[str]:
        """Asked once: it does not change while we run."""
        if self._tcpdump is None:
            self._tcpdump = self._loop.create_task(facts.tcpdump_version())
        return await self._tcpdump

    async def _net_apply(self, args: Args) -> Dict[str, Any]:
        await self._tuner.apply(field(args, "token", str), field(args, "changes", list))
        return {}

    async def _net_undo(self, args: Args) -> Dict[str, Any]:
        return {"failed": await self._tuner.undo(field(args, "token", str, optional=True))}

    async def _net_read(self, args: Args) -> Dict[str, Any]:
        sysctls = names(args, "sysctls", optional=True)
        routes, neighbours = (bool(field(args, key, bool, optional=True)) for key in ("routes", "neighbours"))

        def read() -> Dict[str, Any]:
            found: Dict[str, Any] = {"sysctls": sysctl.read_many(sysctls)}
            if routes:
                found["routes"] = undo.read_routes()
            if neighbours:
                found["neighbours"] = undo.read_neighbours()
            return found

        return await self._in_namespace(args, read)

    async def _guest_start(self, args: Args) -> Dict[str, Any]:
        namespaces = self._namespaces.to_enter(field(args, "namespace", str, optional=True) or "")
        return await self._guests.start(args, namespaces)

    async def _process_usage(self, args: Args) -> Dict[str, Any]:
        from labconsole.agent.operations import usage

        pids = field(args, "pids", list)
        result: Dict[str, Any] = await self._loop.run_in_executor(None, usage.read, pids)
        return result

    async def _exec(self, args: Args) -> Dict[str, Any]:
        timeout_s = field(args, "timeout_s", float)
        if not 0 < timeout_s <= MAX_TIMEOUT_S:
            message = "timeout_s must be above 0 and at most %d, got %g" % (MAX_TIMEOUT_S, timeout_s)
            raise WireError("bad_request", message)
        namespaces = self._namespaces.to_enter(field(args, "namespace", str, optional=True) or "")
        stdin = field(args, "stdin", str, optional=True, free=True)
        return await self._executor.run(field(args, "argv", list), timeout_s, stdin, namespaces)

    async def _watchdog(self, args: Args) -> Dict[str, Any]:
        """End as if stdin had ended when no line came for ``silence_s``: a pulled cable ends no stdin for hours."""
        silence_s = field(args, "silence_s", float, optional=True)
        if silence_s is not None and not 1 <= silence_s <= MAX_TIMEOUT_S:
            raise WireError("bad_request", "silence_s must be from 1 to %d, got %g" % (MAX_TIMEOUT_S, silence_s))
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
        if silence_s is not None:
            self._watch_silence(silence_s)
        return {}

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

    def _namespace_died(self, name: str) -> None:
        self._namespaces_changed(name)
        self.notice("namespace_gone", "the guest in namespace %s is gone: its process was killed" % name)

    def _links_changed(self, links: List[Dict[str, Any]]) -> None:
        if self._quiet or self._others_window:
            self._held_links = links
        else:
            self._outlet.send({"event": "links", "links": links})

    def _keep_still(self, still: bool) -> None:
        """Another session counts on this node: no sample is taken and nothing is said unasked until it has ended."""
        self._others_window = still
        self._counters.hold(still)
        if not still:
            self._send_held_links()

    async def _stop_traffic(self) -> None:
        try:
            await self._generating.stop()
        except WireError as exc:
            if exc.code != "not_prepared":
                self.notice(exc.code, exc.message)

    async def _undo_for_another(self) -> None:
        for what, step in (("stopping the generator", self._generating.abandon), ("undoing changes", self._undo)):
            try:
                await step()
            except Exception as exc:  # noqa: BLE001 - whatever fails, the node is not ours any more
                self._bug(what, exc)

    def _capture_died(self, name: str, message: str) -> None:
        self._outlet.send({"event": "capture.died", "capture": name, "message": message})

    # -- the end --------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        self._ended.set()

    async def _close(self, number: int) -> None:
        signal.setitimer(signal.ITIMER_REAL, ALARM_S + FLUSH_S)
        await self._clean_up()
        self._outlet.send({"id": number, "ok": {"failed": self._failed}})
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
        self._foreign.close()
        self._captures.kill_all()
        self._executor.kill_all()
        self._guests.kill_all()
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
        self._failed += await self._tuner.undo(None)


async def serve(journal: UndoJournal) -> None:
    """Serve one session and end the process: worker threads that hang (a dead disk) must not keep it."""
    await Agent(journal).run()
    os._exit(0)
