"""The operations capture.*: the captures of a session, by the names the console gave them."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any, Callable, Dict, Optional, Sequence, Union

from labconsole.agent.capture import RunningCapture, require_space, tcpdump_argv
from labconsole.agent.capture_dir import CaptureFile, default_directory
from labconsole.agent.keeper import UndoJournal
from labconsole.agent.operations import handles
from labconsole.agent.processes import children
from labconsole.agent.reading import facts
from labconsole.packets.flows import MAX_BINS
from labconsole.wire.capture import (
    CaptureResult,
    CaptureStarted,
    CountedSoFar,
    DrainCapture,
    StartCapture,
    StopCapture,
)
from labconsole.wire.codec import WireError


class Captures:
    """The captures of a session, by the names the console gave them."""

    def __init__(
        self,
        journal: UndoJournal,
        send: Callable[[Dict[str, Any]], Any],
        to_enter: Callable[[str], Sequence[Any]],
    ) -> None:
        self._journal, self._send, self._to_enter = journal, send, to_enter
        self._version: Optional["asyncio.Task[Optional[str]]"] = None
        self._running: Dict[str, RunningCapture] = {}

    @handles(StartCapture)
    async def start(self, request: StartCapture) -> CaptureStarted:
        name, namespaces = request.capture, self._to_enter(request.namespace or "")
        if name in self._running:
            raise WireError("exists", "the capture %s is already running" % name)
        directory = request.directory or default_directory()
        program = shutil.which("tcpdump", path=children.SEARCH_PATH)
        if program is None:
            raise WireError("tcpdump_missing", "tcpdump is not installed on this node; install the package tcpdump")
        require_space(directory, request.expected_packets or 0, request.snap_bytes)
        argv = tcpdump_argv(program, request)
        spool = CaptureFile(directory, self._journal)
        flow_bins = None if request.flow_bin_ns is None else (request.flow_bin_ns, request.flow_bins or MAX_BINS)
        capture = RunningCapture(name, spool, self._died, request.spacing_gap_ns, request.sampling_seed or 0, flow_bins)
        self._running[name] = capture
        try:
            await capture.start(argv, namespaces)
            spool.unname()
        except BaseException:
            self._running.pop(name, None)
            await capture.close()
            spool.close()
            raise
        return CaptureStarted(path=spool.path, argv=argv, tcpdump=await self._tcpdump_version())

    @handles(DrainCapture)
    async def drain(self, request: DrainCapture) -> CountedSoFar:
        return CountedSoFar(packets=await self._find_capture(request).count())

    @handles(StopCapture)
    async def stop(self, request: StopCapture) -> CaptureResult:
        capture = self._find_capture(request)
        try:
            return CaptureResult(**await capture.stop())
        finally:
            await self._drop(capture)

    async def close(self) -> None:
        """Kill all captures and release their files."""
        for capture in list(self._running.values()):
            await self._drop(capture)

    def kill_all(self) -> None:
        for capture in self._running.values():
            capture.kill()

    async def _drop(self, capture: RunningCapture) -> None:
        self._running.pop(capture.name, None)
        await capture.close()
        capture.spool.close()

    def _find_capture(self, request: Union[DrainCapture, StopCapture]) -> RunningCapture:
        """Find the named capture, and record how long was sent if the request has it."""
        capture = self._named(request.capture)
        if request.sending_ns is not None:
            capture.sending_ns = request.sending_ns
        return capture

    async def _tcpdump_version(self) -> Optional[str]:
        """Queried once: it does not change while we run."""
        if self._version is None:
            self._version = asyncio.ensure_future(facts.tcpdump_version())
        return await self._version

    def _died(self, name: str, message: str) -> None:
        self._send({"event": "capture.died", "capture": name, "message": message})

    def _named(self, name: str) -> RunningCapture:
        try:
            return self._running[name]
        except KeyError:
            raise WireError("no_such_capture", "no capture %s is running" % name) from None
