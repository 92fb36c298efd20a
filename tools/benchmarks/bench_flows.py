"""Interleaved flows of a capture split into bins, at the console and as a node does it, beside tshark, which a user would
take instead: python tools/benchmarks/bench_flows.py

Four flows of 1514 bytes, 64 kept, in a random order; tshark counts them over time (`-z io,stat` with a filter for each). Whole
processes are timed in turn, start-up included; the rate inside the process, without start-up, is given too.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHUNK = 500_000
PORTS = (20_000, 20_032, 20_064, 20_096)
BIN_S = 1.0
TIMED = """
import sys, time
from labconsole.packets.flows import FlowBins
from labconsole.measure.numpy_columns import NumpyRuns
runs = {runs}
times = []
for _ in range(4):
    counted, at = FlowBins(10**9, 20_000, runs), 0
    size = 1 << 20 if runs is None else runs.buffer_bytes
    buffer, kept = bytearray(size), 0
    with open(sys.argv[1], "rb", buffering=0) as file:
        begin = time.perf_counter()
        while True:
            with memoryview(buffer) as view:
                got = file.readinto(view[kept:])
            if not got:
                break
            used = counted.feed(buffer, 0, kept + got)
            buffer[: kept + got - used] = buffer[used : kept + got]
            kept += got - used
        times.append(time.perf_counter() - begin)
print(counted.packets / min(times))
"""


def make_capture(path: Path, packets: int) -> None:
    """Write a capture of four interleaved flows, half a microsecond to the next packet."""
    import numpy as np

    random = np.random.default_rng(1)
    frame = bytes.fromhex("020000000106026c77000000080045 0005dc000040004011 0000 c6124001 c6127f01")
    frame += struct.pack(">HHHH", PORTS[0], 5001, 1480, 0) + bytes(22)
    assert len(frame) == 64
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 64, 1))
        at_ns = 1_700_000_000 * 10**9
        for first in range(0, packets, CHUNK):
            count = min(CHUNK, packets - first)
            records = np.zeros(
                count, dtype=[("s", "<u4"), ("ns", "<u4"), ("kept", "<u4"), ("was", "<u4"), ("f", "u1", 64)]
            )
            times = at_ns + np.cumsum(random.integers(1, 1000, count))
            at_ns = int(times[-1])
            records["s"], records["ns"] = times // 10**9, times % 10**9
            records["kept"], records["was"] = 64, 1514
            records["f"] = np.frombuffer(frame, dtype="u1")
            flow = random.integers(0, 4, count)
            records["f"][:, 11] = flow
            ports = np.array(PORTS, dtype=">u2")[flow].view("u1").reshape(-1, 2)
            records["f"][:, 34:36] = ports
            file.write(records.tobytes())


def took(argv: list[str]) -> tuple[float, float]:
    """(wall, processor) seconds of one process."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    wall_s, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", type=int, default=4_000_000)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "flows.pcap"
        make_capture(path, options.packets)
        for name, runs in (("node", "None"), ("console", "NumpyRuns()")):
            said = subprocess.run(
                [sys.executable, "-c", TIMED.format(runs=runs), str(path)],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            print(f"{name}: {float(said) / 1e6:.1f} million packets/s")
        tshark = shutil.which("tshark")
        if tshark is None:
            print("tshark is not installed: nothing to compare with")
            return 0
        ours = [sys.executable, "-m", "labconsole", "analyze", str(path), "--flows", f"{BIN_S:g}", "--json"]
        filters = ",".join(f"udp.srcport=={port}" for port in PORTS)
        theirs = [tshark, "-r", str(path), "-q", "-z", f"io,stat,{BIN_S:g},{filters}"]
        pairs = [(took(ours), took(theirs)) for _ in range(options.pairs)]
        wall = statistics.median(theirs_s[0] / ours_s[0] for ours_s, theirs_s in pairs)
        cpu = statistics.median(theirs_s[1] / ours_s[1] for ours_s, theirs_s in pairs)
        print(f"labconsole analyze --flows beside tshark: {wall:.1f} times as fast, {cpu:.1f} by processor time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
