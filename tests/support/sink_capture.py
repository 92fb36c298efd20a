"""A capture of a test's own at the end of a way of namespaces, and the delays that it tells."""

from __future__ import annotations

import signal
import struct
import subprocess
import time
from pathlib import Path

from support.drop_chain import DropChain


class SinkCapture:
    """With nanoseconds."""

    def __init__(self, chain: DropChain, path: Path, *words: str) -> None:
        self._path = path
        argv = ["tcpdump", "-i", "k0", "-w", str(path), "-Z", "root", "--time-stamp-precision", "nano", "-n", *words]
        self.process = subprocess.Popen([*chain.sink.prefix, *argv, "udp"], stderr=subprocess.PIPE)
        assert self.process.stderr is not None
        while b"listening" not in self.process.stderr.readline():
            pass
        time.sleep(0.3)

    def delays_ns(self) -> list[int]:
        """Of all test packets that it holds, in rising order."""
        time.sleep(1.2)  # the kernel hands a block over after a second
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=10)
        data, at, found = self._path.read_bytes(), 24, []
        while at + 16 <= len(data):
            seconds, rest_ns, kept, _ = struct.unpack_from("=IIII", data, at)
            sent_s, sent_us = struct.unpack_from("!II", data, at + 16 + 50)
            found.append((seconds - sent_s) * 10**9 + rest_ns - sent_us * 1000)
            at += 16 + kept
        return sorted(found)
