"""Guests as processes of the agent: started, addressed on their console, ended with it.

A guest's console is its standard input and output (QEMU's ``-serial stdio``, UML's ``con0=fd:0,fd:1``), which works for
any hypervisor that is a program, needs no network in the guest, and ends with the process. The guest's output is
untrusted text: bounded, never interpreted.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

from labconsole.agent.operations import handles
from labconsole.agent.processes import children
from labconsole.agent.reading.proc_files import read_process
from labconsole.wire.codec import WireError
from labconsole.wire.guests import (
    MAX_PRINTED_BYTES,
    TOGETHER_S,
    AskedGuest,
    AskedGuests,
    AskGuest,
    AskGuests,
    GuestAnswer,
    GuestStarted,
    GuestState,
    GuestStatus,
    StartGuest,
    StopGuest,
)
from labconsole.wire.message import Done

CONSOLE_BYTES = 65536
"""How much of a console is kept: the last part."""

STOP_S = 0.3
FINAL_OUTPUT_S = 2.0
"""How long to read the console of an ended guest if another process, outside its group, has it open."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}\Z")


class GuestProcess:
    """One process and its console."""

    def __init__(self, name: str, process: children.Child, ended: Callable[["GuestProcess"], None]) -> None:
        self.name, self.process = name, process
        self.console = bytearray()
        self.printed_bytes = 0
        self.grown_ns = 0  # when its last part was read
        self._grown = asyncio.Event()
        self._ended = ended
        self.over = False
        self.ending = False
        self.reader = asyncio.ensure_future(self._read())
        self._reaper = asyncio.ensure_future(self._reap())
        self.request_lock = asyncio.Lock()
        self.askers = 0
        self.working = False  # busy with a request to many guests: for minutes, or hours

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while True:
            data = await self.process.stdout.read(8192)
            if not data:
                break
            self.grown_ns = time.monotonic_ns()
            self.printed_bytes += len(data)
            self.console += data
            del self.console[:-CONSOLE_BYTES]
            self._grown.set()
        await self.process.wait()
        self.over = True  # not before all of its final output was read
        self._grown.set()
        self._ended(self)

    async def _reap(self) -> None:
        """Kill its descendants: they must not keep its console open."""
        await self.process.exited()
        children.kill_group(self.process)
        await asyncio.wait([self.reader], timeout=FINAL_OUTPUT_S)
        self.process.close()

    @property
    def running(self) -> bool:
        return self.process.returncode is None

    def since(self, position: int) -> bytes:
        """Return the kept output after ``position`` bytes."""
        return bytes(self.console[max(0, len(self.console) - (self.printed_bytes - position)) :])

    def write(self, line: str) -> None:
        """Write a line, at once unless its console takes no more."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode("utf-8", "surrogateescape") + b"\n")

    async def answer(self, until: str, position: int, timeout_s: float) -> bytes:
        """Return the output since the line was written, up to ``until``."""
        assert self.process.stdin is not None
        try:
            await asyncio.wait_for(self.process.stdin.drain(), timeout_s)
        except asyncio.TimeoutError:
            raise WireError("guest_silent", "guest %s read no line within %g s" % (self.name, timeout_s)) from None
        except (BrokenPipeError, ConnectionResetError):
            raise WireError("guest_ended", "guest %s accepts no more input" % self.name) from None
        return await self.wait_for(until.encode("utf-8", "surrogateescape"), position, timeout_s)

    async def wait_for(self, marker: bytes, position: int, timeout_s: float, before: Optional[bytes] = None) -> bytes:
        """Return the output after ``position`` up to ``marker``, which must precede ``before``. Raises WireError with
        the end of the console.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            self._grown.clear()
            printed = self.since(position)
            at = printed.find(marker)
            if at >= 0:
                return printed[:at]
            if before is not None and before in printed:
                raise WireError(
                    "guest_silent",
                    "guest %s did not wait in its line; its console ends: %s" % (self.name, self.console_end()),
                )
            left_s = deadline - asyncio.get_running_loop().time()
            if self.over:
                raise WireError(
                    "guest_ended",
                    "guest %s ended with status %s; its console ends: %s"
                    % (self.name, self.process.returncode, self.console_end()),
                )
            if left_s <= 0:
                raise WireError(
                    "guest_silent",
                    "guest %s did not answer within %g s; its console ends: %s"
                    % (self.name, timeout_s, self.console_end()),
                )
            try:
                await asyncio.wait_for(self._grown.wait(), left_s)
            except asyncio.TimeoutError:
                continue

    def console_end(self) -> str:
        lines = bytes(self.console[-4096:]).decode("utf-8", "replace").strip().splitlines()
        # A kernel that dies prints why, and then where it was.
        why = [number for number, line in enumerate(lines) if "Kernel panic" in line]
        shown = lines[max(0, why[-1] - 3) : why[-1] + 1] if why else lines[-8:]
        return " | ".join(line.strip() for line in shown) or "(empty)"

    def kill(self) -> None:
        """End it on purpose."""
        self.ending = True
        children.kill_group(self.process)


