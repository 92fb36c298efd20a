"""The operations lease.*: the lease of this node, its loss to another session, and quiet while another measures."""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable, Dict, Optional

from labconsole.agent.lease import Lease, LeaseWatch, fill_holder_keys
from labconsole.agent.operations import handles
from labconsole.wire.codec import WireError
from labconsole.wire.lease import (
    LeaseGranted,
    LeaseState,
    ReadLease,
    ReleaseLease,
    StatedHolder,
    StatedNodeHolder,
    TakeLease,
    TellTrial,
    WatchLease,
)
from labconsole.wire.message import Done

CHANGING = (
    "generator.prepare",
    "generator.start",
    "net.apply",
    "capture.start",
    "kernel_drops.start",
    "packet_times.start",
    "packet_count.start",
    "marks.start",
    "guest.start",
    "guest.promise_stop",
    "exec",
    "sink_ports.hold",
)
"""Operations that a session may not use any more once its lease was taken over."""


class Leasing:
    """The lease of a session. ``stop_traffic`` is called when another session requests the lease, ``undo`` if the
    console has not released it in time, ``give_up`` at its release; ``keep_still`` with True while another session
    counts on this node.
    """

    def __init__(
        self,
        send: Callable[[Dict[str, Any]], Any],
        *,
        stop_traffic: Callable[[], Awaitable[None]],
        undo: Callable[[], Awaitable[None]],
        give_up: Callable[[], None],
        keep_still: Callable[[bool], None],
        only_watches: Callable[[], bool],
    ) -> None:
        self._send, self._stop_traffic, self._undo, self._keep_still = send, stop_traffic, undo, keep_still
        self._give_up, self._only_watches = give_up, only_watches
        self._loop = asyncio.get_running_loop()
        self._lease = Lease(self._open_door)
        self._watch = LeaseWatch(self._lease, self._changed)
        self._ending: Optional["asyncio.Task[None]"] = None
        self._lost_to: Optional[Dict[str, Any]] = None

    @handles(TakeLease)
    async def take(self, request: TakeLease) -> LeaseGranted:
        wish: Dict[str, Any] = {
            "owner": request.owner,
            "purpose": request.purpose,
            "observe": request.observe or "",
            "left_s": request.left_s,
        }
        if self._ending is not None:
            raise self._lost()
        if request.take_over:
            from labconsole.agent.lease_takeover import take_over  # rarely needed

            taken = await take_over(self._lease, wish)
        else:
            taken = dict(self._lease.take(**wish), taken_from=None)
        self._lost_to = None
        self._watch.look()
        former = fill_holder_keys(taken["taken_from"])
        return LeaseGranted(
            since_wall_ns=taken["since_wall_ns"], taken_from=None if former is None else StatedHolder(**former)
        )

    @handles(ReadLease)
    async def read(self, request: ReadLease) -> LeaseState:
        holder = self._lease.holder()
        if holder is None:
            return LeaseState(holder=None)
        return LeaseState(holder=StatedNodeHolder(**(fill_holder_keys(holder) or {}), own=holder["own"]))

    @handles(WatchLease)
    async def watch(self, request: WatchLease) -> Done:
        if request.on:
            self._watch.start(create=not self._only_watches())
        else:
            self._watch.close()
            self._keep_still(False)
        return Done()

    @handles(TellTrial)
    async def tell(self, request: TellTrial) -> Done:
        self._lease.tell(request.trial, request.left_s)
        return Done()

    @handles(ReleaseLease)
    async def release(self, request: ReleaseLease) -> Done:
        self._give_up()
        self._let_go()
        self._lost_to = None
        self._watch.look()
        return Done()

    def mark_quiet(self, quiet: bool) -> None:
        """Signal that a counted window of ours begins or has ended: other sessions' agents must keep quiet."""
        self._lease.mark_quiet(quiet)

    def refuse_if_lost(self, op: str) -> None:
        """Refuse changes after a take-over until the console has noticed it: it releases the lease, or takes it
        again.
        """
        if self._lost_to is None or op not in CHANGING:
            return
        if op == "exec" and self._lease.held:
            return  # it still stops in order, and restoring a platform may need this
        raise self._lost()

    def close(self) -> None:
        self._watch.close()
        self._let_go()

    def _lost(self) -> WireError:
        assert self._lost_to is not None
        return WireError(
            "lease_lost", "%s took this node over for %s" % (self._lost_to["by"], self._lost_to["purpose"])
        )

    def _changed(self, holder: Optional[Dict[str, Any]]) -> None:
        """Handle that another session took, renewed or released this node, or begins or ends counting."""
        quiet = holder is not None and holder["quiet"] is True
        # Before the window rather than in it: the holder marks it before it starts traffic.
        self._send({"event": "lease", "holder": holder, "quiet": quiet})
        self._keep_still(quiet)

    def _open_door(self, lease_path: str) -> Callable[[], None]:
        from labconsole.agent.lease_takeover import Door  # only an agent that measures needs it

        return Door(lease_path, self._hand_over).close

    def _hand_over(self, wish: Dict[str, Any]) -> None:
        """Hand this node over to another session: traffic ends now, the console has a while to end in order."""
        if self._ending is None:
            self._lost_to = wish
            self._send({"event": "lease_lost", "by": wish["by"], "purpose": wish["purpose"]})
            self._ending = self._loop.create_task(self._end())

    async def _end(self) -> None:
        from labconsole.agent.lease_takeover import LET_GO_S

        await self._stop_traffic()
        await asyncio.sleep(LET_GO_S)
        # The console has not released the lease: everything it changed is undone without it.
        await self._undo()
        self._ending = None
        self._lease.release()
        self._watch.look()

    def _let_go(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        self._lease.release()
