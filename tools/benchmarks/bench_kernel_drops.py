"""What asking the kernel why it drops packets costs the path of packets, with it and without it in turn, as root:
python tools/benchmarks/bench_kernel_drops.py [--pairs N] [--duration S]

Source, forwarding host and sink are namespaces, and one processor does all: each send call of the source carries its packet
through the host to its end, so that the time of the calls is that of the whole path. Given are the time per packet added
and the ratio of both times: the median of the pairs, and the interval that holds it with 95 % certainty (order statistics).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from labconsole.agent.reading.kernel_drops import DropCounter, KernelLayout, read_layout
from support.drop_chain import MACS, SINK_IP, DropChain
from support.path_cost import in_pairs


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
            "nft",
            "add table netdev t; add chain netdev t c { type filter hook ingress device u1 priority 0; }; "
            f"add rule netdev t c numgen inc mod {every} 0 drop",
        )

    return build


CASES: dict[str, Callable[[DropChain], None]] = {
    "nothing dropped": to_its_end,
    "10 % dropped": dropping(10),
    "50 % dropped": dropping(2),
    "a sink on the same kernel": lambda chain: None,
}


def counting(layout: KernelLayout, chain: DropChain, by_helper: bool) -> Callable[[], int]:
    """Count drops until told to end."""
    counter = DropCounter(layout, [chain.host.inode], [SINK_IP], by_helper)

    def end() -> int:
        found = sum(row.packets for row in counter.rows())
        counter.close()
        return found

    return end


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
                begin = partial(counting, layout, chain, by_helper)
                told = in_pairs(chain, begin, args.pairs, args.duration)
                print(f"{name:<26} {'raw_tp' if by_helper else 'tp_btf'}: {told}", flush=True)
        finally:
            chain.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
