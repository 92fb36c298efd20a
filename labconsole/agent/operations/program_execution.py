"""Running one program for the console: bounded in time and output, and never outliving the agent."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any, Callable, List, Optional, Sequence, Set, Tuple

from labconsole.agent.operations import handles
from labconsole.agent.processes import children
from labconsole.wire.codec import WireError
from labconsole.wire.execution import Execute, Executed

OUTPUT_BYTES = 1024 * 1024
AFTER_EXIT_S = 0.5
"""How long a program's own children may write to its output after it has ended."""


async def _collect(stream: asyncio.StreamReader) -> Tuple[bytes, bool]:
    """Return the first OUTPUT_BYTES of a stream. The rest is read and discarded, or the program would block on it."""
    kept = bytearray()
    truncated = False
    while True:
        data = await stream.read(65536)
        if not data:
            return bytes(kept), truncated
        space = OUTPUT_BYTES - len(kept)
        kept += data[:space]
        truncated = truncated or len(data) > space


async def _feed(stream: asyncio.StreamWriter, data: bytes) -> None:
    try:
        stream.write(data)
        await stream.drain()
    except (BrokenPipeError, ConnectionResetError):
        return  # it did not want to read all of it
    finally:
        stream.close()


class Executor:
    """The running programs. ``find_entry_namespaces`` returns what a child enters for a namespace."""

    def __init__(self, to_enter: Callable[[str], Sequence[Any]]) -> None:
        self._to_enter = to_enter
        self._running: Set[children.Child] = set()

    @handles(Execute)
    async def run(self, request: Execute) -> Executed:
        argv, stdin, namespaces = request.argv, request.stdin, self._to_enter(request.namespace or "")
        if not argv:
            raise WireError("bad_request", "argv must be a list of at least one string")
        source = subprocess.DEVNULL if stdin is None else subprocess.PIPE
        try:
            process = await children.spawn(argv, stdin=source, namespaces=namespaces)
        except FileNotFoundError:
            raise WireError("command_missing", "%s is not installed on this node" % argv[0]) from None
        except PermissionError:
            raise WireError("no_permission", "no permission to run %s on this node" % argv[0]) from None
        except OSError as exc:
            raise WireError("exec_failed", "cannot run %s: %s" % (argv[0], exc.strerror)) from exc
        except subprocess.SubprocessError as exc:
            raise WireError("exec_failed", "cannot run %s: the namespace cannot be entered" % argv[0]) from exc
        self._running.add(process)
        try:
            return await self._wait(process, argv[0], request.timeout_s, stdin)
        finally:
            children.kill_group(process)
            await process.exited()
            process.close()
            self._running.discard(process)

    async def _wait(self, process: children.Child, name: str, timeout_s: float, stdin: Optional[str]) -> Executed:
        assert process.stdout is not None and process.stderr is not None
        tasks: List["asyncio.Task[Any]"] = [
            asyncio.ensure_future(_collect(process.stdout)),
            asyncio.ensure_future(_collect(process.stderr)),
        ]
        if stdin is not None and process.stdin is not None:
            tasks.append(asyncio.ensure_future(_feed(process.stdin, stdin.encode("utf-8", "surrogateescape"))))
        try:
            try:
                await asyncio.wait_for(process.exited(), timeout_s)
            except asyncio.TimeoutError:
                message = "%s had not ended after %g s and was killed" % (name, timeout_s)
                raise WireError("exec_timeout", message) from None
            await asyncio.wait(tasks[:2], timeout=AFTER_EXIT_S)
            # A process that still has the output open is a stray of the program's.
            children.kill_group(process)
            (out, out_cut), (err, err_cut) = await asyncio.wait_for(asyncio.gather(*tasks[:2]), AFTER_EXIT_S)
        except asyncio.TimeoutError:
            raise WireError("exec_failed", "%s ended, but something it started keeps its output open" % name) from None
        finally:
            for task in tasks:
                task.cancel()
        assert process.returncode is not None
        return Executed(
            exit_status=process.returncode,
            stdout=out.decode("utf-8", "replace"),
            stderr=err.decode("utf-8", "replace"),
            truncated=out_cut or err_cut,
        )

    def kill_all(self) -> None:
        for process in list(self._running):
            children.kill_group(process)
