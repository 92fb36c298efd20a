"""The lease: which session measures on this node now, and how others follow that."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import stat
import time
from contextlib import suppress
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

from labconsole.agent.processes import linux
from labconsole.agent.reading.proc_files import read_process, read_text
from labconsole.network.public_directories import find_fuse_mounts, find_names, is_below
from labconsole.wire.codec import WireError
from labconsole.wire.lease import TrialNow, TrialTold

# -- lock --------------------------------------------------------------------------------------------------------------
# The lease: which session measures on this node now. An flock, so the kernel releases it when its owner dies.
#
# One lease per network namespace, because that is what two measurements would share: an ordinary node has one; in a
# testbed made of namespaces each node has its own. Next to the file is a socket on which another session can request
# the lease (agent/lease_takeover.py): a request leaves the holder time to stop in order, a broken lock does not.

MAX_BYTES = 65536
OWNER_CHARACTERS = 200
PURPOSE_CHARACTERS = 500
OBSERVE_CHARACTERS = 16
PUBLIC, RUNTIME = "/tmp", "/run/user"
"""Where the leases of other users may be: in labconsole-NUMBER of the first, in NUMBER/labconsole of the other."""
_OF_A_USER, _NUMBER = re.compile(r"labconsole-\d{1,10}\Z"), re.compile(r"\d{1,10}\Z")
MAX_MISNAMED = 64
"""Most directories with a user's number that are looked into although they are another user's, as seen from here: a
session in a user namespace may make one, and any user thousands.
"""

MAX_DESCRIPTORS = 4096
"""Most descriptors of a process among which a lock is looked for."""

TRIES = 5
"""An agent that only looks takes the lock for some microseconds, and must not be mistaken for a holder."""
TRY_AGAIN_S = 0.01


def _outer_uid() -> int:
    """Return the user id outside a user namespace, where it identifies a person; inside everybody may be 0."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as mapping:
            ranges = [[int(word) for word in line.split()] for line in mapping]
    except (OSError, ValueError):
        return os.getuid()
    own = os.getuid()
    return next((own - inside + outside for inside, outside, count in ranges if 0 <= own - inside < count), own)


def find_lease_directories() -> List[str]:
    """Return the possible directories of a lease, best first. The first in which the file can be opened is used."""
    found = ["/run/labconsole"]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.path.isabs(runtime):
        found.append(os.path.join(runtime, "labconsole"))
    found.append("/tmp/labconsole-%d" % _outer_uid())
    return found


def file_name() -> str:
    return "lease-%d" % os.stat("/proc/self/ns/net").st_ino


def find_lease_paths() -> List[str]:
    """Return every path at which a session of any user may have this namespace's lease.

    No directory is reached through a link: its owner could point it at our own lease, which would then look like
    another session's. Few are looked into that do not have their owner's number: anybody may make many. None is on a
    file system of a user's own, which may never answer.
    """
    name, mounts = file_name(), find_fuse_mounts()
    others: List[str] = []
    misnamed: List[str] = []
    for directory in sorted(_find_directories_of_others()):
        path = os.path.join(directory, name)
        with suppress(OSError):  # it is not there, or has just been removed
            status = None if is_below(path, mounts) else os.lstat(directory)
            if status is not None and stat.S_ISDIR(status.st_mode):
                of_owner = not directory.startswith(PUBLIC + "/") or directory.endswith("-%d" % status.st_uid)
                (others if of_owner else misnamed).append(path)
    there = others + misnamed[:MAX_MISNAMED]
    own = [os.path.join(directory, name) for directory in find_lease_directories()]
    found = [path for path in own if not is_below(path, mounts)]
    return list(dict.fromkeys(found + [path for path in there if os.path.lexists(path)]))


def _find_directories_of_others() -> Iterator[str]:
    """Yield where the leases of other users may be, looking at nothing but names."""
    with suppress(OSError):
        yield from (os.path.join(PUBLIC, name) for name in find_names(PUBLIC, _OF_A_USER))
    with suppress(OSError):
        yield from (os.path.join(RUNTIME, name, "labconsole") for name in find_names(RUNTIME, _NUMBER))


def _open() -> "tuple[int, str]":
    reasons, mounts = [], find_fuse_mounts()
    for directory in find_lease_directories():
        try:
            if is_below(os.path.join(directory, file_name()), mounts):
                raise PermissionError(1, "is on a file system that a user's program serves", directory)
            os.makedirs(directory, mode=0o755, exist_ok=True)
            # /tmp is everybody's: a directory there that another user made is not to be trusted.
            if os.lstat(directory).st_uid != os.geteuid():
                raise PermissionError(1, "belongs to another user", directory)
            path = os.path.join(directory, file_name())
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644), path
        except OSError as exc:
            reasons.append("%s: %s" % (directory, exc.strerror))
    raise WireError("no_lease_file", "could not create a lease file (%s)" % "; ".join(reasons))