class _PendingAnswer(NamedTuple):
    """A guest whose console was sent a line. ``position``: how much it had printed by then."""

    guest: GuestProcess
    position: int
    written_ns: int


class Guests:
    """The running guests. ``tell`` sends an event, ``find_entry_namespaces`` returns what a child enters for a
    namespace.
    """

    def __init__(self, tell: Callable[[Dict[str, Any]], None], to_enter: Callable[[str], Sequence[Any]]) -> None:
        self._tell, self._to_enter = tell, to_enter
        self._guests: Dict[str, GuestProcess] = {}
        self._starting = asyncio.Lock()

    @handles(StartGuest)
    async def start(self, request: StartGuest) -> GuestStarted:
        """Start a guest's program; its console prints ``ready`` when it is up."""
        name, argv, namespaces = request.guest, request.argv, self._to_enter(request.namespace or "")
        if not NAME.match(name):
            raise WireError("bad_request", "guest must be a plain name, got %r" % name)
        if not argv:
            raise WireError("bad_request", "argv must be a list of at least one string")
        try:
            # In sequence: between two starts consoles are read, so that each guest is noticed when it is up.
            async with self._starting:
                if name in self._guests:
                    raise WireError("exists", "a guest %s is already running" % name)
                started_ns = time.monotonic_ns()
                process = await children.spawn(
                    argv,
                    stdin=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    namespaces=namespaces,
                    own_session=request.own_session is not False,
                )
                children.kill_first(process)
                guest = self._guests[name] = GuestProcess(name, process, self._guest_ended)
        except FileNotFoundError:
            raise WireError("command_missing", "%s is not installed on this node" % argv[0]) from None
        except OSError as exc:
            raise WireError("exec_failed", "cannot run %s: %s" % (argv[0], exc.strerror)) from exc
        try:
            printed = await guest.wait_for(request.ready.encode("utf-8", "surrogateescape"), 0, request.timeout_s)
        except BaseException:
            self._guests.pop(name, None)
            guest.kill()
            raise
        return GuestStarted(pid=process.pid, started_ns=started_ns, ready_ns=guest.grown_ns, console=_text(printed))

    @handles(AskGuest)
    async def ask(self, request: AskGuest) -> GuestAnswer:
        """Write a line to a guest's console and return its output up to ``until``."""
        guest = self._find(request.guest)
        _require_line(request.line, request.until)
        if guest.working:
            raise _busy(guest)
        guest.askers += 1
        try:
            async with guest.request_lock:
                position = guest.printed_bytes
                guest.write(request.line)
                return GuestAnswer(printed=_text(await guest.answer(request.until, position, request.timeout_s)))
        finally:
            guest.askers -= 1

    @handles(AskGuests)
    async def ask_all(self, request: AskGuests) -> AskedGuests:
        """Write a line to the consoles of many guests, then wait for each, which costs nothing while they work."""
        for each in request.asked:
            _require_line(each.line, request.until)
        names = [each.guest for each in request.asked]
        if not names or len(set(names)) < len(names):
            raise WireError("bad_request", "guests must be different names, at least one")
        begun_cpu_s = time.process_time()
        written = [self._write(each.guest, each.line) for each in request.asked]
        waiting: List["asyncio.Future[AskedGuest]"] = []
        try:
            ready = written
            if request.waits is not None:
                ready = await _begin_together(written, request.waits, request.until, request.timeout_s)
            waiting = [asyncio.ensure_future(_answer(name, each, request)) for name, each in zip(names, ready)]
            idle_s, idle_cpu_s = time.monotonic(), time.process_time()
            working = [answer for answer, each in zip(waiting, ready) if not isinstance(each, WireError)]
            await asyncio.wait(working or waiting, return_when=asyncio.FIRST_COMPLETED)
            waited_s, waited_cpu_s = time.monotonic() - idle_s, time.process_time() - idle_cpu_s
            guests = list(await asyncio.gather(*waiting))
        finally:
            for answer in waiting:
                answer.cancel()
            for line in written:
                if not isinstance(line, WireError):
                    line.guest.working = False
        return AskedGuests(
            guests=guests, waited_s=waited_s, waited_cpu_s=waited_cpu_s, cpu_s=time.process_time() - begun_cpu_s
        )

    def _write(self, name: str, line: str) -> Union[_PendingAnswer, WireError]:
        """Write a line that is answered later, or return the reason for not writing it."""
        try:
            guest = self._find(name)
        except WireError as exc:
            return exc
        if guest.working or guest.askers:
            return _busy(guest)
        guest.working = True
        written = _PendingAnswer(guest, guest.printed_bytes, time.monotonic_ns())
        guest.write(line)
        return written

    @handles(GuestStatus)
    async def status(self, request: GuestStatus) -> GuestState:
        """Return whether a guest runs, and the CPU time of its process."""
        guest = self._find(request.guest)
        return GuestState(running=guest.running, pid=guest.process.pid, cpu_s=cpu_s(guest.process.pid))

    @handles(StopGuest)
    async def stop(self, request: StopGuest) -> Done:
        """End a guest at once; a shutdown would save nothing in it."""
        guest = self._find(request.guest)
        guest.kill()
        await asyncio.wait([guest.reader], timeout=STOP_S)
        self._guests.pop(guest.name, None)
        return Done()

    def kill_all(self) -> None:
        for guest in self._guests.values():
            guest.kill()
        self._guests.clear()

    def _find(self, name: str) -> GuestProcess:
        if name not in self._guests:
            raise WireError("no_such_guest", "no guest %s was started here" % name)
        return self._guests[name]

    def _guest_ended(self, guest: GuestProcess) -> None:
        if self._guests.get(guest.name) is guest:
            del self._guests[guest.name]
        if guest.ending:
            return
        message = "guest %s ended by itself with status %s; its console ends: %s" % (
            guest.name,
            guest.process.returncode,
            guest.console_end(),
        )
        self._tell({"event": "guest.ended", "guest": guest.name, "message": message})


