"""The interface for a generator of another package on the node: its stream's frames, its pace, and its counts.

Its node code is one module with two functions, which run in a process of their own:

    prepare(job)        opens what it sends with, and returns that
    send(job, opened)   sends until ``job.more()`` is False

It may have a text ``VERSION``. Any exception that it raises ends its stream, with the exception's message.
"""

from __future__ import annotations

import json
import time
from typing import Any, Dict

from labconsole.agent.processes.children import NAP_NS
from labconsole.agent.sending import sendpath
from labconsole.agent.sending.afpacket import (
    ERRORS,
    IDLE,
    LINK_CHECK_INTERVAL_NS,
    SEEN,
    SENT,
    STARTED,
    STOP,
    Shared,
    build_template,
)
from labconsole.wire.stream_spec import OVERTIME_NS, StreamSpec


class StreamJob:
    """One stream to send: ``total`` frames over ``interface``, one every ``delay_ns`` (0: flat out)."""

    def __init__(self, spec: StreamSpec, shared: Shared) -> None:
        self.spec = spec
        self.interface, self.delay_ns = spec.interface, spec.delay_ns
        self.options: Dict[str, Any] = json.loads(spec.options or "{}")
        """The options in hosts.yaml, checked by the plug-in's own ``Options``."""
        self.total, self.planned = spec.planned_packets()
        self.template = build_template(spec)
        """Makes frames, one by one or in a FrameRing of labconsole.packets.frame."""
        self.ended = ""
        """Why the stream ended: "count", "duration", "stopped" or "error"."""
        self._shared, self._words = shared, shared.words
        self._watch = sendpath.LinkWatch(spec.interface)
        self._next_check_ns = 0

    @property
    def sent_packets(self) -> int:
        """Frames that the kernel took so far."""
        return int(self._words[SENT])

    def more(self) -> bool:
        """Whether there is more to send: frames and time are left, no stop was requested, and the link is up."""
        now_ns = time.monotonic_ns()
        if self.sent_packets >= self.total:
            self.ended = self.planned
        elif self._words[STOP]:
            self.ended = "stopped"
        elif self._over(now_ns):
            self.ended = "duration"
        elif now_ns >= self._next_check_ns:
            self._next_check_ns = now_ns + LINK_CHECK_INTERVAL_NS
            trouble = self._watch.trouble()
            if trouble:
                self._shared.set_error(trouble)
                self.ended = "error"
        return not self.ended

    def _over(self, now_ns: int) -> bool:
        if self.spec.duration_s is None:
            return False
        lasts_ns = round(self.spec.duration_s * 1e9) + (OVERTIME_NS if self.spec.paced else 0)
        return bool(now_ns >= self._words[STARTED] + lasts_ns)

    def due(self) -> int:
        """Return how many frames are due and not sent, at most the remaining ones."""
        left = self.total - self.sent_packets
        if not self.delay_ns:
            return left
        slots = (time.monotonic_ns() - self._words[STARTED]) // self.delay_ns + 1
        return int(min(max(slots - self.sent_packets, 0), left))

    def sleep(self) -> None:
        """Sleep until the next frame is due, or for a moment; then call ``more`` again."""
        before_ns = time.monotonic_ns()
        due_ns = self._words[STARTED] + self.sent_packets * self.delay_ns
        time.sleep(min(max(due_ns - before_ns, 0), NAP_NS) / 1e9)
        self._words[IDLE] += time.monotonic_ns() - before_ns

    def frame(self) -> bytes:
        """Return the next frame, with the number after the last one counted and the current time."""
        return self.template.frame(self.sent_packets + 1, time.time_ns())

    def sent(self, packets: int) -> None:
        """Count frames that the kernel took."""
        self._words[SENT] += packets
        self._words[SEEN] = time.monotonic_ns()

    def refused(self, attempts: int = 1) -> None:
        """Count attempts that the kernel refused. The frame must be sent again: no number may be missing."""
        self._words[ERRORS] += attempts


Opened = Any
"""The value that ``prepare`` returned."""