def _read(descriptor: int) -> Dict[str, Any]:
    """Read the holder's text. Another user may have written it, so only known keys with the right types count."""
    try:
        stated = json.loads(os.pread(descriptor, MAX_BYTES, 0))
    except (ValueError, OSError, RecursionError):
        return {}
    if not isinstance(stated, dict):
        return {}
    holder: Dict[str, Any] = {}
    for key, kind in _HOLDER_KEYS.items():
        value = stated.get(key)
        if type(value) is not kind or (isinstance(value, int) and not 0 <= value < 2**63):
            continue
        holder[key] = value[: _LONGEST.get(key, PURPOSE_CHARACTERS)] if isinstance(value, str) else value
    try:
        holder["trial"] = TrialNow.parse(stated.get("trial")).to_wire()
    except WireError:
        pass  # missing, or not a trial
    return holder


_HOLDER_KEYS = {"owner": str, "purpose": str, "observe": str, "quiet": bool}
_LONGEST = {"owner": OWNER_CHARACTERS, "observe": OBSERVE_CHARACTERS}
_HOLDER_KEYS.update(dict.fromkeys(("since_wall_ns", "until_wall_ns", "pid"), int))


def try_lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class LockHolder(NamedTuple):
    """A process with a lock on a file, as the kernel reports it; ``exclusive``: not a reader's lock."""

    pid: int
    exclusive: bool


def _lock_key(status: os.stat_result) -> str:
    """Return how the kernel's lists of locks identify a file."""
    return "%02x:%02x:%d" % (os.major(status.st_dev), os.minor(status.st_dev), status.st_ino)


def lock_holder(status: os.stat_result) -> Optional[LockHolder]:
    """Return the process with an flock on a file, an exclusive one first, or None if none is visible from here."""
    wanted = _lock_key(status)
    found: List[LockHolder] = []
    try:
        with open("/proc/locks", encoding="ascii") as locks:
            for line in locks:
                fields = line.split()
                if len(fields) >= 6 and fields[1] == "FLOCK" and fields[5] == wanted and int(fields[4]) > 0:
                    found.append(LockHolder(int(fields[4]), fields[3] == "WRITE"))
    except (OSError, ValueError):
        return None
    return max(found, key=lambda each: each.exclusive, default=None)


def is_locked_by(pid: int, status: os.stat_result) -> Optional[bool]:
    """Return whether the process has the file open with the lock on it, or None if that cannot be known.

    The kernel names the process that took a lock, also when it has ended and left the lock to a child of its; its
    number may be another process's by then.
    """
    wanted, directory = " %s " % _lock_key(status), "/proc/%d/fdinfo" % pid
    try:
        numbers = os.listdir(directory)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    if len(numbers) > MAX_DESCRIPTORS:
        return None
    return any(wanted in (read_text("%s/%s" % (directory, number)) or "") for number in numbers)


def _read_holder(descriptor: int) -> Dict[str, Any]:
    """Return the session that has locked the lease. Its text counts only if it names the process that the kernel names.

    A user who can read the file can lock it without writing to it: then the process and its user are the owner.
    """
    holder, status = _read(descriptor), os.fstat(descriptor)
    lock = lock_holder(status)
    if lock is not None and is_locked_by(lock.pid, status) is False:
        return {"owner": "a process that was started by process %d, which has ended," % lock.pid}
    if lock is None or ("owner" in holder and holder.get("pid") in _numbers(lock.pid)):
        return holder
    return {"owner": _describe_process(lock.pid)}


def _numbers(pid: int) -> List[int]:
    """Return the ids of a process: ours, and those in the process namespaces between ours and its own."""
    for line in (read_text("/proc/%d/status" % pid) or "").splitlines():
        if line.startswith("NSpid:"):
            return [int(word) for word in line.split()[1:]]
    return [pid]


def _describe_process(pid: int) -> str:
    """Describe a process for a sentence, with the id of its user; both as the kernel reports them."""
    found = read_process(pid)
    try:
        user = "user %d" % os.stat("/proc/%d" % pid).st_uid
    except OSError:
        user = "an unknown user"
    return "process %d (%s) of %s" % (pid, "unknown" if found is None else found.name, user)


def find_holder(path: str, own: Optional[int] = None) -> Optional[Dict[str, Any]]:
    """Return the description of the session with the lease at ``path``, or None if none has it or none is visible.

    ``own``: the descriptor of this session's lease, which is no other session's under any name.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if own is not None and os.path.sameopenfile(descriptor, own):
            return None
        return None if try_lock(descriptor, fcntl.LOCK_SH) else _read_holder(descriptor)
    finally:
        os.close(descriptor)


def other_holder() -> Optional[Dict[str, Any]]:
    """Return the holder of this node's lease; only for an agent that does not have it itself."""
    for path in find_lease_paths():
        holder = find_holder(path)
        if holder is not None:
            return holder
    return None


