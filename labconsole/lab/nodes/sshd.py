"""The SSH servers of a lab node, one on asyncssh and OpenSSH's own sshd, and the keys of a lab."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import socket
import struct
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from labconsole.lab.nodes.processes import Children
from labconsole.lab.prerequisites import tool
from labconsole.lab.state import write_private

# -- keys --------------------------------------------------------------------------------------------------------------
# The keys of a lab: one for the client, one per node, made afresh at every ``up``.


@dataclass(frozen=True)
class LabKeys:
    """Private keys in OpenSSH's format, public ones as a line."""

    client_private: str
    client_public: str
    host_private: dict[str, str]
    host_public: dict[str, str]


def new_keys(nodes: Sequence[str]) -> LabKeys:
    """Make Ed25519 keys: one takes a tenth of a millisecond, so each node has its own even in a lab of two hundred."""
    client = asyncssh.generate_private_key("ssh-ed25519", comment="labconsole-lab")
    hosts = {name: asyncssh.generate_private_key("ssh-ed25519", comment=name) for name in nodes}
    return LabKeys(
        client.export_private_key().decode(),
        client.export_public_key().decode(),
        {name: key.export_private_key().decode() for name, key in hosts.items()},
        {name: key.export_public_key().decode() for name, key in hosts.items()},
    )


# -- on asyncssh -------------------------------------------------------------------------------------------------------
# The SSH server of a lab node, on asyncssh: keys only, one command or shell per channel, binary-safe streams.
#
# When the client's end goes away the command's stdin ends and nothing is killed: OpenSSH's sshd does the same for a
# command without a terminal, and labconsole's agent relies on it.

_SIGNALS = {s.name.removeprefix("SIG"): s for s in signal.Signals}
_CHUNK_BYTES = 256 * 1024
_PIPE_BYTES = 1024 * 1024
"""The kernel's limit for unprivileged users (/proc/sys/fs/pipe-max-size); an agent's line of JSON can be long."""

_DRAIN_S = 1.0


@dataclass(frozen=True)
class ServerSettings:
    """The shared settings of all sessions of a node."""

    children: Children
    environment: Mapping[str, str]
    directory: str
    shell: str


class NodeServer(asyncssh.SSHServer):
    """Accepts one key and opens sessions."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Remember the connection, which makes the channels."""
        self._connection = conn

    def session_requested(self) -> Any:
        """Make a channel without text conversion."""
        assert self._connection is not None
        return self._connection.create_server_channel(encoding=None), NodeSession(self._settings)


