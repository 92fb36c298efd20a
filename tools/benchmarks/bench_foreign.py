"""What watching for foreign frames costs a sender and a sink: the same stream flat out, with and without taps, in turn.

    python tools/benchmarks/bench_foreign.py [--json] [--rounds 9] [--packets 400000] [--qdisc pfifo]

The agent's sender, a veth pair, tcpdump capturing at the far end as in a trial; all on one core. ``every``: one socket
that is offered all frames, as for streams up to foreign_taps.EVERY_BELOW_PPS; ``control``: as for faster ones.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from labconsole.agent.reading.port_listeners import PortTap
from labconsole.agent.sending.generator import GeneratorSession
from labconsole.packets.frame import StreamAddresses
from labconsole.wire.stream_spec import StreamSpec

SOURCE = "02:00:00:00:06:01"
OWN = [StreamAddresses(socket.inet_aton("198.18.1.1"), socket.inet_aton("198.19.1.1"), 9)]
CASES: dict[str, list[tuple[str, bool]]] = {
    "no tap": [],
    "control, both ends": [("s", False), ("r", False)],
    "every, source": [("s", True)],
    "every, sink": [("r", True)],
    "every, both ends": [("s", True), ("r", True)],
}
FILTER = "udp and src host 198.18.1.1 and dst host 198.19.1.1 and src port 9 and dst port 9 and udp[8:4] = 0xbe9be955"
SETTLE_S = 1.1


def spec(packets: int) -> StreamSpec:
    return StreamSpec.parse(
        {
            "stream": "bench",
            "interface": "s",
            "generator": "afpacket",
            "destination_mac": "02:00:00:00:01:02",
            "source_mac": SOURCE,
            "source_ip": "198.18.1.1",
            "sink_ip": "198.19.1.1",
            "udp_source_port": 9,
            "udp_sink_port": 9,
            "pkt_size_bytes": 60,
            "delay_ns": 0,
            "count": packets,
            "duration_s": None,
            "max_count": packets,
            "cpus": [0],
        }
    )


async def one(taps: list[tuple[str, bool]], packets: int) -> tuple[float, str]:
    session = GeneratorSession()
    made = [PortTap(interface, OWN, every) for interface, every in taps]
    try:
        await session.prepare([spec(packets)])
        await session.start(None)
        result = (await session.wait())[0]
    finally:
        await session.close()
        for tap in made:
            tap.stop()
    return result["sent_packets"] / (result["elapsed_ns"] / 1e9), result["version"]


def captured(taps: list[tuple[str, bool]], packets: int) -> tuple[float, int, str]:
    """Packets per second that were sent, packets that tcpdump missed meanwhile, and the sender's name."""
    with tempfile.NamedTemporaryFile() as file:
        options = ["-Q", "in", "-s", "64", "-B", "65536", "--time-stamp-precision=nano", "-Z", "root", "-w", file.name]
        dump = subprocess.Popen(["tcpdump", "-nn", "-i", "r", *options, FILTER], stderr=subprocess.PIPE, text=True)
        assert dump.stderr is not None
        while "listening" not in dump.stderr.readline():
            assert dump.poll() is None
        pps, version = asyncio.run(one(taps, packets))
        time.sleep(SETTLE_S)
        dump.send_signal(signal.SIGINT)
        missed = re.search(r"(\d+) packets? dropped by kernel", dump.stderr.read())
        dump.wait()
    return pps, int(missed[1]) if missed else -1, version


def measure(rounds: int, packets: int, qdisc: str | None) -> dict[str, Any]:
    subprocess.run("ip link set lo up && ip link add s type veth peer name r", shell=True, check=True)
    for name in ("s", "r"):
        subprocess.run(f"ip link set {name} addrgenmode none && ip link set {name} up", shell=True, check=True)
    if qdisc:
        subprocess.run(f"tc qdisc add dev s root {qdisc}", shell=True, check=True)
    rates: dict[str, list[float]] = {name: [] for name in CASES}
    missed = dict.fromkeys(CASES, 0)
    version = ""
    for _ in range(rounds):
        for name, taps in CASES.items():
            pps, lost, version = captured(taps, packets)
            rates[name].append(pps)
            missed[name] += lost
    medians = {name: statistics.median(each) for name, each in rates.items()}
    bare = medians["no tap"]
    return {
        "benchmark": "foreign",
        "sender": version,
        "qdisc": qdisc or "noqueue",
        "rounds": rounds,
        "packets": packets,
        "pps": {name: round(value) for name, value in medians.items()},
        "ratio": {name: round(value / bare, 3) for name, value in medians.items()},
        "cost_ns": {name: round(1e9 / value - 1e9 / bare) for name, value in medians.items()},
        "capture_missed_packets": missed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="what taps for foreign frames cost")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--packets", type=int, default=400_000)
    parser.add_argument("--qdisc", default=None, help="a queueing discipline on the sending interface, as tc takes it")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not args.inside:
        flags = ["--net"] if os.geteuid() == 0 else ["--net", "--user", "--map-root-user"]
        os.execvp("unshare", ["unshare", *flags, sys.executable, __file__, *sys.argv[1:], "--inside"])
    found = measure(args.rounds, args.packets, args.qdisc)
    if args.json:
        print(json.dumps(found))
        return
    print(f"{found['sender']}, {found['qdisc']}, {found['rounds']} rounds")
    for name, pps in found["pps"].items():
        print(
            f"{name:<20} {pps:>10,} packets/s   ratio {found['ratio'][name]:.3f}   {found['cost_ns'][name]:>5} ns a packet"
            f"   capture missed {found['capture_missed_packets'][name]}"
        )


if __name__ == "__main__":
    main()
