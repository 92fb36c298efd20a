"""The operations lease.*: holding this node, losing it to another session, and keeping still while another measures."""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable, Dict, Optional

from labconsole.agent.lease.lock import Lease
from labconsole.agent.lease.watch import LeaseWatch, shown
from labconsole.wire.codec import WireError, field

MAX_LEFT_S = 1e9
CHANGING = ("generator.prepare", "generator.start", "net.apply", "capture.start", "guest.start", "exec")
"""What a session may not do any more once its lease was taken over."""


class Leasing:
    """``stop_traffic`` is called when the lease is asked for, ``undo`` if the console has not given it back in time;
    ``keep_still`` with True while another session counts on this node."""

    def __init__(
        self,
        send: Callable[[Dict[str, Any]], Any],
        *,
        stop_traffic: Callable[[], Awaitable[None]],
        undo: Callable[[], Awaitable[None]],
        keep_still: Callable[[bool], None],
    ) -> None:
        self._send, self._stop_traffic, self._undo, self._keep_still = send, stop_traffic, undo, keep_still
        self._loop = asyncio.get_running_loop()
        self._lease = Lease(self._open_door)
        self._watch = LeaseWatch(self._lease, self._changed)
        self._ending: Optional["asyncio.Task[None]"] = None
        self._lost_to: Optional[Dict[str, Any]] = None

    async def take(self, args: Dict[str, Any]) -> Dict[str, Any]:
        left_s = field(args, "left_s", float, optional=True)
        if left_s is not None and not 0 <= left_s <= MAX_LEFT_S:
            raise WireError("bad_request", "left_s must be from 0 to %d, got %g" % (MAX_LEFT_S, left_s))
        wish = {
            "owner": field(args, "owner", str),
            "purpose": field(args, "purpose", str),
            "observe": field(args, "observe", str, optional=True) or "",
            "left_s": left_s,
        }
        if self._ending is not None:
            raise self._lost()
        if field(args, "take_over", bool, optional=True):
            from labconsole.agent.lease.takeover import take_over  # rarely needed

            taken = await take_over(self._lease, wish)
        else:
            taken = dict(self._lease.take(**wish), taken_from=None)
        self._lost_to = None
        self._watch.look()
        return {"since_wall_ns": taken["since_wall_ns"], "taken_from": shown(taken["taken_from"])}

    async def read(self, args: Dict[str, Any]) -> Dict[str, Any]:
        holder = self._lease.holder()
        return {"holder": None if holder is None else dict(shown(holder) or {}, own=holder["own"])}

    async def watch(self, args: Dict[str, Any]) -> Dict[str, Any]:
        if field(args, "on", bool):
            self._watch.start()
        else:
            self._watch.close()
            self._keep_still(False)
        return {}

    async def release(self, args: Dict[str, Any]) -> Dict[str, Any]:
        self._let_go()
        self._lost_to = None
        self._watch.look()
        return {}

    def mark_quiet(self, quiet: bool) -> None:
        """A counted window of ours begins, or has ended: other sessions' agents shall keep still."""
        self._lease.mark_quiet(quiet)

    def refuse_if_lost(self, op: str) -> None:
        """After a take-over nothing may be changed until the console has seen that: it gives back, or takes again."""
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
        """Another session took, renewed or gave back this node, or begins or ends to count."""
        quiet = holder is not None and holder["quiet"] is True
        # Before the window rather than in it: the holder marks it before it lets traffic run.
        self._send({"event": "lease", "holder": holder, "quiet": quiet})
        self._keep_still(quiet)

    def _open_door(self, lease_path: str) -> Callable[[], None]:
        from labconsole.agent.lease.takeover import Door  # only an agent that measures needs it

        return Door(lease_path, self._asked).close

    def _asked(self, wish: Dict[str, Any]) -> None:
        """Another session takes this node over: traffic ends now, the console has a while to end in order."""
        if self._ending is None:
            self._lost_to = wish
            self._send({"event": "lease_lost", "by": wish["by"], "purpose": wish["purpose"]})
            self._ending = self._loop.create_task(self._end())

    async def _end(self) -> None:
        from labconsole.agent.lease.takeover import LET_GO_S

        await self._stop_traffic()
        await asyncio.sleep(LET_GO_S)
        # The console has not given the lease back: everything it changed is undone without it.
        await self._undo()
        self._ending = None
        self._lease.release()
        self._watch.look()

    def _let_go(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        self._lease.release()
