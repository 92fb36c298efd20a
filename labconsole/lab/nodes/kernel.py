"""The system calls that make a lab, through ctypes, and listening sockets in the host's network namespace."""

from __future__ import annotations

import ctypes
import os
import socket
from contextlib import suppress
from pathlib import Path

from labconsole.errors import LabSetupError
from labconsole.lab.spec import SSH_PORT

# -- system calls ------------------------------------------------------------------------------------------------------
# The system calls that make a lab, through ctypes: unshare, setns, mount, prctl, capabilities.
#
# Python 3.12 has os.unshare and os.setns, 3.11 does not, and neither has the others.

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave the namespaces named by the flags for new ones. CLONE_NEWPID takes effect for the next child."""
    _check(_libc.unshare(ctypes.c_int(flags)), f"unshare(0x{flags:x})")


def setns(descriptor: int, kind: int) -> None:
    """Enter a namespace."""
    _check(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(kind)), "setns")


def mount(source: str, target: str, kind: str | None, flags: int = 0, options: str | None = None) -> None:
    """mount(2)."""
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode() if kind else None, flags, options.encode() if options else None
    )
    _check(result, f"mount {kind or source} on {target}")


def make_mounts_private() -> None:
    """Hide later mounts from all other processes."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)


def die_with_parent(signal_number: int) -> None:
    """Request a signal when the parent ends. The caller still has to check that the parent is alive now."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def set_process_name(name: str) -> None:
    """Set the name that ``ps -o comm`` shows; the kernel keeps 15 bytes."""
    buffer = ctypes.create_string_buffer(name.encode()[:15])
    _check(_libc.prctl(_PR_SET_NAME, ctypes.addressof(buffer), 0, 0, 0), "prctl(PR_SET_NAME)")


class _CapHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapData(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def keep_capabilities() -> None:
    """Make all capabilities of this process survive execve() although its user is not root.

    A mapped root would be simpler, but tcpdump then tries to give up privileges with setgroups(), which a user
    namespace forbids. With an unchanged user and ambient capabilities, it does not try.
    """
    header = _CapHeader(_CAPABILITY_VERSION_3, 0)
    data = (_CapData * 2)()
    _check(_libc.capget(ctypes.byref(header), data), "capget")
    for word in data:
        word.inheritable = word.permitted
    _check(_libc.capset(ctypes.byref(header), data), "capset")
    for number in range(64):
        if data[number // 32].permitted & (1 << number % 32):
            _check(_libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, number, 0, 0), f"ambient capability {number}")


def enter_user_namespace() -> None:
    """Enter a user namespace in which this user keeps his identity and has every capability over the objects made in
    it.
    """
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    keep_capabilities()


# -- listeners ---------------------------------------------------------------------------------------------------------
# Listening sockets in the host's network namespace, for a process that has left it.
#
# A lab's first process lives in namespaces of its own. To bring a node back it needs a new socket at the node's
# address, so it keeps a child that stayed outside, and gets the socket from there.

BACKLOG = 64
_ANSWER_S = 10.0


def listen(address: str) -> socket.socket:
    """Listen on a node's address. Raises OSError."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, SSH_PORT))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


class HostListeners:
    """The child outside. Made before the namespaces are entered; it ends with its parent."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair()
        if os.fork() == 0:
            try:
                # Closes everything else that was open here: a copy of a node's socket would keep its address in use.
                os.dup2(theirs.fileno(), 3)
                os.closerange(4, os.sysconf("SC_OPEN_MAX"))
                die_with_parent(9)
                set_process_name("lab-outside")
                _serve(socket.socket(fileno=3))
            finally:
                os._exit(0)
        theirs.close()
        self._channel.settimeout(_ANSWER_S)

    def listen(self, address: str) -> socket.socket:
        """Get a socket that listens outside. Raises LabSetupError."""
        try:
            self._channel.sendall(address.encode())
            text, descriptors, _, _ = socket.recv_fds(self._channel, 4096, 1)
        except OSError as exc:
            raise LabSetupError(f"cannot listen on {address}: {exc}") from exc
        if not descriptors:
            raise LabSetupError(f"cannot listen on {address}: {text.decode() or 'no answer'}")
        return socket.socket(fileno=descriptors[0])


def _serve(channel: socket.socket) -> None:
    while address := channel.recv(256):
        with suppress(BrokenPipeError):
            try:
                with listen(address.decode()) as listener:
                    socket.send_fds(channel, [b"ok"], [listener.fileno()])
            except OSError as exc:
                channel.sendall(str(exc).encode())
