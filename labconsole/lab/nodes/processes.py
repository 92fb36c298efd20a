"""Children of a node's init: started, reaped and reported in one place.

Process 1 of a PID namespace inherits every orphan in it and has to reap them all, which asyncio's own child watching
and subprocess.Popen.wait() would race with. So one SIGCHLD handler calls waitpid(-1) and notifies the waiting code.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Finished:
    """Output and status of a short command."""

    status: int
    """Exit status, or minus the signal that ended it."""
    stdout: bytes
    stderr: bytes
    truncated: bool


class Children:
    """The one place that starts and reaps processes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[int, asyncio.Future[int]] = {}
        loop.add_signal_handler(signal.SIGCHLD, self._reap)

    def start(
        self,
        argv: Sequence[str],
        *,
        stdin: int,
        stdout: int,
        stderr: int,
        environment: Mapping[str, str],
        directory: str,
        before_exec: Callable[[], None] | None = None,
    ) -> tuple[int, asyncio.Future[int]]:
        """Start a process in a session of its own; return its id and the future of its status.

        Raises OSError if it cannot be started.
        """
        process = subprocess.Popen(
            list(argv),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=dict(environment),
            cwd=directory,
            start_new_session=True,
            preexec_fn=before_exec,
        )
        # Popen must neither wait for it nor keep it for a later wait: its __del__ does so unless a status is known.
        process.returncode = 0
        future: asyncio.Future[int] = self._loop.create_future()
        self._waiting[process.pid] = future
        return process.pid, future

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            future = self._waiting.pop(pid, None)
            if future is not None and not future.done():
                future.set_result(os.waitstatus_to_exitcode(status))

    async def run(
        self, argv: Sequence[str], *, environment: Mapping[str, str], directory: str, timeout_s: float, limit_bytes: int
    ) -> Finished:
        """Run a short command. Raises OSError if it cannot start, TimeoutError if it had to be killed."""
        readers, ends = [], []
        for _ in range(2):
            receive, send = os.pipe()
            readers.append(os.fdopen(receive, "rb", buffering=0))
            ends.append(send)
        try:
            pid, ended = self.start(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=ends[0],
                stderr=ends[1],
                environment=environment,
                directory=directory,
            )
        except OSError:
            for reader in readers:
                reader.close()
            raise
        finally:
            for end in ends:
                os.close(end)
        try:
            async with asyncio.timeout(timeout_s):
                texts = await asyncio.gather(*(_collect(reader, limit_bytes) for reader in readers))
                status = await ended
        except TimeoutError:
            if not ended.done():
                os.killpg(pid, signal.SIGKILL)
            raise
        return Finished(status, texts[0][0], texts[1][0], texts[0][1] or texts[1][1])


async def _collect(pipe: object, limit_bytes: int) -> tuple[bytes, bool]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    kept, truncated = bytearray(), False
    try:
        while chunk := await reader.read(65536):
            room = limit_bytes - len(kept)
            kept += chunk[:room]
            truncated |= len(chunk) > room
    finally:
        transport.close()
    return bytes(kept), truncated
