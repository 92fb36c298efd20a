"""What something costs the path of packets, from the send call of a source to the end of their way, on one processor.

The send call carries its packet through the forwarding host to the sink, so that the time of the calls is that of the path.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from math import comb

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


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Around the median: the narrowest pair of order statistics that holds it with at least 95 % certainty."""
    ordered, count = sorted(values), len(values)
    outside, rank = 0.0, 0
    while rank < count // 2 and outside + comb(count, rank) / 2**count <= 0.025:
        outside += comb(count, rank) / 2**count
        rank += 1
    rank = max(rank - 1, 0)
    return ordered[rank], ordered[-1 - rank]


def in_pairs(chain: DropChain, begin: Callable[[], Callable[[], int]], pairs: int, duration_s: float) -> str:
    """Without and with what ``begin`` begins; what that returns ends it and says how many packets it counted."""
    argv = [*chain.source.prefix, sys.executable, "-c", FLOOD, MACS["u1"], MACS["s0"], SOURCE_IP, SINK_IP]
    sender = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert sender.stdin is not None and sender.stdout is not None

    def packet_ns() -> float:
        assert sender.stdin is not None and sender.stdout is not None
        print(duration_s, file=sender.stdin, flush=True)
        return float(sender.stdout.readline())

    added_ns, ratios, counted = [], [], 0
    try:
        packet_ns()
        for number in range(pairs):
            times = {}
            for asked in (False, True) if number % 2 else (True, False):
                end = begin() if asked else None
                times[asked] = packet_ns()
                if end is not None:
                    counted += end()
            added_ns.append(times[True] - times[False])
            ratios.append(times[True] / times[False])
    finally:
        sender.stdin.close()
        sender.wait()
    low, high = interval(ratios)
    least, most = interval(added_ns)
    return (
        f"{statistics.median(added_ns):+5.0f} ns ({least:+.0f} to {most:+.0f}), ratio {statistics.median(ratios):.3f} "
        f"({low:.3f} to {high:.3f}); {counted} counted"
    )
