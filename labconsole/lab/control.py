"""The lab's control protocol: one JSON object per line, a request with ``id`` and ``op``, an answer with ``id``.

Used on a unix socket in the lab's directory (only its owner may enter), between the supervisor and each node, and into
a machine that runs a whole lab. An answer has ``ok`` or ``error``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from labconsole.errors import LabSetupError

SOCKET = "control"
MAX_LINE_BYTES = 32 * 1024 * 1024
Handler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class Refused(Exception):
    """Raised by a handler that cannot fulfil a request; the text is the answer."""


def listen(directory: Path) -> socket.socket:
    """Open the lab's control socket, bound through the directory's descriptor: a path may be longer than the 108 bytes
    of sun_path.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET, dir_fd=descriptor)
        listener.bind(f"/proc/self/fd/{descriptor}/{SOCKET}")
    finally:
        os.close(descriptor)
    listener.listen(16)
    return listener


def request(directory: Path, op: str, *, wait_s: float = 10.0, **arguments: Any) -> dict[str, Any]:
    """Send a request to the lab's supervisor. Raises LabSetupError if it does not answer or refuses."""
    with connected(directory, wait_s) as connection:
        return ask(connection, directory.name, op, wait_s=wait_s, **arguments)


@contextlib.contextmanager
def connected(directory: Path, wait_s: float) -> Iterator[socket.socket]:
    """Connect to the lab's supervisor for several requests. Raises LabSetupError."""
    name = directory.name
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as exc:
        raise LabSetupError(f"the lab {name} is not up; run `labconsole lab up`") from exc
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.settimeout(wait_s)
            connection.connect(f"/proc/self/fd/{descriptor}/{SOCKET}")
        except OSError as exc:
            raise LabSetupError(f"the lab {name} does not answer ({exc}); run `labconsole lab down`") from exc
        finally:
            os.close(descriptor)
        yield connection


def ask(connection: socket.socket, name: str, op: str, *, wait_s: float, **arguments: Any) -> dict[str, Any]:
    """Send one request on a connection. Raises LabSetupError."""
    try:
        connection.settimeout(wait_s)
        connection.sendall(json.dumps({"id": 1, "op": op, **arguments}).encode() + b"\n")
        answer = json_line(connection)
    except TimeoutError as exc:
        raise LabSetupError(f"the lab {name} did not answer {op!r} within {wait_s:g} s") from exc
    except (OSError, EOFError) as exc:
        raise LabSetupError(f"the lab {name} does not answer ({exc}); run `labconsole lab down`") from exc
    if "error" in answer:
        raise LabSetupError(f"lab {name}: {answer['error']}")
    if not isinstance(answer.get("ok"), dict):
        raise LabSetupError(f"the lab {name} gave an invalid answer to {op!r}")
    return dict(answer["ok"])


def parsed(line: bytes) -> dict[str, Any]:
    """Parse one line as a message. Raises ConnectionError if it is not one; the connection is then given up."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise ConnectionError("a line is not JSON") from exc
    if not isinstance(message, dict):
        raise ConnectionError("a line is not a JSON object")
    return message


def read_line(connection: socket.socket) -> bytes:
    """Read one line from a blocking socket that sends nothing after its answer. Raises EOFError or ConnectionError."""
    received = bytearray()
    while not received.endswith(b"\n"):
        if len(received) > MAX_LINE_BYTES:
            raise ConnectionError(f"a line is longer than {MAX_LINE_BYTES} bytes")
        chunk = connection.recv(65536)
        if not chunk:
            raise EOFError("closed")
        received += chunk
    return bytes(received)


def json_line(connection: socket.socket) -> dict[str, Any]:
    """Read one message from a blocking socket. Raises EOFError or ConnectionError."""
    return parsed(read_line(connection))


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Write one line to a blocking socket."""
    connection.sendall(json.dumps(message).encode() + b"\n")


class Peer:
    """One end of a connection on which both sides may send requests, several of them at once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler | None) -> None:
        self._reader, self._writer, self._handler = reader, writer, handler
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._next = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.closed = False
        self.afterwards: dict[str, Any] | None = None
        """A request that the other side, after an earlier one succeeded, leaves to be done when its connection ends."""

    async def ask(self, op: str, wait_s: float, **arguments: Any) -> dict[str, Any]:
        """Send a request and return the answer. Raises Refused, or TimeoutError."""
        if self.closed:
            raise Refused("its process has ended")
        self._next += 1
        number = self._next
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._write({"id": number, "op": op, **arguments})
        try:
            async with asyncio.timeout(wait_s):
                answer = await future
        finally:
            self._waiting.pop(number, None)
        if "error" in answer:
            raise Refused(str(answer["error"]))
        if not isinstance(answer.get("ok"), dict):
            raise Refused("its answer is invalid")
        return dict(answer["ok"])

    def announce(self, message: dict[str, Any]) -> None:
        """Send an unsolicited message."""
        self._write(message)

    async def serve(self) -> None:
        """Read until the other side closes."""
        try:
            while line := await self._reader.readline():
                message = parsed(line)
                if "op" in message:
                    task = asyncio.get_running_loop().create_task(self._answer(message))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                elif (future := self._waiting.get(_number(message))) is not None and not future.done():
                    future.set_result(message)
        except (ConnectionError, ValueError, asyncio.LimitOverrunError):
            return
        finally:
            self.closed = True
            for future in self._waiting.values():
                if not future.done():
                    future.set_result({"error": "its process has ended"})
            self._writer.close()

    async def finish(self) -> None:
        """Let running requests finish, although the other side no longer waits for the answers."""
        await asyncio.gather(*self._tasks)

    async def _answer(self, message: dict[str, Any]) -> None:
        if self._handler is None:
            return
        afterwards = message.pop("afterwards", None)
        try:
            answer = {"id": message.get("id"), "ok": await self._handler(message)}
            self.afterwards = afterwards or self.afterwards
        except Refused as exc:
            answer = {"id": message.get("id"), "error": str(exc)}
        except TimeoutError:
            answer = {"id": message.get("id"), "error": f"{message['op']} took too long"}
        except (KeyError, TypeError, ValueError) as exc:
            answer = {"id": message.get("id"), "error": f"not a request: {type(exc).__name__}: {exc}"}
        self._write(answer)

    def _write(self, message: dict[str, Any]) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")


def _number(message: dict[str, Any]) -> int:
    number = message.get("id")
    return number if isinstance(number, int) else -1


async def open_peer(connection: socket.socket, handler: Handler | None) -> Peer:
    """Make a peer on a connected stream socket."""
    connection.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=connection, limit=MAX_LINE_BYTES)
    return Peer(reader, writer, handler)


async def serve_socket(listener: socket.socket, handler: Handler) -> asyncio.Server:
    """Serve the clients of the lab's control socket."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer, handler)
        await peer.serve()
        await peer.finish()
        if peer.afterwards is not None:
            try:
                await handler(dict(peer.afterwards))
            except (Refused, TimeoutError, KeyError, TypeError, ValueError) as exc:
                print(f"{peer.afterwards}, requested by a client that left: {exc}", file=sys.stderr, flush=True)

    listener.setblocking(False)
    return await asyncio.start_unix_server(connected, sock=listener, limit=MAX_LINE_BYTES)
