"""Listening sockets in the host's network namespace, for a process that has left it.

A lab's first process lives in namespaces of its own. To bring a node back it needs a new socket at the node's address,
so it keeps a child that stayed outside, and gets the socket from there.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from labconsole.errors import LabSetupError
from labconsole.lab.layout import SSH_PORT
from labconsole.lab.nodes import kernel

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
                kernel.die_with_parent(9)
                kernel.set_process_name("lab-outside")
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
