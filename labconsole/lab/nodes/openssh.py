"""OpenSSH's sshd on a lab node: the node's own listener starts ``sshd -i`` for each connection, inside the node.

Root only: sshd's privilege separation calls setgroups(), which a user namespace without root forbids.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path

from labconsole.lab.nodes.sshd import ServerSettings
from labconsole.lab.prerequisites import tool
from labconsole.lab.state import write_private

_DIRECTORY = Path("/run/labconsole-sshd")
"""On the node's private /run: keys vanish with the node."""


class SshListener:
    """Accepts connections and starts an sshd for each."""

    def __init__(self, listener: socket.socket, argv: list[str], settings: ServerSettings) -> None:
        self._listener, self._argv, self._settings = listener, argv, settings
        listener.setblocking(False)
        self._log = os.open(_DIRECTORY / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        asyncio.get_running_loop().add_reader(listener.fileno(), self._accept)

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            connection, _ = self._listener.accept()
            with connection:
                connection.setblocking(True)
                descriptor = connection.fileno()
                self._settings.children.start(
                    self._argv,
                    stdin=descriptor,
                    stdout=descriptor,
                    stderr=self._log,
                    environment={"PATH": self._settings.environment["PATH"]},
                    directory="/",
                )

    def close(self) -> None:
        """Stop accepting."""
        asyncio.get_running_loop().remove_reader(self._listener.fileno())
        self._listener.close()


def serve(listener: socket.socket, settings: ServerSettings, *, host_key: str, client_key: str) -> SshListener:
    """Write sshd's files below /run and accept connections. ``host_key`` is private, ``client_key`` public."""
    _DIRECTORY.mkdir(mode=0o700)
    # Debian's sshd insists on this directory, which its service unit makes.
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    write_private(_DIRECTORY / "host_key", host_key)
    write_private(_DIRECTORY / "authorized_keys", client_key)
    write_private(
        _DIRECTORY / "config",
        "\n".join(
            (
                f"HostKey {_DIRECTORY}/host_key",
                f"AuthorizedKeysFile {_DIRECTORY}/authorized_keys",
                "PasswordAuthentication no",
                "KbdInteractiveAuthentication no",
                "PermitRootLogin prohibit-password",
                "StrictModes no",
                "UsePAM no",
                "UseDNS no",
                "PidFile none",
                "PrintMotd no",
                "MaxSessions 64",
                f"SetEnv PATH={settings.environment['PATH']}",
                "",
            )
        ),
    )
    sshd = tool("sshd")
    assert sshd is not None, "checked before the lab was built"
    return SshListener(listener, [sshd, "-i", "-e", "-f", str(_DIRECTORY / "config")], settings)
