"""The keeper: the process that the node's shell started, parent of the agent, and the last to end.

The agent sends it a promise for every undoing (one line of JSON through a pipe) *before* it makes the change, and
withdraws the promise after undoing it. When the agent has ended, for whatever reason, the keeper kills the rest of its
processes and executes the remaining promises, last first. All of the agent's processes are the keeper's descendants and
become its children when orphaned (PR_SET_CHILD_SUBREAPER), so daemons cannot escape either.

It also watches stdin: an agent that has not ended LIMIT_S after the end of its stdin is killed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import threading
import time
from typing import Any, Dict, Iterable, List, Optional, Set

from labconsole.agent.debug import complain
from labconsole.agent.processes import linux

LIMIT_S = 1.5
"""The protocol promises 2 s from the end of stdin until nothing is left."""
KILLED_STATUS = 1
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""The signals that end a session in order."""


class UndoJournal:
    """The changes on the node and how to undo them, in order; the keeper has the same list."""

    def __init__(self, pipe: int) -> None:
        self._pipe: Optional[int] = pipe
        self._entries: List[Dict[str, Any]] = []
        self._next = 1
        self._lock = threading.Lock()  # promises are also made from worker threads

    def promise(self, entry: Dict[str, Any]) -> int:
        """Record how to undo a change that is about to be made. Returns the entry's number."""
        with self._lock:
            entry = dict(entry, number=self._next)
            self._next += 1
            self._entries.append(entry)
            self._tell({"promise": entry})
            return int(entry["number"])

    def done(self, number: int) -> None:
        """Mark a change as undone, or as not in need of it."""
        with self._lock:
            self._entries = [entry for entry in self._entries if entry["number"] != number]
            self._tell({"done": number})

    def pending(self, token: Optional[str] = None, *, since: int = 0) -> List[Dict[str, Any]]:
        """Return the entries to undo, last first: all, or those of ``token``, with a number above ``since``."""
        with self._lock:
            return [
                entry
                for entry in reversed(self._entries)
                if entry["number"] > since and (token is None or entry.get("token") == token)
            ]

    @property
    def last(self) -> int:
        return self._next - 1

    def _tell(self, message: Dict[str, Any]) -> None:
        if self._pipe is None:
            return
        try:
            data = memoryview(json.dumps(message).encode("ascii") + b"\n")
            while data:
                data = data[os.write(self._pipe, data) :]
        except BrokenPipeError:
            # The keeper was killed; the kernel has sent this process SIGTERM, and it undoes everything itself.
            os.close(self._pipe)
            self._pipe = None


def become_keeper() -> UndoJournal:
    """Fork: returns in the child, which is the agent; the caller's process becomes its keeper and never returns."""
    linux.adopt_orphans()
    parent = os.getpid()
    reading, writing = os.pipe()
    agent = os.fork()
    if agent == 0:
        os.close(reading)
        # Without a keeper to undo after a crash, the session ends in order, as if by a signal.
        linux.die_with_parent(signal.SIGTERM, parent)
        return UndoJournal(writing)
    status = KILLED_STATUS
    try:
        os.close(writing)
        status = _Keeper(agent, reading).run()
    finally:
        os._exit(status)