async def _answer(name: str, written: Union[_PendingAnswer, WireError], request: AskGuests) -> AskedGuest:
    """Wait for the answer of one of several guests to its line."""
    if isinstance(written, WireError):
        return _build_failed_answer(name, None, written)
    guest, position, written_ns = written
    try:
        printed = await guest.answer(request.until, position, request.timeout_s)
    except WireError as exc:
        return _build_failed_answer(name, written_ns, exc)
    finally:
        guest.working = False
    return AskedGuest(
        guest=name,
        asked_ns=written_ns,
        answered_ns=guest.grown_ns,
        printed=_text(printed[-MAX_PRINTED_BYTES:]),
        code=None,
        message=None,
    )


async def _begin_together(
    written: Sequence[Union[_PendingAnswer, WireError]], marker: str, until: str, timeout_s: float
) -> List[Union[_PendingAnswer, WireError]]:
    """Let all waiting guests begin once each has read its line or is given up."""

    async def waits(each: Union[_PendingAnswer, WireError]) -> Union[_PendingAnswer, WireError]:
        if isinstance(each, WireError):
            return each
        try:
            await each.guest.wait_for(_bytes(marker), each.position, limit_s, _bytes(until))
        except WireError as exc:
            return exc
        return each

    limit_s = min(timeout_s, TOGETHER_S)
    begun: List[Union[_PendingAnswer, WireError]] = []
    for each in await asyncio.gather(*map(waits, written)):
        if not isinstance(each, WireError):
            each = each._replace(written_ns=time.monotonic_ns())
            each.guest.write("")
        begun.append(each)
    return begun


def _build_failed_answer(name: str, written_ns: Optional[int], why: WireError) -> AskedGuest:
    return AskedGuest(
        guest=name, asked_ns=written_ns, answered_ns=None, printed=None, code=why.code, message=why.message
    )


def _busy(guest: GuestProcess) -> WireError:
    return WireError("busy", "guest %s is already answering a request" % guest.name)


def _require_line(line: str, until: str) -> None:
    if "\n" in line or not until:
        raise WireError("bad_request", "line must be one line and until must not be empty")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def cpu_s(pid: int) -> Optional[float]:
    """Return user and system time of a process and its threads so far, or None if it is gone."""
    found = read_process(pid)
    return None if found is None else found.used / float(os.sysconf("SC_CLK_TCK"))
