"""The two ends of the connection: lines in from stdin, lines out to stdout, neither ever blocking the event loop.

The decision here: a console that does not read must not stall the node. Samples are dropped (and counted by their
producer) once DROP_ABOVE_BYTES wait to be written; replies are kept up to GIVE_UP_BYTES, beyond which the console
counts as gone.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, Callable, Dict, List

from labconsole.wire import codec

DROP_ABOVE_BYTES = 1024 * 1024
GIVE_UP_BYTES = 64 * 1024 * 1024
READ_BYTES = 1024 * 1024


class Inlet:
    """Calls ``on_line`` for every line of ``descriptor`` and ``on_end`` once at its end."""

    def __init__(
        self,
        descriptor: int,
        on_line: Callable[[bytes], None],
        on_too_long: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        self._fd, self._on_line, self._on_too_long, self._on_end = descriptor, on_line, on_too_long, on_end
        self._parts: List[bytes] = []
        self._size = 0
        self._skipping = False
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)
        try:
            self._loop.add_reader(descriptor, self._readable)
        except PermissionError:
            # A file or /dev/null cannot be waited for; it is never used for the protocol.
            self._loop.call_soon(on_end)

    def close(self) -> None:
        self._loop.remove_reader(self._fd)

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""  # a reset connection is an end, too
        if not data:
            self.close()
            self._on_end()
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._complete(line)
        self._keep(rest)

    def _keep(self, part: bytes) -> None:
        if self._skipping or not part:
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size > codec.MAX_LINE_BYTES:
            self._parts, self._size, self._skipping = [], 0, True
            self._on_too_long()

    def _complete(self, part: bytes) -> None:
        self._keep(part)
        line, skipped = b"".join(self._parts), self._skipping
        self._parts, self._size, self._skipping = [], 0, False
        if not skipped and line.strip():
            self._on_line(line)


class Outlet:
    """Writes messages to ``descriptor`` as fast as they are read there."""

    def __init__(self, descriptor: int, on_lost: Callable[[], None]) -> None:
        self._fd, self._on_lost = descriptor, on_lost
        self._waiting = bytearray()
        self._watched = False
        self._lost = False
        self._room = asyncio.Event()
        self._room.set()
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)

    def send(self, message: Dict[str, Any]) -> None:
        """Queue a message that must arrive."""
        self._write(codec.encode(message))

    def offer(self, message: Dict[str, Any]) -> bool:
        """Queue a message that may be dropped; returns False if it was."""
        if not self.has_room:
            return False
        self._write(codec.encode(message))
        return True

    @property
    def has_room(self) -> bool:
        return len(self._waiting) <= DROP_ABOVE_BYTES

    async def room(self) -> None:
        """Return when there is room again."""
        await self._room.wait()

    async def drained(self) -> None:
        while self._waiting and not self._lost:
            await asyncio.sleep(0.005)  # no event for "empty": used once, just before the end

    def _write(self, line: bytes) -> None:
        if self._lost:
            return
        self._waiting += line
        if not self._watched:
            self._writable()
        if len(self._waiting) > GIVE_UP_BYTES:
            self._lose()
        elif not self.has_room:
            self._room.clear()

    def _writable(self) -> None:
        try:
            while self._waiting:
                # 64 KiB, the size of a pipe; a longer slice would only be copied for nothing.
                written = os.write(self._fd, self._waiting[:65536])
                del self._waiting[:written]
        except (BlockingIOError, InterruptedError):
            if not self._watched:
                self._watched = True
                self._loop.add_writer(self._fd, self._writable)
        except OSError:
            self._lose()
            return
        if not self._waiting and self._watched:
            self._unwatch()
        if self.has_room:
            self._room.set()

    def _unwatch(self) -> None:
        self._watched = False
        self._loop.remove_writer(self._fd)

    def _lose(self) -> None:
        self._lost = True
        self._waiting.clear()
        self._room.set()
        if self._watched:
            self._unwatch()
        self._on_lost()


Notice = Callable[[str, str], None]
"""notice(code, message): sends the console an unsolicited message."""
