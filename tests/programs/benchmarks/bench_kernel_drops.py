"""What asking the kernel why it drops packets costs the path of packets, with it and without it in turn, as root:
python tests/programs/benchmarks/bench_kernel_drops.py [--pairs N] [--duration S]

Source, forwarding host and sink are namespaces, and one processor does all: each send call of the source carries its packet
through the host to its end, so that the time of the calls is that of the whole path. Given are the time per packet added
and the ratio of both times: the median of the pairs, and the interval that holds it with 95 % certainty (order statistics).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from math import comb
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from labconsole.agent.reading.kernel_drops import DropCounter, KernelLayout, read_layout
from support.drop_chain import MACS, SINK_IP, SOURCE_IP, DropChain

FLOOD = """
import os, socket, struct, sys, time
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
mac, own_mac, source_ip, sink_ip = sys.argv[1:]
ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 46, 0, 0, 32, 17, 0, socket.inet_aton(source_ip), socket.inet_aton(sink_ip))
total = sum(struct.unpack("!10H", ip))
total = (total & 0xFFFF) + (total >> 16)
ip = ip[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + ip[12:]
frame = bytes.fromhex((mac + own_mac).replace(":", "")) + b"\\x08\\x00" + ip
frame += struct.pack("!HHHHIIII", 9, 9, 26, 0, 0xBE9BE955, 1, 1, 1) + b"\\0\\0"
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
s.bind(("s0", 0))
for line in sys.stdin:
    end = time.perf_counter_ns() + int(float(line) * 1e9)
    sent, begin = 0, time.perf_counter_ns()
    while time.perf_counter_ns() < end:
        for _ in range(100):
            s.send(frame)
        sent += 100
    print((time.perf_counter_ns() - begin) / sent, flush=True)
"""


def to_its_end(chain: DropChain) -> None:
    """The way out ends in a device that uses up what it is given: nothing is dropped."""
    chain.ip("link", "add", "end0", "type", "ifb")
    chain.ip("link", "set", "end0", "up")
    chain.ip("route", "replace", SINK_IP, "dev", "end0")
    chain.ip("neigh", "replace", SINK_IP, "lladdr", MACS["k0"], "dev", "end0", "nud", "permanent")


def dropping(every: int) -> Callable[[DropChain], None]:
    """One of so many is dropped where it comes in."""

    def build(chain: DropChain) -> None:
        to_its_end(chain)
        chain.host.run(
            "nft", "add table netdev t; add chain netdev t c { type filter hook ingress device u1 priority 0; }; "
            f"add rule netdev t c numgen inc mod {every} 0 drop",
        )  # fmt: skip

    return build


CASES: dict[str, Callable[[DropChain], None]] = {
    "nothing dropped": to_its_end,
    "10 % dropped": dropping(10),
    "50 % dropped": dropping(2),
    "a sink on the same kernel": lambda chain: None,
}


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Around the median: the narrowest pair of order statistics that holds it with at least 95 % certainty."""
    ordered, count = sorted(values), len(values)
    outside, rank = 0.0, 0
    while rank < count // 2 and outside + comb(count, rank) / 2**count <= 0.025:
        outside += comb(count, rank) / 2**count
        rank += 1
    rank = max(rank - 1, 0)
    return ordered[rank], ordered[-1 - rank]


def measured(chain: DropChain, layout: KernelLayout, by_helper: bool, pairs: int, duration_s: float) -> str:
    """One case, one way to attach."""
    argv = [*chain.source.prefix, sys.executable, "-c", FLOOD, MACS["u1"], MACS["s0"], SOURCE_IP, SINK_IP]
    sender = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert sender.stdin is not None and sender.stdout is not None

    def packet_ns() -> float:
        assert sender.stdin is not None and sender.stdout is not None
        print(duration_s, file=sender.stdin, flush=True)
        return float(sender.stdout.readline())

    added_ns, ratios, rows = [], [], 0
    try:
        packet_ns()
        for number in range(pairs):
            times = {}
            for asked in (False, True) if number % 2 else (True, False):
                counter = DropCounter(layout, [chain.host.inode], [SINK_IP], by_helper) if asked else None
                times[asked] = packet_ns()
                if counter is not None:
                    rows += sum(row.packets for row in counter.rows())
                    counter.close()
            added_ns.append(times[True] - times[False])
            ratios.append(times[True] / times[False])
    finally:
        sender.stdin.close()
        sender.wait()
    low, high = interval(ratios)
    least, most = interval(added_ns)
    return (
        f"{statistics.median(added_ns):+5.0f} ns ({least:+.0f} to {most:+.0f}), ratio {statistics.median(ratios):.3f} "
        f"({low:.3f} to {high:.3f}); {rows} drops counted"
    )


def main() -> int:
    """Print one line for each case and way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--duration", type=float, default=0.2, metavar="S")
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("programs in the kernel are for root")
        return 1
    layout = read_layout()
    for name, build in CASES.items():
        chain = DropChain()
        try:
            build(chain)
            time.sleep(0.2)
            for by_helper in (False, True):
                told = measured(chain, layout, by_helper, args.pairs, args.duration)
                print(f"{name:<26} {'raw_tp' if by_helper else 'tp_btf'}: {told}", flush=True)
        finally:
            chain.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
