"""The operations queue.*: classes of a queue that guests share, read and changed on schedule while it is in use."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from labconsole.agent.operations import handles
from labconsole.wire.codec import WireError
from labconsole.wire.queues import ChangeRates, QueueState, RatesTaken, ReadQueue, TakenChange, TakenChanges

if TYPE_CHECKING:
    from labconsole.network.traffic_control import QueueInUse

LOOK_S = 0.002
"""Interval between checks whether a queue is in use, until it is."""

THERE_S = 0.5
"""Interval between checks whether it still exists."""

IN_USE_PACKETS, IN_USE_NS = 10, 250 * 10**6
"""This many packets in this short a time mean that guests send their traffic: one or two, or some now and then, may be
anything.
"""

NANO = 10**9
BEFORE_NS = 30 * 10**6
"""How long before a due change the current rates are read."""


class SharedQueues:
    """Each request has a thread and a socket of its own: the kernel is queried while the agent does other things.
    ``offer`` sends an event if there is room.
    """

    def __init__(self, offer: Callable[[Dict[str, Any]], Any]) -> None:
        self._offer = offer

    @handles(ReadQueue)
    async def read(self, request: ReadQueue) -> QueueState:
        """Return the current state of the classes."""
        return await asyncio.get_running_loop().run_in_executor(None, _read, request)

    @handles(ChangeRates)
    async def change(self, request: ChangeRates) -> TakenChanges:
        """Change the rates on schedule. Ends early if the queue disappears."""
        ended, loop = threading.Event(), asyncio.get_running_loop()

        def tell(place: int, taken_ns: int, rates_bps: List[Optional[int]]) -> None:
            taken = RatesTaken(queue=request.queue, place=place, taken_ns=taken_ns, rates_bps=rates_bps)
            loop.call_soon_threadsafe(self._offer, {"event": RatesTaken.kind, **taken.to_wire()})

        try:
            return await loop.run_in_executor(None, _change, request, ended, tell)
        finally:
            ended.set()


def _read(request: ReadQueue) -> QueueState:
    from labconsole.network.iproute import open_route
    from labconsole.network.traffic_control import QueueInUse

    with open_route() as route:
        return QueueState(classes=QueueInUse(route, request.queue).classes(request.classes))


def _change(
    request: ChangeRates, ended: threading.Event, tell: Callable[[int, int, List[Optional[int]]], None]
) -> TakenChanges:
    from labconsole.network.iproute import QueueSender, open_route
    from labconsole.network.traffic_control import QueueInUse

    unused = (time.monotonic_ns(), _packets(request.queue))
    sender, number = QueueSender(), len(request.most_bps)
    seen: List[Dict[str, Any]] = []
    try:
        with open_route() as route:
            queue = QueueInUse(route, request.queue)
            compiled = queue.compiled(request)
            looked_ns, begun_ns = _wait_for_use(request, unused, ended)
            for place, change in enumerate(compiled if begun_ns is not None else ()):
                due_ns = (begun_ns or 0) + round(place * request.every_s * NANO)
                if place:
                    if _wait_unless_gone(request.queue, due_ns - BEFORE_NS, ended):
                        break
                    seen[-1]["kept_bps"] = _rates(queue, number)
                if _wait_unless_gone(request.queue, due_ns, ended):
                    break
                refused = sender.send(change) if place else []
                taken_ns = time.monotonic_ns() if place else due_ns
                seen.append(
                    {
                        "due_ns": due_ns,
                        "taken_ns": None if refused else taken_ns,
                        "rates_bps": _rates(queue, number),
                        "read_ns": time.monotonic_ns(),
                        "complaint": ", ".join(map(os.strerror, refused)) or None,
                    }
                )
                if not refused:
                    tell(place, taken_ns, seen[-1]["rates_bps"])
    finally:
        sender.close()
    changes = [TakenChange(**each) for each in seen]
    return TakenChanges(looked_ns=looked_ns, begun_ns=begun_ns, changes=changes)


def _rates(queue: "QueueInUse", number: int) -> List[Optional[int]]:
    return [each.rate_bps for each in queue.classes(number)]


def _wait_unless_gone(queue: str, due_ns: int, ended: threading.Event) -> bool:
    """Wait until it is time; True as soon as the queue is gone, since the requester then needs no result."""
    while (left_s := (due_ns - time.monotonic_ns()) / NANO) > 0:
        if ended.wait(min(left_s, THERE_S)):
            return True
        if left_s > THERE_S:
            try:
                _packets(queue)
            except WireError:
                return True
    return False


def _wait_for_use(
    request: ChangeRates, unused: Tuple[int, int], ended: threading.Event
) -> Tuple[Optional[int], Optional[int]]:
    """Return when the queue was last not in use, and when it first was. ``unused``: a time when it was not, and its
    count of packets then. The first is None if the queue may have been in use by then. Raises WireError if the queue no
    longer exists.
    """
    deadline_ns = time.monotonic_ns() + round(request.begin_s * NANO)
    looked_ns: Optional[int] = unused[0] if unused[1] < IN_USE_PACKETS else None
    before = deque([unused])
    while True:
        now_ns, packets = time.monotonic_ns(), _packets(request.queue)
        if packets - before[0][1] >= IN_USE_PACKETS:
            return looked_ns, now_ns
        looked_ns = now_ns if looked_ns is not None else None
        before.append((now_ns, packets))
        while len(before) > 1 and before[1][0] <= now_ns - IN_USE_NS:
            before.popleft()
        if now_ns > deadline_ns or ended.wait(LOOK_S):
            return looked_ns, None


def _packets(interface: str) -> int:
    """Return the packets that came into a queue's device: one read of a small file; netlink would take twenty times as
    long.
    """
    with open("/proc/thread-self/net/dev", encoding="ascii", errors="replace") as table:
        for line in table:
            name, _, counts = line.partition(":")
            if name.strip() == interface:
                return int(counts.split()[1])
    raise WireError("no_such_interface", "interface %s does not exist here" % interface)
