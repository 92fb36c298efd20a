"""Taking a lease from its holder: requested through a socket next to the lease; the holder is killed only if it does
not react.

On a request, the holder's agent stops its traffic at once and notifies its console, which stops in order and releases
the lease; if it does not within LET_GO_S, the agent undoes everything by itself and releases it. A holder that does not
do that either (stopped, or hanging in the kernel) is killed, and only if the kernel reports that it has the lock, the
lease names the same process, and that is an agent of ours. Its keeper then undoes its changes. Only the same user and
root can request or kill: for another user's lease the request is refused with its holder.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import struct
import time
from typing import Any, Callable, Dict, List, Optional

from labconsole.agent.debug import complain
from labconsole.agent.lease import (
    OWNER_CHARACTERS,
    PURPOSE_CHARACTERS,
    Lease,
    build_lease_held_error,
    find_holder,
    is_locked_by,
    lock_holder,
)
from labconsole.agent.reading.proc_files import read_bytes, read_process
from labconsole.network.public_directories import find_fuse_mounts, is_below
from labconsole.wire.codec import WireError

LET_GO_S = 6.0
"""Time for a console to stop in order: a drain, its captures counted, the platform restored."""
ASK_S = LET_GO_S + 2.0
KILLED_S = 4.0
"""The keeper of a killed agent promises to have undone everything in less."""
LINE_BYTES = 4096

_CREDENTIALS = struct.Struct("=iii")
_OURS = (b"labconsole-agent", b"labconsole.agent")
"""Text in the command line of an agent and of its keeper: the archive's name, or the module's."""


class Door:
    """The holder's socket. Only root and the same user may connect."""

    def __init__(self, lease_path: str, on_request: Callable[[Dict[str, Any]], None]) -> None:
        self._path, self._on_request = lease_path + ".ask", on_request
        self._loop = asyncio.get_running_loop()
        self._waiting: List[socket.socket] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        try:
            if os.path.lexists(self._path):
                os.unlink(self._path)  # we have the lock: its maker is dead
            self._socket.bind(self._path)
            os.chmod(self._path, 0o600)
            self._socket.listen(8)
        except OSError as exc:
            self._socket.close()
            raise WireError("no_lease_file", "%s: %s" % (self._path, exc.strerror)) from None
        self._loop.add_reader(self._socket.fileno(), self._knock)

    def _knock(self) -> None:
        try:
            caller, _ = self._socket.accept()
        except OSError:
            return
        if _peer(caller) not in (0, os.geteuid()) or len(self._waiting) >= 8:
            caller.close()
            return
        caller.setblocking(False)
        self._waiting.append(caller)
        self._loop.add_reader(caller.fileno(), self._hear, caller)

    def _hear(self, caller: socket.socket) -> None:
        """Read a request, one line that fits into one write, so it arrives in one piece or not at all."""
        self._loop.remove_reader(caller.fileno())
        try:
            wish = json.loads(caller.recv(LINE_BYTES))
            owner, purpose = str(wish["owner"]), str(wish["purpose"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as exc:
            complain("a request for the lease cannot be read: %s" % exc)
            return
        self._on_request({"by": owner[:OWNER_CHARACTERS], "purpose": purpose[:PURPOSE_CHARACTERS]})

    def close(self) -> None:
        """Close the socket, whose end is the answer to waiting requesters."""
        for opened in [self._socket, *self._waiting]:
            self._loop.remove_reader(opened.fileno())
            opened.close()
        self._waiting.clear()
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            return


async def take_over(lease: Lease, wish: Dict[str, Any]) -> Dict[str, Any]:
    """Take the lease as ``wish`` (the arguments of Lease.take) says, from its holder if there is one.

    Returns the result of Lease.take, and ``taken_from``: the description of the former holder, or None. Raises
    WireError: "lease_held" if another session was faster or it is another user's, "lease_stuck" if nothing helps.
    """
    try:
        return dict(lease.take(**wish), taken_from=None)
    except WireError as exc:
        if exc.code != "lease_held":
            raise
        former = dict(exc.detail)
    path = former.pop("path")
    owner = _require_ours(path, former)
    line = json.dumps({"owner": wish["owner"], "purpose": wish["purpose"]}).encode("ascii")[:LINE_BYTES]
    if owner is not None and not await _ask(path + ".ask", owner, line, former):
        await _end_frozen(path, former)
    return dict(lease.take(**wish), taken_from=former)


def _require_ours(path: str, holder: Dict[str, Any]) -> Optional[int]:
    """Return the lease's user, who is this one unless we are root, or None if the lease has been released just now."""
    try:
        owner = os.lstat(path).st_uid
    except FileNotFoundError:
        return None
    if os.geteuid() not in (0, owner):
        refusal = build_lease_held_error(holder)
        who = "user %d of this node; only that user and root can end it" % owner
        raise WireError("lease_held", "%s; it is a session of %s" % (refusal.message, who), refusal.detail)
    return owner


async def _ask(path: str, owner: int, line: bytes, former: Dict[str, Any]) -> bool:
    """Request the lease, and wait until the holder releases it. False if it does not in time, or there is no listener.

    Connects only to a socket of the lease's ``owner``, with a listener of that user. Raises WireError("lease_stuck").
    """

    def refuse(found: str) -> WireError:
        text = "%s; %s is %s; expected: a socket of user %d, who has the lease; nothing was sent to it"
        return WireError("lease_stuck", text % (build_lease_held_error(former).message, path, found, owner), former)

    if is_below(path, find_fuse_mounts()):
        raise refuse("on a file system that a user's program serves")
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(status.st_mode):
        raise refuse("not a socket")
    if status.st_uid != owner:
        raise refuse("a socket of user %d" % status.st_uid)
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_unix_connection(path, limit=LINE_BYTES), ASK_S)
    except (asyncio.TimeoutError, FileNotFoundError, ConnectionRefusedError):
        return False
    try:
        listener = _peer(writer.get_extra_info("socket"))
        if listener != owner:  # the path may have become another one since
            raise refuse("served by user %d" % listener)
        writer.write(line)
        return await asyncio.wait_for(_read_to_end(reader), ASK_S)
    except asyncio.TimeoutError:
        return False
    except ConnectionError:
        return True  # ended in the middle: as good as the end
    finally:
        writer.close()


async def _read_to_end(reader: asyncio.StreamReader) -> bool:
    """Wait for the end, which is the whole answer. False for a holder that sends anything: that is no agent."""
    return not await reader.read(1)


def _peer(connected: Any) -> int:
    """Return the user at the other end of a Unix socket, as the kernel reports it; for a listener, its creator."""
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])