class Lease:
    """This session's lease. ``open_door`` is called with the lease's path once the lock is ours: from then on another
    session can request it. It returns a function that closes the door again.
    """

    def __init__(self, open_door: Callable[[str], Callable[[], None]]) -> None:
        self._open_door = open_door
        self._close_door: Optional[Callable[[], None]] = None
        self._descriptor: Optional[int] = None
        self._stated: Dict[str, Any] = {}

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def take(self, owner: str, purpose: str, *, observe: str = "", left_s: Optional[float] = None) -> Dict[str, Any]:
        """Take the node, or renew the lease's text. Raises WireError("lease_held") if another session has it."""
        if self._descriptor is None:
            self._acquire()
            self._stated = {"since_wall_ns": time.time_ns(), "pid": os.getpid(), "quiet": False}
        self._stated.update(
            owner=owner[:OWNER_CHARACTERS], purpose=purpose[:PURPOSE_CHARACTERS], observe=observe[:OBSERVE_CHARACTERS]
        )
        self._stated["until_wall_ns"] = None if left_s is None else time.time_ns() + int(left_s * 1e9)
        self._write()
        return {"since_wall_ns": self._stated["since_wall_ns"]}

    def _acquire(self) -> None:
        descriptor, path = _open()
        try:
            for _ in range(TRIES):
                if try_lock(descriptor):
                    break
                time.sleep(TRY_AGAIN_S)
            else:
                raise build_lease_held_error(_read_holder(descriptor), path)
            for other in find_lease_paths():
                # Another user's lease has another path, and is as valid as ours.
                holder = find_holder(other, own=descriptor) if other != path else None
                if holder is not None:
                    raise build_lease_held_error(holder, other)
            self._close_door = self._open_door(path)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def mark_quiet(self, quiet: bool) -> None:
        """Signal to watching agents that a counted window begins (they keep quiet) or has ended."""
        if self._descriptor is not None:
            self._stated["quiet"] = quiet
            self._write()

    def tell(self, trial: Optional[TrialTold], left_s: Optional[float]) -> None:
        """Publish the running trial, or None, and how long its phase will last. Raises WireError("no_lease")."""
        if self._descriptor is None:
            raise WireError("no_lease", "this session does not hold the node, so it has no trial to announce")
        now_ns, before = time.time_ns(), self._stated.pop("trial", None)
        if trial is not None:
            same = before is not None and before["run_id"] == trial.run_id
            now = TrialNow(
                **trial.to_wire(),
                since_wall_ns=before["since_wall_ns"] if same else now_ns,
                phase_since_wall_ns=now_ns,
                phase_until_wall_ns=None if left_s is None else now_ns + int(left_s * 1e9),
            )
            self._stated["trial"] = now.to_wire()
        self._write()

    def holder(self) -> Optional[Dict[str, Any]]:
        """Return the holder of the node, us (``own``) or another session, or None if it is free."""
        if self._descriptor is not None:
            return dict(self._stated, own=True)
        holder = other_holder()
        return None if holder is None else dict(holder, own=False)

    def release(self) -> None:
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None
        if self._close_door is not None:
            # After the lock: a requester waits for the end of this socket and then tries the lock.
            self._close_door()
            self._close_door = None

    def _write(self) -> None:
        assert self._descriptor is not None
        data = json.dumps(self._stated).encode("ascii")
        # One write that also covers the longer text before it: a reader never finds half of one.
        os.pwrite(self._descriptor, data.ljust(os.fstat(self._descriptor).st_size), 0)


def _when(wall_ns: int) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(wall_ns // 1000000000))
    except (OverflowError, ValueError, OSError):
        return "an invalid time"


def build_lease_held_error(holder: Dict[str, Any], path: str = "") -> WireError:
    """Build the refusal, with owner, since, until and purpose, as far as the file has them."""
    owner = holder.get("owner") or "another session"
    text = "%s has this node" % owner
    if isinstance(holder.get("since_wall_ns"), int):
        text += " since %s" % _when(holder["since_wall_ns"])
    if isinstance(holder.get("until_wall_ns"), int):
        text += ", until about %s," % _when(holder["until_wall_ns"])
    if holder.get("purpose"):
        text += " for %s" % holder["purpose"]
    return WireError("lease_held", text, dict(holder, path=path))


# -- watch -------------------------------------------------------------------------------------------------------------
# Following another session's lease: the kernel reports changes (inotify), so nothing wakes a node that is being
# measured.
#
# The holder's agent writes into the lease when a counted window begins and ends. The file is closed when the agent
# ends, in whatever way, which is an event, too. The number of a user's watches is limited (128 by default, which a lab
# of a hundred agents on one machine comes near); an agent that gets none looks once a second.

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
