"""Counting a capture file, with its digest, while tcpdump still writes to it."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Dict, Optional

from labconsole.packets.analysis import CaptureAnalysis
from labconsole.packets.columns import RecordRuns
from labconsole.packets.flows import FlowBins

# -- digest ------------------------------------------------------------------------------------------------------------
# The SHA-256 of data read piece by piece, computed in parallel with the reader.
#
# Hashing takes nearly as long as counting (60 ns for a packet's 80 bytes on a processor with SHA instructions, counting
# 75 ns), and releases the interpreter's lock meanwhile. So it has its own thread, and a second CPU hides most of it.


class StreamingDigest:
    """A digest in a thread. At most one piece waits to be hashed."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._thread = ThreadPoolExecutor(1)
        self._pending: "Optional[Future[None]]" = None

    def add(self, piece: bytes) -> None:
        self._wait()
        self._pending = self._thread.submit(self._hash.update, piece)

    def hexdigest(self) -> str:
        """Return the digest of all pieces so far."""
        self._wait()
        return self._hash.hexdigest()

    def close(self) -> None:
        self._thread.shutdown()

    def _wait(self) -> None:
        if self._pending is not None:
            self._pending.result()
            self._pending = None


# -- follower ----------------------------------------------------------------------------------------------------------


class CaptureFollower:
    """Counts a file while another process still writes to it, in bounded memory. Not safe for several threads
    at once.
    """

    def __init__(
        self,
        path: "str | os.PathLike[str]",
        runs: Optional[RecordRuns] = None,
        spacing_gap_ns: Optional[int] = None,
        sending_ns: Optional[int] = None,
        sampling_seed: int = 0,
        digest: bool = False,
        flows: Optional[FlowBins] = None,
        streams: bool = True,
    ) -> None:
        self.path = os.fspath(path)
        self.sha256: Optional[str] = None
        """Digest of the whole file, or None before ``finish``, if not requested, or if the file was not fully read."""
        self._digest = StreamingDigest() if digest else None
        self.flows = flows
        """Counts the same packets, flow by flow, or None if not requested."""
        runs = RecordRuns() if runs is None else runs
        self.analysis = CaptureAnalysis(runs, spacing_gap_ns, sending_ns, sampling_seed, streams)
        self._buffer = bytearray(runs.buffer_bytes)
        self._kept = 0
        self._file: Any = None

    def poll(self, max_bytes: Optional[int] = None) -> int:
        """Count appended data, at most about ``max_bytes`` of it; return the packets counted so far.

        Raises OSError if the file cannot be read, NotACapture if it is not a capture.
        """
        if self._file is None:
            self._file = open(self.path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        analysis, done = self.analysis, 0
        while analysis.corrupt_at_byte is None and (max_bytes is None or done < max_bytes):
            if self._kept == len(self._buffer):  # one record fills it; grows only with the file's real content
                self._buffer.extend(bytes(len(self._buffer)))
            with memoryview(self._buffer) as view:
                got = self._file.readinto(view[self._kept :])
            if not got:
                break
            done += got
            end = self._kept + got
            if self._digest is not None:
                self._digest.add(bytes(memoryview(self._buffer)[self._kept : end]))
            used = analysis.feed(self._buffer, 0, end)
            if self.flows is not None:
                self.flows.feed(self._buffer, 0, used)
            self._kept = end - used
            if used and self._kept:
                self._buffer[: self._kept] = self._buffer[used:end]
        return analysis.packets

    def finish(self) -> Dict[str, Any]:
        """Count the rest, close the file and report. Raises the same errors as ``poll``."""
        try:
            self.poll()
            if self._digest is not None and self.analysis.corrupt_at_byte is None:
                self.sha256 = self._digest.hexdigest()
            return self.analysis.report(unread=bytes(self._buffer[: min(self._kept, 16)]))
        finally:
            self.close()

    def close(self) -> None:
        """Close the file; the counts stay in ``analysis``."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._digest is not None:
            self._digest.close()


def analyze_file(path: "str | os.PathLike[str]") -> Dict[str, Any]:
    """Count a capture file, in bounded memory. Raises OSError or NotACapture."""
    return CaptureFollower(path).finish()