class _Keeper:
    """The keeper's main program."""

    def __init__(self, agent: int, reading: int) -> None:
        self._agent, self._reading = agent, reading
        self._status: Optional[int] = None
        self._promised: Dict[int, Dict[str, Any]] = {}
        self._imported: Set[str] = set()

    def run(self) -> int:
        # stdout belongs to the agent alone: the console must see its end at once.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
        for number in ENDING:
            signal.signal(number, self._forward_signal)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        self._listen()
        self._end_agent()
        promised = _sort_for_undo(self._promised.values())
        # Leftovers on a guest's disk can only be removed by the guest, which may be a descendant itself.
        undo_all(entry for entry in promised if entry.get("inside"))
        kill_descendants()
        undo_all(entry for entry in promised if not entry.get("inside"))
        status = self._status
        return os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else KILLED_STATUS

    def _forward_signal(self, number: int, frame: Any) -> None:
        if self._status is None:
            os.kill(self._agent, signal.SIGTERM)

    def _listen(self) -> None:
        """Collect promises until the agent's end of the pipe is closed or the agent has ended."""
        rest = b""
        deadline: Optional[float] = None
        # SIGCHLD wakes the keeper through a pipe, so that no orphan stays unreaped and no wake-up is lost.
        woken, waking = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(waking, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        poll.register(woken, select.POLLIN)
        poll.register(0, select.POLLRDHUP)  # hang-up and error are always reported
        while True:
            self._reap()
            if self._status is not None:
                # All of the agent's messages are in the pipe; a fork of its own may still have the other end open.
                os.set_blocking(self._reading, False)
            wait_ms = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000 + 1
            ready = dict(poll.poll(0 if self._status is not None else wait_ms))
            if ready.get(woken):
                os.read(woken, 4096)
            if deadline is None and ready.get(0):
                poll.unregister(0)
                deadline = time.monotonic() + LIMIT_S
            if deadline is not None and time.monotonic() >= deadline and self._status is None:
                os.kill(self._agent, signal.SIGKILL)
                deadline += LIMIT_S
            if ready.get(self._reading):
                data = os.read(self._reading, 65536)
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._note(json.loads(line))
            elif self._status is not None:
                return

    def _note(self, message: Dict[str, Any]) -> None:
        if "promise" in message:
            entry = message["promise"]
            self._promised[entry["number"]] = entry
            if entry["kind"] not in self._imported:
                # Not in a thread: if we are killed, the kernel notifies the agent at the main thread's end, and until
                # the last thread has ended the agent would still find its keeper.
                self._imported.add(entry["kind"])
                _import_undoing(entry["kind"])
        else:
            self._promised.pop(message["done"], None)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._agent:
                self._status = status

    def _end_agent(self) -> None:
        """Wait for the agent, whose end of the pipe is closed, to end, but not for ever."""
        deadline = time.monotonic() + LIMIT_S
        while self._status is None:
            self._reap()
            if self._status is None and time.monotonic() > deadline:
                os.kill(self._agent, signal.SIGKILL)
                deadline += LIMIT_S
            if self._status is None:
                select.select([], [], [], 0.002)


def kill_descendants() -> None:
    """Kill and reap all children, and their children as they become ours, for a second at most."""
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        for pid in _children():
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError) as exc:
                complain("cannot kill process %d: %s" % (pid, exc))
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        select.select([], [], [], 0.002)


def _children() -> List[int]:
    found = []
    own = os.getpid()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as stat:
                    if int(stat.read().rpartition(b")")[2].split()[1]) == own:
                        found.append(int(name))
            except (OSError, IndexError):
                continue  # ended meanwhile
    return found


def _sort_for_undo(promised: Iterable[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Sort the last first, but slow entries (a guest that has to shut down) after everything else."""
    return sorted(promised, key=lambda entry: ("limit_s" in entry, -entry["number"]))


def undo_all(entries: Iterable[Dict[str, Any]]) -> None:
    """Undo without an agent. Failures cannot be reported, and one must not prevent the rest.

    Slow entries all begin at once: guests shut down together.
    """
    waiting = []
    for entry in entries:
        if "limit_s" in entry:
            waiting.append(threading.Thread(target=_undo, args=(entry,)))
            waiting[-1].start()
        else:
            _undo(entry)
    for each in waiting:
        each.join()


def _import_undoing(kind: str) -> None:
    """Import the undo code while the node is well: later its disk or its memory may not allow it."""
    try:
        from labconsole.agent import undo  # not before it is needed: many sessions change nothing

        undo.import_undo_modules(kind)
    except Exception as exc:  # noqa: BLE001 - retried when it is needed
        complain("cannot import how to undo %s: %s" % (kind, exc))


def _undo(entry: Dict[str, Any]) -> None:
    from labconsole.agent import undo

    try:
        undo.run(entry, undo.no_namespace)
    except Exception as exc:  # noqa: BLE001
        complain("%s: %s" % (entry.get("kind"), exc))