async def _end_frozen(path: str, former: Dict[str, Any]) -> None:
    """Kill the agent that has the lock at ``path`` and wait until its keeper has undone its changes."""
    holder = find_holder(path)
    if holder is None:
        return
    pid = holder.get("pid")
    if not isinstance(pid, int) or lock_owner(path) != pid or not _is_agent(pid):
        text = (
            "%s, does not release the lease on request, and is not an agent that can be ended from here"
            % build_lease_held_error(former).message
        )
        raise WireError("lease_stuck", text, former)
    keeper = _parent(pid)
    try:
        os.kill(pid, signal.SIGKILL)
        if keeper is not None and _is_agent(keeper):
            os.kill(keeper, signal.SIGCONT)  # if it is stopped as well, it would undo nothing
    except ProcessLookupError:
        keeper = None
    except PermissionError:
        raise WireError(
            "lease_stuck",
            "%s, and this session has no permission to end it" % build_lease_held_error(former).message,
            former,
        ) from None
    deadline = time.monotonic() + KILLED_S
    while find_holder(path) is not None or (keeper is not None and _is_agent(keeper)):
        if time.monotonic() > deadline:
            raise WireError(
                "lease_stuck", "%s, and did not end when killed" % build_lease_held_error(former).message, former
            )
        await asyncio.sleep(0.02)


def lock_owner(path: str) -> Optional[int]:
    """Return the process that has the exclusive flock on the file, as the kernel reports it, or None if none is visible
    or it cannot be known whether that one has it still.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    lock = lock_holder(status)
    return lock.pid if lock is not None and lock.exclusive and is_locked_by(lock.pid, status) else None


def _is_agent(pid: int) -> bool:
    text = read_bytes("/proc/%d/cmdline" % pid) or b""
    return any(mark in text for mark in _OURS)  # a zombie has no command line and counts as ended


def _parent(pid: int) -> Optional[int]:
    found = read_process(pid)
    return None if found is None else found.parent
