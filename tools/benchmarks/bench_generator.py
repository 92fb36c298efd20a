"""The agent's AF_PACKET sender beside trafgen: the same frames, flat out, on one core, in turn.

    python tools/benchmarks/bench_generator.py [--json] [--rounds 5] [--packets 2000000] [--qdisc pfifo]

Both send 60-byte frames into a veth pair in a network namespace of its own, whose far end is addressed to nobody and
drops them; both share CPU 0 with the receiving softirq (trafgen -P 1 pins itself there). What counts is what the far
interface has received, over the time that each sender reports for its sending. trafgen runs on its default path and
through the queueing discipline, with a constant frame and with the frame that ours is (identification, checksum and
sequence number counted up). The ratio is against the fastest of the four, each side with the median of its rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from labconsole.agent.sending.generator import GeneratorSession
from labconsole.wire.stream_spec import StreamSpec

TARGET_RATIO = 1.3
DESTINATION, SOURCE = "02:00:00:00:01:02", "02:00:00:00:06:01"
HEAD = """{ 0x02,0,0,0,0x01,0x02, 0x02,0,0,0,0x06,0x01, 0x08,0x00,
 0x45,0,0,0x2e, %s, 0,0, 0x20,0x11, %s, 198,18,1,1, 198,19,1,1,
 0,9,0,9,0,0x1a,0,0,
 0xbe,0x9b,0xe9,0x55, %s, 0x6b,0,0xe9,0x8c, 0,0x0c,4,0x9b, 0,0 }
"""
TRAFGEN_FRAMES = {
    "constant": HEAD % ("0,0", "0x84,0x1b", "0,0,0,1"),
    "counting": HEAD % ("dinc(0,255),dinc(0,255)", "csumip(14,33)", ",".join(["dinc(0,255)"] * 4)),
}
TRAFGEN_MODES = {"bypass": [], "qdisc": ["-q"]}


def sh(command: str) -> None:
    subprocess.run(command, shell=True, check=True)


def rx_packets() -> int:
    shown = subprocess.run(["ip", "-s", "-j", "link", "show", "r"], capture_output=True, check=True).stdout
    return int(json.loads(shown)[0]["stats64"]["rx"]["packets"])


def run_trafgen(cpu: int, packets: int, frame: str, mode: str) -> float:
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as config:
        config.write(TRAFGEN_FRAMES[frame])
        config.flush()
        before = rx_packets()
        argv = ["taskset", "-c", str(cpu), "trafgen", "-P", "1", "-o", "s", "-i", config.name, "-n", str(packets)]
        done = subprocess.run(argv + TRAFGEN_MODES[mode], capture_output=True, text=True, check=True)
    spent = re.search(r"(\d+) sec, (\d+) usec on CPU", done.stdout + done.stderr)
    if spent is None:
        raise SystemExit(f"trafgen printed no time:\n{done.stdout}{done.stderr}")
    return (rx_packets() - before) / (int(spent[1]) + int(spent[2]) / 1e6)


async def _ours(cpu: int, packets: int) -> dict[str, Any]:
    spec = StreamSpec.parse(
        {
            "stream": "bench",
            "interface": "s",
            "generator": "afpacket",
            "destination_mac": DESTINATION,
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
            "cpus": [cpu],
        }
    )
    session = GeneratorSession()
    try:
        await session.prepare([spec])
        await session.start(None)
        return (await session.wait())[0]
    finally:
        await session.close()


def run_ours(cpu: int, packets: int) -> tuple[float, str]:
    before = rx_packets()
    result = asyncio.run(_ours(cpu, packets))
    return (rx_packets() - before) / (result["elapsed_ns"] / 1e9), result["version"]


def measure(rounds: int, packets: int, qdisc: str | None) -> dict[str, Any]:
    sh("ip link set lo up && ip link add s type veth peer name r")
    for name in ("s", "r"):
        sh(f"ip link set {name} addrgenmode none && ip link set {name} up")
    if qdisc:
        sh(f"tc qdisc add dev s root {qdisc}")
    cpu = 0  # where trafgen -P 1 pins its sending process, whatever taskset says
    ours: list[float] = []
    theirs: dict[str, list[float]] = {f"{frame} {mode}": [] for frame in TRAFGEN_FRAMES for mode in TRAFGEN_MODES}
    version = ""
    for _ in range(rounds):
        rate, version = run_ours(cpu, packets)
        ours.append(rate)
        for name in theirs:
            theirs[name].append(run_trafgen(cpu, packets, *name.split()))
    medians = {name: statistics.median(rates) for name, rates in theirs.items()}
    best = max(medians, key=medians.__getitem__)
    same = max((name for name in medians if name.startswith("counting")), key=medians.__getitem__)
    return {
        "benchmark": "generator",
        "unit": "packets per second at the receiving interface",
        "cpu": cpu,
        "rounds": rounds,
        "packets": packets,
        "qdisc": qdisc or "noqueue",
        "sender": version,
        "ours_pps": round(statistics.median(ours)),
        "trafgen_pps": {name: round(rate) for name, rate in medians.items()},
        "trafgen_best": best,
        "ratio": round(statistics.median(ours) / medians[best], 3),
        "ratio_of_best_rounds": round(max(ours) / max(map(max, theirs.values())), 3),
        "ratio_same_frames": round(statistics.median(ours) / medians[same], 3),
        "target_ratio": TARGET_RATIO,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="AF_PACKET sender beside trafgen")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--packets", type=int, default=1_000_000)
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
    print(f"ours     {found['ours_pps']:>10,} packets/s   {found['sender']}, {found['qdisc']}")
    for name, rate in found["trafgen_pps"].items():
        print(f"trafgen  {rate:>10,} packets/s   {name} frame")
    print(
        f"ratio    {found['ratio']:.2f} to the best of trafgen, {found['ratio_same_frames']:.2f} with the same frames, "
        f"{found['ratio_of_best_rounds']:.2f} between the best rounds"
    )
    print(f"target   {TARGET_RATIO}")


if __name__ == "__main__":
    main()
