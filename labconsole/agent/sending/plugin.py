"""Generators of other packages: their node code, which came in the archive, in a process per stream.

Data that such a process writes is not trusted unchecked: its counts must be possible, or the stream has no count. It
leads a process group, which ends with it; processes that leave the group end with the agent, through its keeper.
"""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import os
import signal
import time
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Dict, List, Optional, Sequence

from labconsole.agent.processes.children import ArmedChild, ChildSide, sleep_until
from labconsole.agent.sending.afpacket import (
    ERRORS,
    IDLE,
    REASON,
    REASONS,
    SEEN,
    SENT,
    STARTED,
    STARTED_WALL,
    STOP,
    STOPPED,
    AfPacketBackend,
    Shared,
)
from labconsole.agent.sending.contract import StreamJob
from labconsole.wire.codec import WireError
from labconsole.wire.stream_spec import StreamSpec

PACKAGE = "labconsole_generators"
"""Package of the generators in the archive."""

WATCH_S = 0.1
STOP_LIMIT_S = 1.0
"""How long a process may take to stop on request."""

LEAVE_LIMIT_S = 2.0
_PR_SET_TIMERSLACK = 29


def _describe_exception(exc: BaseException) -> str:
    return ("%s: %s" % (type(exc).__name__, exc))[:500]


# -- in the sending process -------------------------------------------------------------------------------------------


def run_plugin_sender(name: str, spec: StreamSpec, shared: Shared, side: ChildSide) -> None:
    """Run the sending process."""
    os.setsid()
    try:
        module = import_module("%s.%s" % (PACKAGE, name))
    except BaseException as exc:  # noqa: BLE001 - a foreign module may raise anything
        side.failed(
            "generator_import", "generator %s cannot be imported on this node: %s" % (name, _describe_exception(exc))
        )
        return
    try:
        if spec.cpus:
            os.sched_setaffinity(0, spec.cpus)
        job = StreamJob(spec, shared)
        opened = module.prepare(job)
    except WireError as exc:
        side.failed(exc.code, exc.message)
        return
    except BaseException as exc:  # noqa: BLE001
        side.failed(
            "generator_failed", "generator %s cannot send on %s: %s" % (name, spec.interface, _describe_exception(exc))
        )
        return
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    shared.say(str(getattr(module, "VERSION", "")))
    side.ready()
    at_ns = side.wait_word()
    fields = shared.words
    if at_ns is not None and not sleep_until(at_ns, lambda: bool(fields[STOP])):
        fields[REASON] = REASONS.index("stopped")
        return
    fields[STARTED_WALL], fields[STARTED] = time.time_ns(), time.monotonic_ns()
    try:
        module.send(job, opened)
    except BaseException as exc:  # noqa: BLE001
        shared.set_error("generator %s failed: %s" % (name, _describe_exception(exc)))
    fields[STOPPED] = fields[SEEN] = time.monotonic_ns()
    if fields[REASON] == 0 and (job.ended or not job.more()):
        fields[REASON] = REASONS.index(job.ended)
    elif fields[REASON] == 0:
        shared.set_error("generator %s ended after %d of %d packets" % (name, job.sent_packets, job.total))


# -- in the agent -----------------------------------------------------------------------------------------------------


def find_contradiction(fields: Sequence[int], spec: StreamSpec, before: int, now_ns: int) -> Optional[str]:
    """Return an impossibility in these counts, as the end of a sentence.

    ``before``: the earlier count. ``now_ns``: CLOCK_MONOTONIC, read after the counts.
    """
    most, _ = spec.planned_packets()
    sent, errors, started, stopped = fields[SENT], fields[ERRORS], fields[STARTED], fields[STOPPED]
    if not 0 <= sent <= most:
        return "%d packets sent, of %d" % (sent, most)
    if sent < before:
        return "%d packets sent after %d" % (sent, before)
    if errors < 0:
        return "%d errors" % errors
    if not 0 <= started <= now_ns or (stopped and not started <= stopped <= now_ns) or fields[STARTED_WALL] < 0:
        return "a start at %d and an end at %d, and it is %d" % (started, stopped, now_ns)
    if not 0 <= fields[IDLE] <= now_ns - started or not 0 <= fields[SEEN] <= now_ns:
        return "%d ns of waiting, and %d as its latest count's time" % (fields[IDLE], fields[SEEN])
    if not 0 <= fields[REASON] < len(REASONS):
        return "%d as the reason of its end" % fields[REASON]
    if fields[REASON] == REASONS.index("count") and sent != most:
        return "all of %d packets sent, and %d" % (most, sent)
    return None


