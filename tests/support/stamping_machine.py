"""``python -m support.stamping_machine``: process 1 of a QEMU machine with two e1000e NICs on one wire, one of which
stamps what comes. Says what an agent there answers, as a line of JSON on the console. It may not end: the kernel panics.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

from labconsole.network import nic_features
from support.agent_process import SENDER, AgentProcess

MARK = "stamping machine: "
STAMPS, SENDS = "eth1", "eth2"
PTP_EVENTS = 12
"""HWTSTAMP_FILTER_PTP_V2_EVENT, which ptp4l asks for."""


def config() -> list[int]:
    return nic_features._query_driver(STAMPS, nic_features.GET_STAMPS, [0, 0, 0])


def taken() -> dict[str, Any]:
    """A capture with the NIC's stamps by an agent, and what is left set once it was undone, and once one was killed."""
    for name in (STAMPS, SENDS):
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
    time.sleep(3)  # QEMU's NIC negotiates
    net: Any = SimpleNamespace(prefix=[])
    said: dict[str, Any] = {"before": config()}
    agent = AgentProcess(net)
    said["able"] = agent.ok("settings")["interfaces"][STAMPS]["stamps"]
    agent.ok("net.apply", token="t", changes=[{"do": "nic_stamps", "interface": STAMPS}])
    said["set"] = config()
    said["clocks"] = [agent.ok("clock.nic", interface=STAMPS)]
    said["argv"] = agent.ok("capture.start", **agent.capture(STAMPS, nic_stamps=True, directory="/tmp"))["argv"]
    said["by_libpcap"] = config()
    subprocess.run([sys.executable, "-c", SENDER, SENDS, "20"], check=True)
    time.sleep(1)
    analysis = agent.ok("capture.stop", capture="s1")["analysis"]
    said |= {"packets": analysis["packets"], "ends_ns": [analysis["first_at_ns"], analysis["last_at_ns"]]}
    said["clocks"].append(agent.ok("clock.nic", interface=STAMPS))
    agent.ok("net.undo", token="t")
    said["undone"] = config()
    agent.ok("net.apply", token="t", changes=[{"do": "nic_stamps", "interface": STAMPS}])
    said["another"] = nic_features._query_driver(STAMPS, nic_features.SET_STAMPS, [0, 1, PTP_EVENTS])
    agent.ok("net.undo", token="t")
    said["kept"] = config()
    nic_features._query_driver(STAMPS, nic_features.SET_STAMPS, said["before"])
    agent.ok("net.apply", token="t", changes=[{"do": "nic_stamps", "interface": STAMPS}])
    os.kill(agent.hello["pid"], 9)
    agent.popen.wait(10)
    said["killed"] = config()
    return said


def main() -> None:
    try:
        answer = taken()
    except BaseException as exc:  # noqa: BLE001 - it is all that anybody hears of it
        answer = {"failed": f"{type(exc).__name__}: {exc}"}
    print(f"\n{MARK}{json.dumps(answer)}", flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
