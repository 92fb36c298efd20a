"""What timing every packet in the sink's kernel costs the path of packets, with it and without it in turn, as root:
python tools/benchmarks/bench_packet_times.py [--pairs N] [--duration S]

As in bench_kernel_drops.py one processor does all, from the source's send call to the sink; and beside no capture and one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from labconsole.agent.processes.linux import run_in_namespace
from labconsole.agent.reading.clocks import ClockOffset
from labconsole.agent.reading.packet_times import PacketTimer
from labconsole.wire.packet_times import StreamToTime
from support.drop_chain import SINK_IP, SOURCE_IP, DropChain
from support.path_cost import in_pairs

OWN = StreamToTime(source_ip=SOURCE_IP, sink_ip=SINK_IP, udp_sink_port=9, interval_ns=10_000)
CAPTURE = ("tcpdump", "-i", "k0", "-w", "/dev/null", "-Z", "root", "-n", "-s", "64", "-B", "65536", "udp")


def timing(chain: DropChain) -> Callable[[], int]:
    """Time packets until told to end."""
    inside = os.open(f"/proc/{chain.sink.pid}/ns/net", os.O_RDONLY)
    try:
        timer: PacketTimer = run_in_namespace(inside, lambda: PacketTimer("k0", [OWN], ClockOffset().ns))
    finally:
        os.close(inside)

    def end() -> int:
        timer.detach()
        (stream,) = timer.counted()
        timer.close()
        return stream.packets

    return end


def main() -> int:
    """Print a line for each case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--duration", type=float, default=0.2, metavar="S")
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("programs in the kernel are for root")
        return 1
    for name, beside in (("nothing else at the sink", None), ("beside tcpdump", CAPTURE)):
        chain = DropChain()
        capture = None
        try:
            if beside is not None:
                capture = subprocess.Popen([*chain.sink.prefix, *beside], stderr=subprocess.DEVNULL)
            time.sleep(0.5)
            print(f"{name:<26} {in_pairs(chain, partial(timing, chain), args.pairs, args.duration)}", flush=True)
        finally:
            if capture is not None:
                capture.terminate()
                capture.wait()
            chain.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