class NodeSession(asyncssh.SSHServerSession[bytes]):
    """One channel: one command, its three streams and its status."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._channel: Any = None
        self._command: str | None = None
        self._terminal: tuple[str, tuple[int, int, int, int]] | None = None
        self._master: int | None = None
        self._pid: int | None = None
        self._input: _Input | None = None
        self._early: list[bytes] = []
        self._early_eof = False
        self._started = False
        self._outputs: list[asyncio.ReadTransport] = []
        self._open_outputs = 0
        self._outputs_done = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, chan: Any) -> None:
        """The channel is open; the request for a command follows."""
        self._channel = chan

    def pty_requested(
        self, term_type: str, term_size: tuple[int, int, int, int], term_modes: Mapping[int, int]
    ) -> bool:
        """Accept a terminal for the command."""
        self._terminal = (term_type, term_size)
        return True

    def shell_requested(self) -> bool:
        """Accept a session without a command: a shell."""
        return True

    def exec_requested(self, command: str) -> bool:
        """Accept one command, run by sh as sshd would run it."""
        self._command = command
        return True

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        """Pass the new size on."""
        if self._master is not None:
            _set_size(self._master, (width, height, pixwidth, pixheight))

    def session_started(self) -> None:
        """Start the requested command."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Pass input to the command."""
        if self._input is not None and self._started:
            self._input.write(data)
        else:
            self._early.append(data)

    def eof_received(self) -> bool:
        """The client sends no more; its own end stays open for the output."""
        self._early_eof = True
        if self._input is not None and self._started:
            self._input.end()
        return True

    def signal_received(self, signal: str) -> None:
        """Signal the command's process group, as sshd does."""
        number = _SIGNALS.get(signal)
        if number is not None and self._pid is not None:
            try:
                os.killpg(self._pid, number)
            except ProcessLookupError:
                return

    def break_received(self, msec: int) -> bool:
        """Treat a break as an interrupt."""
        self.signal_received("INT")
        return True

    def pause_writing(self) -> None:
        """The client is slow: stop reading the command's output."""
        for output in self._outputs:
            output.pause_reading()

    def resume_writing(self) -> None:
        """The client has caught up: read on."""
        for output in self._outputs:
            output.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: end the command's input. The command may finish its work."""
        self._channel = None
        self._early_eof = True
        if self._input is not None and self._started:
            self._input.end()
        for output in self._outputs:
            output.close()
        self._outputs_done.set()
        if self._master is not None and self._pid is not None:
            # A terminal that goes away hangs up, in sshd as well.
            self.signal_received("HUP")

    async def _run(self) -> None:
        try:
            ended = await (self._start_on_terminal() if self._terminal else self._start_on_pipes())
        except OSError as exc:
            if self._channel is not None:
                self._channel.write_stderr(f"cannot start: {exc}\n".encode())
                self._channel.exit(127)
            return
        assert self._input is not None
        for data in self._early:
            self._input.write(data)
        self._early.clear()
        self._started = True
        if self._early_eof:
            self._input.end()
        status = await ended
        # A background process may keep the streams open for ever; sshd closes the channel then as well.
        try:
            async with asyncio.timeout(_DRAIN_S if self._terminal else None):
                await self._outputs_done.wait()
        except TimeoutError:
            self._outputs_done.set()
        self._input.end()
        for output in self._outputs:
            output.close()
        if self._channel is None:
            return
        if status >= 0:
            self._channel.exit(status)
        else:
            name = signal.Signals(-status).name.removeprefix("SIG")
            self._channel.exit_with_signal(name, False)

    def _argv(self) -> list[str]:
        if self._command is not None:
            return ["/bin/sh", "-c", self._command]
        return [self._settings.shell]

    async def _start_on_pipes(self) -> asyncio.Future[int]:
        pipes = [os.pipe() for _ in range(3)]
        (stdin, to_stdin), (from_stdout, stdout), (from_stderr, stderr) = pipes
        try:
            self._pid, ended = self._settings.children.start(
                self._argv(),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                environment=self._settings.environment,
                directory=self._settings.directory,
            )
        except OSError:
            for end in (to_stdin, from_stdout, from_stderr):
                os.close(end)
            raise
        finally:
            for end in (stdin, stdout, stderr):
                os.close(end)
        for end in (to_stdin, from_stdout):
            _enlarge(end)
        self._input = await _Input.open(to_stdin, self._pause, self._resume)
        await self._read_from(from_stdout, self._write)
        await self._read_from(from_stderr, self._write_stderr)
        return ended

    async def _start_on_terminal(self) -> asyncio.Future[int]:
        assert self._terminal is not None
        kind, size = self._terminal
        master, slave = pty.openpty()
        _set_size(master, size)
        environment = {**self._settings.environment, "TERM": kind or "dumb"}
        try:
            self._pid, ended = self._settings.children.start(
                self._argv(),
                stdin=slave,
                stdout=slave,
                stderr=slave,
                environment=environment,
                directory=self._settings.directory,
                before_exec=_take_terminal,
            )
        except OSError:
            os.close(master)
            raise
        finally:
            os.close(slave)
        self._master = master
        self._input = await _Input.open(os.dup(master), self._pause, self._resume, terminal=True)
        await self._read_from(master, self._write)
        return ended

    async def _read_from(self, descriptor: int, write: Callable[[bytes], None]) -> None:
        self._open_outputs += 1
        file = os.fdopen(descriptor, "rb", buffering=0)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: _Output(write, self._output_ended), file)
        self._outputs.append(transport)
        if self._channel is None:
            transport.close()

    def _write(self, data: bytes) -> None:
        if self._channel is not None:
            self._channel.write(data)

    def _write_stderr(self, data: bytes) -> None:
        if self._channel is not None:
            self._channel.write_stderr(data)

    def _output_ended(self) -> None:
        self._open_outputs -= 1
        if self._open_outputs == 0:
            self._outputs_done.set()

    def _pause(self) -> None:
        if self._channel is not None:
            self._channel.pause_reading()

    def _resume(self) -> None:
        if self._channel is not None:
            self._channel.resume_reading()


class _Input(asyncio.Protocol):
    """The command's stdin. A command that does not read stops the client, instead of filling this server's memory."""

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None], terminal: bool) -> None:
        self._pause, self._resume, self._terminal = pause, resume, terminal
        self._transport: asyncio.WriteTransport | None = None

    @classmethod
    async def open(
        cls, descriptor: int, pause: Callable[[], None], resume: Callable[[], None], *, terminal: bool = False
    ) -> _Input:
        """Own the writing end of a descriptor."""
        file = os.fdopen(descriptor, "wb", buffering=0)
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(lambda: cls(pause, resume, terminal), file)
        protocol._transport = transport
        return protocol

    def write(self, data: bytes) -> None:
        """Write input for the command; if the command no longer reads, it is dropped, as by a broken pipe."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def end(self) -> None:
        """End the input once everything passed so far is written."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._terminal:
            self._transport.write(b"\x04")
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def pause_writing(self) -> None:
        """The pipe is full: pause the client."""
        self._pause()

    def resume_writing(self) -> None:
        """The pipe has room again: let the client send."""
        # Not at once: asyncio's pipe transport calls this in the middle of its own writing. Input and end of input that
        # arrive within the call make it close the pipe with the input still in its buffer (CPython 3.11 to 3.13).
        asyncio.get_running_loop().call_soon(self._resume)

    def connection_lost(self, exc: Exception | None) -> None:
        """The command closed its stdin: let the client send, and discard its input."""
        self._resume()


class _Output(asyncio.Protocol):
    """The command's stdout or stderr."""

    def __init__(self, write: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._write, self._ended = write, ended

    def data_received(self, data: bytes) -> None:
        """Pass the output on."""
        self._write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """All output has been read. (A terminal ends with EIO, which is its end of file.)"""
        self._ended()


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _set_size(descriptor: int, size: tuple[int, int, int, int]) -> None:
    width, height, pixel_width, pixel_height = size
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, pixel_width, pixel_height))


def _enlarge(descriptor: int) -> None:
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except PermissionError:
        # The user's share of pipe memory is used up (pipe-user-pages-soft); the default size works, only slower.
        return


# -- OpenSSH -----------------------------------------------------------------------------------------------------------
# OpenSSH's sshd on a lab node: the node's own listener starts ``sshd -i`` for each connection, inside the node.
#
# Root only: sshd's privilege separation calls setgroups(), which a user namespace without root forbids.

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
