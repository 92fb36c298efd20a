"""What a trial costs beyond its traffic and its configured waits, beside a shell script that does the same through ssh.

The script is what people write for such a testbed: counters read on every node, tcpdump started on the sinks, traffic,
a wait, tcpdump stopped and its file counted, counters read again. Its traffic is a sleep of the same length on the
source, so that only the overhead is compared. Both run on the same local lab, in turn, one source and one sink, and
three of each. One figure per trial; the median of each is reported, and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec

DURATION_S = 1.0
DRAIN_S = 1.0

SCRIPT = r"""
set -e
S="ssh -F $CONFIG"
for n in $NODES; do $S $LAB-$n cat /proc/net/dev > $OUT/$n.before & done; wait
for k in $SINKS; do
    $S $LAB-$k "tcpdump -nn -i eth1 -B 65536 -s 64 -w /tmp/bench.pcap 'udp' </dev/null >/dev/null 2>/tmp/bench.err & echo \$! > /tmp/bench.pid; \
        until grep -q listening /tmp/bench.err 2>/dev/null; do sleep 0.01; done" &
done; wait
for s in $SOURCES; do $S $LAB-$s sleep $DURATION & done; wait
sleep $DRAIN
for k in $SINKS; do
    $S $LAB-$k 'kill -INT $(cat /tmp/bench.pid); while kill -0 $(cat /tmp/bench.pid) 2>/dev/null; do sleep 0.01; done; \
        tcpdump --count -r /tmp/bench.pcap 2>/dev/null; rm -f /tmp/bench.*' > $OUT/$k.count &
done; wait
for n in $NODES; do $S $LAB-$n cat /proc/net/dev > $OUT/$n.after & done; wait
"""


def script_overheads(status: lab.LabStatus, sources: int, rounds: int) -> list[float]:
    """Seconds beyond traffic and drain, per round of the shell script."""
    names = [f"src{i + 1}" for i in range(sources)], [f"snk{i + 1}" for i in range(sources)]
    found = []
    with tempfile.TemporaryDirectory() as out:
        environment = {
            **os.environ,
            "CONFIG": str(status.ssh_config),
            "LAB": status.spec.name,
            "OUT": out,
            "SOURCES": " ".join(names[0]),
            "SINKS": " ".join(names[1]),
            "NODES": " ".join([*names[0], "uut", *names[1]]),
            "DURATION": str(DURATION_S),
            "DRAIN": str(DRAIN_S),
        }
        for _ in range(rounds):
            begun = time.monotonic()
            subprocess.run(["bash", "-c", SCRIPT], env=environment, check=True, stdin=subprocess.DEVNULL)
            found.append(time.monotonic() - begun - DURATION_S - DRAIN_S)
    return found


def labconsole_overheads(status: lab.LabStatus, sources: int, rounds: int) -> list[float]:
    """The same for labconsole: from one trial's start to the next one's, so that saving is in it."""
    with tempfile.TemporaryDirectory() as directory:
        hosts = Path(directory) / "hosts.yaml"
        text = Path(status.hosts_file).read_text()
        hosts.write_text(
            "\n".join(
                f"  drain_s: {DRAIN_S}" if line.strip().startswith("drain_s:") else line for line in text.splitlines()
            )
        )
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "labconsole",
                "run",
                "--hosts",
                str(hosts),
                "--store",
                f"{directory}/s.sqlite",
                "--sources",
                str(sources),
                "--target",
                "10Mbit",
                "--duration",
                str(DURATION_S),
                "--repetitions",
                str(rounds + 2),
                "--json",
            ],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
    starts = [datetime.fromisoformat(json.loads(line)["started_at"]) for line in done.stdout.splitlines()]
    # The first trial also sets up the platform; it is not what a plan repeats.
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(starts[1:])]
    return [gap - DURATION_S - DRAIN_S for gap in gaps]


def main() -> None:
    """Print the figures, as lines or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    name = f"bench{os.getpid()}"
    status = lab.up(LabSpec(name=name, sources=3))
    results: list[dict[str, Any]] = []
    try:
        for sources in (1, 3):
            ours = labconsole_overheads(status, sources, args.rounds)
            script = script_overheads(status, sources, args.rounds)
            ratio = statistics.median(script) / statistics.median(ours)
            results.append(
                {
                    "benchmark": "trial overhead",
                    "sources": sources,
                    "labconsole_s": statistics.median(ours),
                    "shell_script_s": statistics.median(script),
                    "ratio": ratio,
                    "target_s": 0.3,
                }
            )
    finally:
        lab.down(name)
    for result in results:
        if args.json:
            print(json.dumps(result))
        else:
            print(
                f"trial overhead, {result['sources']} source(s): labconsole {result['labconsole_s'] * 1e3:.0f} ms, "
                f"shell script through ssh {result['shell_script_s'] * 1e3:.0f} ms, ratio {result['ratio']:.1f}"
            )


if __name__ == "__main__":
    main()
