"""Following another session's lease: the kernel reports changes (inotify), so nothing wakes a node that is being
measured.

The holder's agent writes into the lease when a counted window begins and ends. The file is closed when the agent ends,
in whatever way, which is an event, too. The number of a user's watches is limited (128 by default, which a lab of a
hundred agents on one machine comes near); an agent that gets none looks once a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any, Callable, Dict, Optional

from labconsole.agent.lease.lock import Lease, file_name, find_lease_directories, find_lease_paths, other_holder
from labconsole.agent.processes import linux

LOOK_S = 1.0

Changed = Callable[[Optional[Dict[str, Any]]], None]
_SHOWN = ("owner", "purpose", "observe", "quiet", "since_wall_ns", "until_wall_ns", "trial")


def fill_holder_keys(holder: Optional[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
    """Build the console's description of a holder: every key, with None if not known."""
    return None if holder is None else {key: holder.get(key) for key in _SHOWN}


class LeaseWatch:
    """Calls ``on_change`` with the other holder of this node's lease, at once and at each change."""

    def __init__(self, lease: Lease, on_change: Changed) -> None:
        self._lease, self._on_change = lease, on_change
        self._loop = asyncio.get_running_loop()
        self._descriptor: Optional[int] = None
        self._timer: Optional[asyncio.TimerHandle] = None
        self._last: Any = self  # no answer equals this

    @property
    def watching(self) -> bool:
        return self._descriptor is not None or self._timer is not None

    def start(self, *, create: bool) -> None:
        """Start watching. ``create``: root makes the directory in which its sessions meet, so that it can be watched at
        all. Other agents look once a second until it exists.
        """
        if not self.watching:
            self._follow(create)
        self._last = self
        self.look()

    def _follow(self, create: bool) -> None:
        wanted = {os.path.dirname(path) for path in find_lease_paths()}
        common = find_lease_directories()[0]
        try:
            if os.geteuid() == 0 and not os.path.isdir(common):
                if not create:
                    raise FileNotFoundError(common)
                with contextlib.suppress(OSError):
                    os.makedirs(common, mode=0o755, exist_ok=True)
            self._descriptor = linux.watch_files([path for path in sorted(wanted) if os.path.isdir(path)])
            self._loop.add_reader(self._descriptor, self._woken)
        except OSError:
            self._timer = self._loop.call_later(LOOK_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._follow(create=False)
        self.look()

    def _woken(self) -> None:
        assert self._descriptor is not None
        try:
            events = os.read(self._descriptor, 65536)
        except BlockingIOError:
            return
        # The name is in the event; parsing it would take more than searching it.
        if file_name().encode("ascii") in events:
            self.look()

    def look(self) -> None:
        """Look now. The holder's own agent finds no other holder."""
        if not self.watching:
            return
        holder = None if self._lease.held else fill_holder_keys(other_holder())
        if holder != self._last:
            self._last = holder
            self._on_change(holder)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None
