"""``analyze`` beside ``capinfos``, which only counts packets, bytes and times: python tools/benchmarks/bench_analyze.py

The file has 0.1 % loss and some reordering; capinfos looks at neither. Whole processes are timed in turn, start-up and
imports included (that is what a user waits for), the ratio is the median over the pairs of one run. The rate inside the
process, without start-up (best of four, beside capinfos' best), is given too: it is
what counts for large files and for an agent that already runs. Processor time is the figure to read on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CHUNK = 500_000

NODE = "import sys; from labconsole.packets.follower import analyze_file; analyze_file(sys.argv[1])"
CONSOLE = "import sys; from labconsole.cli.commands.analyze import analyze_path; analyze_path(sys.argv[1])"
TIMED = """
import sys, time
from labconsole.{module} import {function}
import labconsole.measure.numpy_columns
times = []
for _ in range(4):
    begin = time.perf_counter()
    report = {function}(sys.argv[1])
    times.append(time.perf_counter() - begin)
print(report["packets"] / min(times))
"""


def make_capture(path: Path, packets: int, *, kind: str = "lossy") -> None:
    """Write a capture of pktgen frames, 64 of 1500 bytes kept, as tcpdump -s 64 does."""
    import numpy as np

    random = np.random.default_rng(1)
    frame = bytes.fromhex("020000000102020000000601 0800 450005ce000000002011 0000 c6120101 c6130101")
    frame += struct.pack(">HHHH", 9, 9, 1466, 0) + bytes.fromhex("be9be955") + bytes(10)
    loss = {"clean": 0.0, "lossy": 0.001, "half": 0.5, "two-streams": 0.001, "pcapng": 0.001}[kind]
    unfinished = path.with_suffix(".part")
    sent, at_us = 1, 1_700_000_000_000_000
    with unfinished.open("wb") as file:
        if kind == "pcapng":
            file.write(struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28))
            file.write(struct.pack("<IIHHII", 1, 20, 1, 0, 64, 20))
        else:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 64, 1))
        for first in range(0, packets, CHUNK):
            count = min(CHUNK, packets - first)
            numbers = np.arange(sent, sent + int(count / (1 - loss) * 1.01) + 100, dtype=np.int64)
            numbers = numbers[random.random(len(numbers)) >= loss][:count]
            sent = int(numbers[-1]) + 1
            if loss:
                late = np.arange(0, count - 10, 2000)
                numbers[late], numbers[late + 3] = numbers[late + 3].copy(), numbers[late].copy()
            times = at_us + np.cumsum(random.integers(5, 9, count))
            at_us = int(times[-1])
            header = 28 if kind == "pcapng" else 16
            record = np.zeros((count, header + 64 + (4 if kind == "pcapng" else 0)), np.uint8)

            def put(at: int, values: object, form: str = "<u4", into: object = record, size: int = count) -> None:
                column = np.broadcast_to(np.asarray(values), (size,)).astype(form)
                into[:, at : at + column.itemsize] = column.view(np.uint8).reshape(size, -1)  # type: ignore[index]

            if kind == "pcapng":
                for at, value in ((0, 6), (4, 96), (12, times >> 32), (16, times & 0xFFFFFFFF), (92, 96)):
                    put(at, value)
            else:
                put(0, times // 1_000_000)
                put(4, times % 1_000_000)
            put(header - 8, 64)
            put(header - 4, 1500)
            record[:, header : header + len(frame)] = np.frombuffer(frame, np.uint8)
            put(header + 18, np.arange(count) & 0xFFFF, ">u2")
            put(header + 46, numbers & 0xFFFFFFFF, ">u4")
            if kind == "two-streams":
                record[1::2, header + 37] = 10
            file.write(record.tobytes())
    unfinished.rename(path)


def seconds(argv: list[str]) -> tuple[float, float]:
    """(elapsed, processor) seconds of a whole process."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    elapsed = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return elapsed, after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime


def in_process_rate(module: str, function: str, path: Path) -> float:
    code = TIMED.format(module=module, function=function)
    argv = [sys.executable, "-c", code, str(path)]
    return float(subprocess.run(argv, check=True, capture_output=True, cwd=ROOT).stdout)


def measure(path: Path, pairs: int, packets: int) -> dict[str, Any]:
    """Times of the three programs, in turn so that a slow moment of the machine meets all of them."""
    commands = {
        "capinfos": ["capinfos", "-c", "-d", "-a", "-e", str(path)],
        "node": [sys.executable, "-c", NODE, str(path)],
        "console": [sys.executable, "-c", CONSOLE, str(path)],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for argv in commands.values():
        seconds(argv)  # page cache, byte code
    cpu_times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(pairs):
        for name, argv in commands.items():
            elapsed_s, cpu_s = seconds(argv)
            times[name].append(elapsed_s)
            cpu_times[name].append(cpu_s)
    medians = {name: statistics.median(values) for name, values in times.items()}
    result: dict[str, Any] = {"packets": packets, "pairs": pairs}
    for name, median in medians.items():
        result[f"{name}_s"] = median
        result[f"{name}_packets_per_s"] = packets / median
    for name in ("node", "console"):
        ratios = [other / own for other, own in zip(times["capinfos"], times[name], strict=True)]
        result[f"{name}_over_capinfos_ratio"] = statistics.median(ratios)
        ratios = [other / own for other, own in zip(cpu_times["capinfos"], cpu_times[name], strict=True)]
        result[f"{name}_over_capinfos_cpu_ratio"] = statistics.median(ratios)
    result["node_in_process_packets_per_s"] = in_process_rate("packets.follower", "analyze_file", path)
    result["console_in_process_packets_per_s"] = in_process_rate("cli.commands.analyze", "analyze_path", path)
    for name in ("node", "console"):
        rate = result[f"{name}_in_process_packets_per_s"]
        result[f"{name}_in_process_over_capinfos_ratio"] = rate * min(times["capinfos"]) / packets
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--packets", type=int, default=5_000_000)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--kind", choices=["clean", "lossy", "half", "two-streams", "pcapng"], default="lossy")
    args = parser.parse_args()
    if shutil.which("capinfos") is None:
        print("capinfos is not installed (Debian: tshark or wireshark-common)", file=sys.stderr)
        return 2
    directory = Path(tempfile.gettempdir()) / "labconsole-bench"
    directory.mkdir(exist_ok=True)
    path = directory / f"{args.kind}-{args.packets}.pcap"
    if not path.exists():
        make_capture(path, args.packets, kind=args.kind)
    result = {"kind": args.kind, "file_bytes": path.stat().st_size, **measure(path, args.pairs, args.packets)}
    if args.json:
        print(json.dumps(result))
        return 0
    print(f"{args.kind}: {args.packets:,} packets, {result['file_bytes']:,} bytes, median of {args.pairs}")
    for name in ("capinfos", "node", "console"):
        rate = result[f"{name}_packets_per_s"] / 1e6
        line = f"{name:9s} {result[f'{name}_s']:6.3f} s  {rate:6.1f} Mpkt/s whole process"
        if name != "capinfos":
            own, inside = result[f"{name}_over_capinfos_ratio"], result[f"{name}_in_process_over_capinfos_ratio"]
            cpu = result[f"{name}_over_capinfos_cpu_ratio"]
            line += f", {own:.2f} x capinfos (by processor time {cpu:.2f} x)"
            line += f"; in process {result[f'{name}_in_process_packets_per_s'] / 1e6:.1f} Mpkt/s, {inside:.2f} x"
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
