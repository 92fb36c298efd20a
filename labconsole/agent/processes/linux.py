"""The few system calls that Python 3.9 has no function for: prctl, setns, unshare, mount, inotify, kcmp, by ctypes.

The first four act on the calling thread. ``run_in_namespace`` uses that: a thread of its own enters a network
namespace, does one piece of work there and ends, so the rest of the agent never leaves its own namespace.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import threading
from typing import Any, Callable, List, Optional, Sequence, Tuple

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
MS_PRIVATE_RECURSIVE = 0x44000
IN_MODIFY = 0x2
IN_CLOSE_WRITE = 0x8
KCMP_VM = 1
KCMP_NUMBERS = {"x86_64": 312, "aarch64": 272, "riscv64": 272, "armv7l": 378, "i686": 349, "ppc64le": 354, "s390x": 343}
"""Numbers of the system call by machine: libc has no function for it."""

# Resolved once and before any fork: looking a symbol up between fork and exec could wait for a lock of the loader's.
_libc = ctypes.CDLL(None, use_errno=True)
_prctl = _libc.prctl
_setns = _libc.setns
_unshare = _libc.unshare
_mount = _libc.mount
_inotify_init1 = _libc.inotify_init1
_inotify_add_watch = _libc.inotify_add_watch
_syscall = _libc.syscall


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))


def die_with_parent(signal_number: int, parent: int) -> None:
    """Make the kernel send ``signal_number`` to this process when ``parent`` (its thread that forked) ends.

    If the parent has ended before the call, this process ends at once.
    """
    _prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def same_memory(pid: int, other: int) -> bool:
    """Whether two processes share one memory. Raises OSError if the kernel does not compare, or one of them has
    ended.
    """
    number = KCMP_NUMBERS.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, "the system call number of kcmp(2) on this machine is not known")
    result = _syscall(number, pid, other, KCMP_VM, 0, 0)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, "comparing the memory of two processes: %s" % os.strerror(code))
    return bool(result == 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _check(_prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "cannot become the parent of orphans")


class _Filter(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def _setgroups_filter() -> Optional[Tuple[_Filter, Any]]:
    """Return a seccomp program by which setgroups(2) does nothing and succeeds, or None on an unknown machine."""
    numbers = {"x86_64": (0xC000003E, 116), "aarch64": (0xC00000B7, 159), "riscv64": (0xC00000F3, 159)}
    found = numbers.get(os.uname().machine)
    if found is None or struct.calcsize("P") != 8:
        return None
    architecture, setgroups = found
    load, jump_if_equal, give_back, allow, succeed = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000
    instructions = [
        (load, 0, 0, 4),  # seccomp_data.arch
        (jump_if_equal, 0, 3, architecture),
        (load, 0, 0, 0),  # seccomp_data.nr
        (jump_if_equal, 0, 1, setgroups),
        (give_back, 0, 0, succeed),
        (give_back, 0, 0, allow),
    ]
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in instructions))
    return _Filter(len(instructions), ctypes.addressof(program)), program


_ignore_setgroups = _setgroups_filter()


def setgroups_is_denied() -> bool:
    """Whether this is a user namespace made without privilege, in which root may not change groups either."""
    try:
        with open("/proc/self/setgroups", encoding="ascii") as setting:
            return setting.read().strip() == "deny"
    except OSError:
        return False


def ignore_setgroups() -> None:
    """Make setgroups(2) succeed without effect for this process and the programs it executes.

    tcpdump insists on calling it before it captures, also to stay root. If the kernel has no seccomp, nothing changes,
    and tcpdump itself reports what it may not do.
    """
    if _ignore_setgroups is not None:
        _prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(_ignore_setgroups[0]), 0, 0)


def setns(descriptor: int, kind: int) -> None:
    _check(_setns(descriptor, kind), "cannot enter a namespace")


def unshare(flags: int) -> None:
    _check(_unshare(flags), "cannot make a namespace")


def mount(source: Optional[bytes], target: bytes, kind: Optional[bytes], flags: int) -> None:
    _check(_mount(source, target, kind, flags, None), "cannot mount on %s" % target.decode("ascii", "replace"))


def watch_files(directories: Sequence[str]) -> int:
    """Return a descriptor that becomes readable when a file in one of these is written to, or closed by a writer."""
    descriptor = int(_inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    _check(min(descriptor, 0), "cannot watch files")
    for path in directories:
        watch = int(_inotify_add_watch(descriptor, os.fsencode(path), IN_MODIFY | IN_CLOSE_WRITE))
        try:
            _check(min(watch, 0), "cannot watch %s" % path)
        except OSError:
            os.close(descriptor)
            raise
    return descriptor


def run_in_namespace(descriptor: Optional[int], work: Callable[[], Any]) -> Any:
    """Call ``work()`` inside the network namespace ``descriptor``, or None for the current one, in its own thread;
    blocks.

    A thread also for None: pyroute2's ``IPRoute`` has an event loop of its own, which must not meet the agent's.
    """
    result: List[Any] = []
    failure: List[BaseException] = []

    def run() -> None:
        try:
            if descriptor is not None:
                setns(descriptor, CLONE_NEWNET)
            result.append(work())
        except BaseException as exc:  # noqa: BLE001 - passed to the caller below, whatever it is
            failure.append(exc)

    thread = threading.Thread(target=run, name="namespace")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]