class GroupLeader(ArmedChild):
    """A child that makes itself the leader of a process group, which ends with it."""

    async def ends_within(self, limit_s: float) -> bool:
        """Whether it has ended by then. If it left a process behind that has its pipe open, that process is
        ended, too.
        """
        await asyncio.wait([self._end], timeout=limit_s)
        if self._alive and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            self._end_group()
        return not self._alive

    def give_up(self) -> None:
        """Stop waiting for a pipe that another process has open: one that left the group, and ends with the agent."""
        if self._alive:
            self._reap()

    def kill(self) -> None:
        """Kill it and its group."""
        if self._alive:
            self._end_group()
            self.signal(signal.SIGKILL)

    def _reap(self) -> None:
        self._end_group()
        super()._reap()

    def _end_group(self) -> None:
        """End the group. The process is not reaped yet, so its id is no other group's."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # it has not made the group, or only zombies are left in it
            return


class PluginBackend(AfPacketBackend):
    """A sending process per stream, which runs the node code of a plug-in."""

    def __init__(self, name: str, missing: str) -> None:
        super().__init__()
        self.generator = name
        try:
            spec = find_spec("%s.%s" % (PACKAGE, name))
        except ImportError:
            spec = None
        if spec is None or spec.origin is None or spec.loader is None:
            raise WireError("generator_missing", missing % name)
        code: bytes = spec.loader.get_data(spec.origin)  # type: ignore[attr-defined]
        self._sha256 = hashlib.sha256(code).hexdigest()
        self._before: Dict[str, int] = {}
        self._nonsense: Dict[str, str] = {}
        self._overdue: List[asyncio.TimerHandle] = []

    def _fork(self, spec: StreamSpec, shared: Shared) -> ArmedChild:
        name = self.generator
        return GroupLeader(lambda side: run_plugin_sender(name, spec, shared, side))

    def _version(self, shared: Shared) -> str:
        options = next((spec.options for spec, mine, _ in self._streams if mine is shared), None)
        return " ".join(filter(None, (shared.said, "sha256:%s" % self._sha256, options)))

    def _burst_packets(self, spec: StreamSpec) -> Optional[int]:
        return None

    def _look(self) -> None:
        """End senders with impossible counts."""
        for spec, shared, child in self._streams:
            fields = list(shared.words)
            trouble = find_contradiction(fields, spec, self._before.get(spec.stream, 0), time.monotonic_ns())
            if trouble is not None and spec.stream not in self._nonsense:
                self._nonsense[spec.stream] = trouble
                child.kill()
            self._before[spec.stream] = fields[SENT]

    def progress(self) -> List[Dict[str, Any]]:
        self._look()
        unknown = {"sent_packets": None, "errors": None, "monotonic_ns": None}
        return [{**each, **(unknown if each["stream"] in self._nonsense else {})} for each in super().progress()]

    async def wait(self) -> List[Dict[str, Any]]:
        for _, _, child in self._streams:
            while not await child.ends_within(WATCH_S):
                self._look()
        self._look()
        return [self._result(spec, shared) for spec, shared, _ in self._streams]

    async def stop(self) -> None:
        await super().stop()
        loop = asyncio.get_running_loop()
        self._overdue += [loop.call_later(STOP_LIMIT_S, child.kill) for _, _, child in self._streams]

    async def close(self) -> None:
        for timer in self._overdue:
            timer.cancel()
        for _, _, child in self._streams:
            child.kill()
        for _, _, child in self._streams:
            if not await child.ends_within(LEAVE_LIMIT_S):
                child.give_up()

    def _result(self, spec: StreamSpec, shared: Shared) -> Dict[str, Any]:
        trouble = self._nonsense.get(spec.stream)
        if trouble is None:
            return super()._result(spec, shared)
        shared.words[REASON] = 0
        shared.words[STARTED_WALL] = shared.words[STARTED] = shared.words[STOPPED] = shared.words[IDLE] = 0
        unknown = dict.fromkeys(("sent_packets", "errors", "elapsed_ns", "idle_ns"))
        error_text = "generator %s counts nonsense: %s" % (self.generator, trouble)
        return {**super()._result(spec, shared), **unknown, "stopped_by": "error", "error_text": error_text}
