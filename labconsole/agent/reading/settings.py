"""How the node is set: what of its interfaces and processors decides how it forwards, and may be changed behind us.

Only what holds still by itself, so that two readings can be compared; what moves (load, memory, temperatures) is the
survey's. What a kernel or a driver does not tell is null, never a guess. Read by ioctl and from /proc and /sys: a
reading costs a few milliseconds and starts no program, so it may be taken before and after every trial.
"""

from __future__ import annotations

import glob
import os
from contextlib import closing
from typing import Any, Dict, List, Optional

from labconsole.agent import netlink
from labconsole.agent.reading import facts
from labconsole.agent.reading.ethtool import Ethtool
from labconsole.agent.reading.files import number_of, text_of

GET_COALESCE = 0x0E
GET_RINGS = 0x10
GET_FLAGS = 0x25
GET_CHANNELS = 0x3C
FLAGS = {"lro": 1 << 15}
"""Features of ETHTOOL_GFLAGS; the others have a command each."""

FEATURES = {
    "rx_checksum": 0x14, "tx_checksum": 0x16, "scatter_gather": 0x18, "tso": 0x1E, "gso": 0x23, "gro": 0x2B
}  # fmt: skip
SYSCTLS = (
    "net/core/netdev_budget",
    "net/core/netdev_budget_usecs",
    "net/core/netdev_max_backlog",
    "net/core/dev_weight",
    "net/core/rmem_max",
    "net/core/default_qdisc",
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/rp_filter",
    "net/ipv4/conf/all/forwarding",
    "net/bridge/bridge-nf-call-iptables",
)
INTERFACE_SYSCTLS = ("forwarding", "rp_filter")
MAX_IRQS = 256
"""Of one interface: as many queues as a fast NIC has."""


def _named(values: Optional[List[int]], places: Dict[str, int]) -> Optional[Dict[str, int]]:
    return None if values is None else {name: values[place] for name, place in places.items()}


def _offloads(tool: Ethtool, name: str) -> Dict[str, Optional[bool]]:
    found: Dict[str, Optional[bool]] = {}
    for feature, command in FEATURES.items():
        value = tool.number(name, command)
        found[feature] = None if value is None else bool(value)
    flags = tool.number(name, GET_FLAGS)
    for feature, bit in FLAGS.items():
        found[feature] = None if flags is None else bool(flags & bit)
    return found


def bus_of(name: str) -> Optional[Dict[str, Any]]:
    """Where a NIC is plugged in; None for one that is no device (veth, bridge)."""
    device = "/sys/class/net/%s/device" % name
    if not os.path.exists(device):
        return None
    real = os.path.realpath(device)
    subsystem = os.path.realpath(real + "/subsystem")
    width = number_of(real + "/current_link_width")
    return {
        "address": os.path.basename(real),
        "kind": os.path.basename(subsystem) if os.path.isdir(subsystem) else None,
        "link_speed": text_of(real + "/current_link_speed"),
        "link_width": width,
        "numa_node": number_of(real + "/numa_node"),
    }


def irqs_of(name: str) -> Dict[str, Optional[str]]:
    """The NIC's interrupts, and the processors that each may go to."""
    device = "/sys/class/net/%s/device" % name
    try:
        numbers = sorted((int(entry) for entry in os.listdir(device + "/msi_irqs") if entry.isdigit()))[:MAX_IRQS]
    except OSError:
        number = number_of(device + "/irq")
        numbers = [number] if number else []
    return {str(number): text_of("/proc/irq/%d/smp_affinity_list" % number) for number in numbers}


def _interface(tool: Ethtool, message: Any) -> Dict[str, Any]:
    name = message.get("IFLA_IFNAME")
    return {
        **tool.driver(name),
        "mac": message.get("IFLA_ADDRESS"),
        "mtu": message.get("IFLA_MTU"),
        "up": message["state"] == "up",
        "carrier_changes": message.get("IFLA_CARRIER_CHANGES"),
        "queue_length": message.get("IFLA_TXQLEN"),
        "qdisc": message.get("IFLA_QDISC"),
        **tool.link(name),
        "pause": tool.pause(name),
        "offloads": _offloads(tool, name),
        "rings": _named(tool.numbers(name, GET_RINGS, 8), {"rx_max": 0, "tx_max": 3, "rx": 4, "tx": 7}),
        "coalesce": _named(
            tool.numbers(name, GET_COALESCE, 22),
            {"rx_usecs": 0, "rx_frames": 1, "tx_usecs": 4, "tx_frames": 5, "adaptive_rx": 9, "adaptive_tx": 10},
        ),
        "stamps": tool.time_stamps(name),
        "queues": _named(tool.numbers(name, GET_CHANNELS, 8), {"rx": 4, "tx": 5, "combined": 7}),
        "bus": bus_of(name),
        "irqs": irqs_of(name),
        "sysctls": {key: text_of("/proc/sys/net/ipv4/conf/%s/%s" % (name, key)) for key in INTERFACE_SYSCTLS},
    }


def read_interfaces() -> Dict[str, Dict[str, Any]]:
    """Every interface of the calling thread's namespace but loopback."""
    with closing(netlink.RouteSocket()) as route, closing(Ethtool()) as tool:
        return {
            message.get("IFLA_IFNAME"): _interface(tool, message)
            for message in route.links()
            if message.get("IFLA_IFNAME") != "lo"
        }


def turbo() -> Optional[bool]:
    """Whether processors may run above their nominal frequency; None where the kernel does not say."""
    off = number_of("/sys/devices/system/cpu/intel_pstate/no_turbo")
    if off is not None:
        return off == 0
    boost = number_of("/sys/devices/system/cpu/cpufreq/boost")
    return None if boost is None else bool(boost)


def idle_states() -> Optional[List[Dict[str, Any]]]:
    """The first processor's idle states with the time they take to leave; None without cpuidle."""
    found = []
    for path in sorted(glob.glob("/sys/devices/system/cpu/cpu0/cpuidle/state[0-9]*")):
        found.append(
            {
                "name": text_of(path + "/name"),
                "exit_latency_us": number_of(path + "/latency"),
                "disabled": bool(number_of(path + "/disable")),
            }
        )
    return found or None


def irqbalance() -> bool:
    """Whether irqbalance runs: it moves a NIC's interrupts while one measures."""
    return any(text_of(path) == "irqbalance" for path in glob.glob("/proc/[0-9]*/comm"))


def read() -> Dict[str, Any]:
    """Everything, in the calling thread's namespace."""
    system = "/sys/devices/system/cpu"
    return {
        "interfaces": read_interfaces(),
        "governors": facts.governors(),
        "turbo": turbo(),
        "idle_states": idle_states(),
        "irqbalance": irqbalance(),
        "isolated_cpus": text_of(system + "/isolated"),
        "online_cpus": text_of(system + "/online"),
        "smt": text_of(system + "/smt/control"),
        "sysctls": {name: text_of("/proc/sys/" + name) for name in SYSCTLS},
    }
