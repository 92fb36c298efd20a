"""The agent's CPU while it samples eight interfaces ten times a second, beside ``ip -s -j link`` in a shell loop.

Both run in the same network namespace, one after the other, each for SECONDS. Prints one line of JSON per result. The
agent's time comes from the scheduler (nanoseconds), because the clock ticks of /proc/PID/stat are too coarse for it.
Then what one reading takes without an agent: the same list of counters decoded by us, by pyroute2, and fetched through
pyroute2's ``IPRoute`` (decision 13), each the least of ROUNDS.

    python tools/benchmarks/bench_agent.py [--seconds 5]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from support.agent_process import AgentProcess, Net  # noqa: E402

TARGET_RATIO = 0.01
"""At most this share of one core."""
INTERVAL_S = 0.1
PAIRS = 4
LOOP = f"while :; do ip -s -j link; sleep {INTERVAL_S}; done"


ROUNDS = 30
DECODING = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from labconsole.agent import netlink
from labconsole.agent.reading.counters import parse_stats

def least_us(work, times):
    found = []
    for _ in range(int(sys.argv[2])):
        begin = time.perf_counter_ns()
        for _ in range(times):
            work()
        found.append((time.perf_counter_ns() - begin) / times / 1000)
    return min(found)

def values(messages):
    found = []
    for message in messages:
        numbers = message.get_attr("IFLA_STATS_LINK_64")
        found.append((message["ifindex"], [numbers[name] for name, _ in numbers.fields]))
    return found

route = netlink.RouteSocket()
parts = route.stats()
from pyroute2.iproute.linux import IPRoute
whole = IPRoute()
print(json.dumps({
    "list, not decoded": least_us(route.stats, 200),
    "decoded by us": least_us(lambda: parse_stats(parts), 200),
    "decoded by pyroute2": least_us(lambda: values(route.decode(parts)), 20),
    "fetched and decoded by IPRoute.stats": least_us(lambda: values(whole.stats("dump", filter_mask=1)), 10),
    "IPRSocket opened": least_us(lambda: netlink.RouteSocket().close(), 10),
    "IPRoute opened": least_us(lambda: IPRoute().close(), 10),
}))
"""
"""What one reading of the counters takes, without an agent."""


def cpu_ns(pid: int) -> int:
    """CPU time of a process so far, threads that have ended included: its clock, as clock_getcpuclockid(3) names it."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def sampling(net: Net, seconds: float) -> dict[str, Any]:
    agent = AgentProcess(net)
    try:
        agent.ok("links")
        agent.ok("counters.start", interval_s=INTERVAL_S)
        agent.event("counters")
        started_ns, before_ns = time.monotonic_ns(), cpu_ns(agent.hello["pid"])
        samples = 0
        while time.monotonic_ns() - started_ns < seconds * 1e9:
            agent.event("counters")
            samples += 1
        used_ns, spent_ns = cpu_ns(agent.hello["pid"]) - before_ns, time.monotonic_ns() - started_ns
        agent.ok("close")
    finally:
        agent.close()
    return {"samples": samples, "cpu_ratio": used_ns / spent_ns, "cpu_us_per_sample": used_ns / samples / 1000}


def quiet(net: Net, seconds: float) -> dict[str, Any]:
    """The same in a quiet window, as on the machine that is being measured."""
    agent = AgentProcess(net)
    try:
        agent.ok("links")
        agent.ok("counters.quiet", on=True)
        agent.ok("counters.start", interval_s=INTERVAL_S)
        started_ns, before_ns = time.monotonic_ns(), cpu_ns(agent.hello["pid"])
        time.sleep(seconds)
        used_ns, spent_ns = cpu_ns(agent.hello["pid"]) - before_ns, time.monotonic_ns() - started_ns
        samples = agent.ok("counters.quiet", on=False)["samples"]
        agent.ok("close")
    finally:
        agent.close()
    return {"samples": samples, "cpu_ratio": used_ns / spent_ns, "cpu_us_per_sample": used_ns / samples / 1000}


def shell_loop(net: Net, seconds: float) -> dict[str, Any]:
    process = subprocess.Popen(
        [*net.prefix, "sh", "-c", LOOP], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert process.stdout is not None
    samples, started_ns = 0, time.monotonic_ns()
    for _ in process.stdout:
        samples += 1
        if time.monotonic_ns() - started_ns >= seconds * 1e9:
            break
    spent_ns = time.monotonic_ns() - started_ns
    os.killpg(process.pid, signal.SIGKILL)
    _, _, usage = os.wait4(process.pid, 0)  # with the time of all the ips and sleeps that the shell waited for
    process.returncode = -signal.SIGKILL
    process.stdout.close()
    used_s = usage.ru_utime + usage.ru_stime
    return {"samples": samples, "cpu_ratio": used_s * 1e9 / spent_ns, "cpu_us_per_sample": used_s * 1e6 / samples}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    seconds = parser.parse_args().seconds
    net = Net()
    try:
        for number in range(PAIRS):
            net.pair(f"a{number}", f"b{number}")
        ours, silent, theirs = sampling(net, seconds), quiet(net, seconds), shell_loop(net, seconds)
        decoding = json.loads(net.run(sys.executable, "-c", DECODING, str(ROOT), str(ROUNDS)))
    finally:
        net.close()
    for name, result in (("agent", ours), ("agent, quiet window", silent), ("ip -s -j link in a loop", theirs)):
        print(json.dumps({"benchmark": "sampling 8 interfaces at 10 Hz", "what": name, **result}))
    for name, took_us in decoding.items():
        print(json.dumps({"benchmark": "one reading of 8 interfaces and lo", "what": name, "us": round(took_us, 2)}))
    slower = decoding["decoded by pyroute2"] / decoding["decoded by us"]
    print(json.dumps({"benchmark": "one reading of 8 interfaces and lo", "pyroute2_takes_times": slower}))
    per_sample = theirs["cpu_us_per_sample"] / ours["cpu_us_per_sample"]
    met = ours["cpu_ratio"] <= TARGET_RATIO
    print(json.dumps({"benchmark": "sampling 8 interfaces at 10 Hz", "times_cheaper": per_sample, "target_met": met}))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
