"""The keeper: a second process that undoes what the agent changed when the agent itself is killed.

It is told of every change *before* the change is made (a promise to undo, one line of JSON through a pipe) and again
when it has been undone. When the pipe breaks, the agent is gone, and what is still promised is done, last first.
It also watches the agent's stdin: an agent that has not ended LIMIT_S after the end of its stdin is killed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import threading
import time
from typing import Any, Dict, Iterable, List, Optional

from labconsole.agent import children

LIMIT_S = 1.8
"""The protocol promises 2 s from the end of stdin until nothing is left."""


class Journal:
    """What has been changed on the node and how to undo it, in order; the keeper holds the same list."""

    def __init__(self) -> None:
        self._entries: List[Dict[str, Any]] = []
        self._next = 1
        self._lock = threading.Lock()  # promises are also made from worker threads
        self._pipe: Optional[int] = None

    def start_keeper(self) -> int:
        """Fork a keeper and tell it all that is promised. Main thread only. Returns a descriptor that ends with it."""
        agent = os.getpid()
        reading, writing = os.pipe()
        alive, keepers_end = os.pipe()
        children.fork(
            lambda: _keep(agent, reading), keep=(0, reading, keepers_end), dies_with_parent=False
        )
        os.close(reading)
        os.close(keepers_end)
        with self._lock:
            if self._pipe is not None:
                os.close(self._pipe)
            self._pipe = writing
            for entry in self._entries:
                self._tell({"promise": entry})
        return alive

    def promise(self, entry: Dict[str, Any]) -> int:
        """Note how to undo a change that is about to be made. Returns the entry's number."""
        with self._lock:
            entry = dict(entry, number=self._next)
            self._next += 1
            self._entries.append(entry)
            self._tell({"promise": entry})
            return int(entry["number"])

    def done(self, number: int) -> None:
        """The change has been undone, or need not be."""
        with self._lock:
            self._entries = [entry for entry in self._entries if entry["number"] != number]
            self._tell({"done": number})

    def pending(self, token: Optional[str] = None, *, since: int = 0) -> List[Dict[str, Any]]:
        """Entries to undo, last first: all, or those of ``token``, with a number above ``since``."""
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
            os.write(self._pipe, json.dumps(message).encode("ascii") + b"\n")
        except BrokenPipeError:
            # The keeper was killed. The agent sees that by its other pipe and forks a new one with the whole list.
            os.close(self._pipe)
            self._pipe = None


def _keep(agent: int, reading: int) -> None:
    """The keeper's life."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    promised = _listen(agent, reading)
    undo_all(reversed(list(promised.values())))


def _listen(agent: int, reading: int) -> Dict[int, Dict[str, Any]]:
    """Collect promises until the agent is gone. Kills it when it overstays the end of its stdin."""
    promised: Dict[int, Dict[str, Any]] = {}
    rest = b""
    deadline: Optional[float] = None
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    poll.register(0, select.POLLRDHUP)  # hang-up and error are always reported
    while True:
        wait_ms = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
        ready = dict(poll.poll(wait_ms))
        if deadline is None and ready.get(0):
            poll.unregister(0)
            deadline = time.monotonic() + LIMIT_S
        if deadline is not None and time.monotonic() >= deadline and os.getppid() == agent:
            os.kill(agent, signal.SIGKILL)
            deadline += LIMIT_S
        if not ready.get(reading):
            continue
        data = os.read(reading, 65536)
        if not data:
            return promised
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "promise" in message:
                promised[message["promise"]["number"]] = message["promise"]
            else:
                promised.pop(message["done"], None)


def undo_all(entries: Iterable[Dict[str, Any]]) -> None:
    """Undo without an agent. Nobody is left to be told of a failure, and one must not keep the rest from being done."""
    from labconsole.agent import undo

    for entry in entries:
        try:
            undo.run(entry, undo.no_namespace)
        except Exception as exc:  # noqa: BLE001
            undo.complain("%s: %s" % (entry.get("kind"), exc))
