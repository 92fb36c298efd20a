"""The node's settings: those of its interfaces and processors that decide how it forwards, and may change unnoticed.

Only settings that stay constant by themselves, so that two readings can be compared; varying values (load, memory,
temperatures) are the survey's. A setting that a kernel or a driver does not report is null, never a guess. Read by
ioctl and from /proc and /sys: a reading costs a few milliseconds and starts no program, so it may be taken before and
after every trial.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import socket
from contextlib import closing
from typing import Any, Dict, Iterator, List, Optional

from labconsole.agent import netlink
from labconsole.agent.reading import facts
from labconsole.agent.reading.ethtool import Ethtool
from labconsole.agent.reading.proc_files import read_number, read_text
from labconsole.network import nic_features
from labconsole.wire.settings import IRQS_TOLD

GET_COALESCE = 0x0E
GET_RINGS = 0x10
GET_FLAGS = 0x25
GET_CHANNELS = 0x3C
FLAGS = {"lro": 1 << 15}
"""Features of ETHTOOL_GFLAGS; the others have a command each."""

FEATURES = {"rx_checksum": 0x14, "tx_checksum": 0x16, "scatter_gather": 0x18, "tso": 0x1E, "gso": 0x23, "gro": 0x2B}
NAMED_FEATURES = {
    "gro_hw": "rx-gro-hw",
    "gro_list": "rx-gro-list",
    "udp_gro_forwarding": "rx-udp-gro-forwarding",
    "rx_hash": "rx-hashing",
    "ntuple": "rx-ntuple-filter",
    "tc": "hw-tc-offload",
}
"""Features without a command of their own; older kernels lack some."""

SYSCTLS = (
    *(
        "net/core/" + name
        for name in (
            "netdev_budget",
            "netdev_budget_usecs",
            "netdev_max_backlog",
            "dev_weight",
            "dev_weight_rx_bias",
            "dev_weight_tx_bias",
            "netdev_tstamp_prequeue",
            "rps_sock_flow_entries",
            "flow_limit_cpu_bitmap",
            "gro_normal_batch",
            "skb_defer_max",
            "high_order_alloc_disable",
            "bpf_jit_enable",
            "rmem_max",
            "rmem_default",
            "wmem_max",
            "wmem_default",
            "default_qdisc",
        )
    ),
    *(
        "net/ipv4/" + name
        for name in (
            "ip_forward",
            "ip_early_demux",
            "ip_forward_use_pmtu",
            "ip_forward_update_priority",
            "fib_multipath_hash_policy",
            "conf/all/rp_filter",
            "conf/all/forwarding",
            "conf/all/accept_local",
            "neigh/default/gc_thresh3",
        )
    ),
    "net/netfilter/nf_conntrack_max",
    *("net/bridge/bridge-nf-call-" + name for name in ("iptables", "ip6tables", "arptables")),
    "kernel/numa_balancing",
    "kernel/nmi_watchdog",
    "kernel/sched_rt_runtime_us",
    "kernel/timer_migration",
)
INTERFACE_SYSCTLS = ("forwarding", "rp_filter")
QUEUE_FILES = {"rps_cpus": "rx", "rps_flow_cnt": "rx", "xps_cpus": "tx"}
"""Files that steer packets between processors, queue by queue, and the direction of the queues that have them."""

DEVICE_FILES = ("threaded", "gro_flush_timeout", "napi_defer_hard_irqs")
FREQUENCY_FILES = ("scaling_driver", "scaling_min_freq", "scaling_max_freq", "energy_performance_preference")
COUNTED = ("direct_pkts", "debug")
"""Options of a queueing discipline that are no settings."""

SEED = "option 14 "
"""Option of netem, which the netlink library does not know: drawn afresh for each."""

BOOT_OPTIONS = re.compile(
    r"(?:isolcpus|nohz|nohz_full|rcu_nocb\w*|irqaffinity|threadirqs|preempt|skew_tick|idle|nosmt|smt|maxcpus|nr_cpus|mem"
    r"|mitigations|no?pti|pti|\w*spectre\w*|spec\w*|retbleed|l1tf|mds|tsx\w*|kvm[-_a-z]*\.\w+|intel_\w+(?:\.\w+)?"
    r"|amd_\w+|processor\.\w+|cpuidle\w*\.\w+|cpufreq\.\w+|iommu(?:\.\w+)?|swiotlb|pcie?_\w+|hugepages\w*"
    r"|default_hugepagesz|transparent_hugepage|numa_balancing|nmi_watchdog|nosoftlockup|tsc|clocksource|audit|mce)(?:=\S*)?"
)
"""Relevant options from the kernel's command line; the rest names disks, consoles, sometimes passwords."""

MAX_QUEUES = 256
MAX_WORDS = 500
"""Most characters of a queueing discipline's options, and of a value for all queues together."""

MAX_DISCIPLINES = 2000
"""Most characters of all of an interface's queueing disciplines."""


def fitted(text: str, most: int = MAX_WORDS) -> str:
    """Shorten a text, with a digest of the whole in place of the rest, so that only equal texts stay equal."""
    if len(text) <= most:
        return text
    return "%s... (all: sha256 %s)" % (text[: most - 40], hashlib.sha256(text.encode()).hexdigest()[:16])


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
    try:
        features = nic_features.read_features(name)
    except OSError:
        features = {}
    found.update({feature: features.get(known) for feature, known in NAMED_FEATURES.items()})
    return found


def read_bus(name: str) -> Optional[Dict[str, Any]]:
    """Return where a NIC is plugged in, or None for one that is no device (veth, bridge)."""
    device = "/sys/class/net/%s/device" % name
    if not os.path.exists(device):
        return None
    real = os.path.realpath(device)
    subsystem = os.path.realpath(real + "/subsystem")
    width = read_number(real + "/current_link_width")
    return {
        "address": os.path.basename(real),
        "kind": os.path.basename(subsystem) if os.path.isdir(subsystem) else None,
        "link_speed": read_text(real + "/current_link_speed"),
        "link_width": width,
        "numa_node": read_number(real + "/numa_node"),
    }


def read_irqs(name: str) -> Dict[str, Optional[str]]:
    """Return the NIC's interrupts, and the processors that each may go to."""
    device = "/sys/class/net/%s/device" % name
    try:
        numbers = sorted((int(entry) for entry in os.listdir(device + "/msi_irqs") if entry.isdigit()))[:IRQS_TOLD]
    except OSError:
        number = read_number(device + "/irq")
        numbers = [number] if number else []
    return {str(number): read_text("/proc/irq/%d/smp_affinity_list" % number) for number in numbers}


def read_device_settings(name: str, index: int) -> Optional[Dict[str, Optional[str]]]:
    """Return how the kernel receives packets from a device and steers them, or None if /sys shows another's.

    Queue values are listed in order, or given once if all are equal.
    """
    device = "/sys/class/net/%s/" % name
    if read_number(device + "ifindex") != index:
        return None
    found = {key: read_text(device + key) for key in DEVICE_FILES}
    for key, way in QUEUE_FILES.items():
        queues = sorted(glob.glob("%squeues/%s-*" % (device, way)), key=lambda path: (len(path), path))
        values = [read_text("%s/%s" % (path, key)) for path in queues[: MAX_QUEUES + 1]]
        known = [value for value in values if value]
        # An incomplete list would look as if nothing else differed.
        whole = bool(known) and len(known) == len(values) <= MAX_QUEUES
        found[key] = fitted(known[0] if len(set(known)) == 1 else " ".join(known)) if whole else None
    return found


def _options(value: Any, name: str = "") -> Iterator[str]:
    """Yield a queueing discipline's options that are not 0, each with its name; as bytes if there is no decoder."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "attrs":
                for attribute in inner:
                    yield from _option(attribute)
            elif key not in COUNTED and "__" not in key:
                yield from _options(inner, key)
    elif isinstance(value, (list, tuple)):
        yield "%s %s" % (name, ",".join(map(str, value)))
    elif isinstance(value, bytes):
        yield "%s %s" % (name, value.hex())
    elif value:
        yield "%s %s" % (name, value)


def _option(attribute: Any) -> Iterator[str]:
    name, value = attribute[0][4:].lower(), attribute[1]  # without its TCA_
    if attribute[0] == "UNKNOWN":
        name, value = "option %d" % value["header"]["type"], None
    if value is None:
        raw = attribute.nla
        value = raw.data[raw.offset + 4 : raw.offset + raw.length]
        if not any(value):
            return
    yield from _options(value, name)


def parse_disciplines(messages: List[Any]) -> Dict[int, str]:
    """Return all queueing disciplines by interface index, roots first, with the options that the kernel reports."""
    found: Dict[int, Dict[str, int]] = {}
    for message in sorted(messages, key=lambda message: -message["parent"]):
        kind = message.get_attr("TCA_KIND")
        options = [each for each in _options(message.get_attr("TCA_OPTIONS")) if kind != "netem" or SEED not in each]
        text = ("%s %s" % (kind, fitted(" ".join(options).replace("%s_" % kind, "")))).strip()
        own = found.setdefault(message["index"], {})
        own[text] = own.get(text, 0) + 1
    return {
        index: fitted(
            "; ".join(text if many == 1 else "%d times %s" % (many, text) for text, many in own.items()),
            MAX_DISCIPLINES,
        )
        for index, own in found.items()
    }


def _interface(tool: Ethtool, message: Any, disciplines: Dict[int, str]) -> Dict[str, Any]:
    name = message.get("IFLA_IFNAME")
    return {
        **tool.driver(name),
        "mac": message.get("IFLA_ADDRESS"),
        "mtu": message.get("IFLA_MTU"),
        "up": message["state"] == "up",
        "carrier_changes": message.get("IFLA_CARRIER_CHANGES"),
        "queue_length": message.get("IFLA_TXQLEN"),
        "qdisc": message.get("IFLA_QDISC"),
        "qdiscs": disciplines.get(message["index"]),
        "xdp": None
        if message.get("IFLA_XDP") is None
        else message.get_nested("IFLA_XDP", "IFLA_XDP_ATTACHED") or "none",
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
        "bus": read_bus(name),
        "irqs": read_irqs(name),
        "device": read_device_settings(name, message["index"]),
        "sysctls": {key: read_text("/proc/sys/net/ipv4/conf/%s/%s" % (name, key)) for key in INTERFACE_SYSCTLS},
    }


def read_interfaces(ports: Optional[List[str]] = None) -> Dict[str, Dict[str, Any]]:
    """Read these interfaces of the calling thread's namespace, or every one but loopback."""
    of = None if ports is None else {index for index, name in socket.if_nameindex() if name in ports}
    with closing(netlink.RouteSocket()) as route, closing(Ethtool()) as tool:
        disciplines = parse_disciplines(route.queueing_disciplines(of))
        return {
            message.get("IFLA_IFNAME"): _interface(tool, message, disciplines)
            for message in route.links(of)
            if message.get("IFLA_IFNAME") != "lo"
        }


def turbo() -> Optional[bool]:
    """Return whether processors may exceed their nominal frequency, or None if the kernel does not report it."""
    off = read_number("/sys/devices/system/cpu/intel_pstate/no_turbo")
    if off is not None:
        return off == 0
    boost = read_number("/sys/devices/system/cpu/cpufreq/boost")
    return None if boost is None else bool(boost)


def idle_states() -> Optional[List[Dict[str, Any]]]:
    """Return the first processor's idle states with the time they take to leave, or None without cpuidle."""
    found = []
    for path in sorted(glob.glob("/sys/devices/system/cpu/cpu0/cpuidle/state[0-9]*")):
        found.append(
            {
                "name": read_text(path + "/name"),
                "exit_latency_us": read_number(path + "/latency"),
                "disabled": bool(read_number(path + "/disable")),
            }
        )
    return found or None


def frequencies() -> Optional[Dict[str, str]]:
    """Return what sets the processors' clocks and the bounds in kHz, or None if the kernel does not report it."""
    found = {}
    for key in FREQUENCY_FILES:
        values = {read_text(path) for path in glob.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/" + key)} - {None}
        if values:
            found[key] = ", ".join(sorted(value for value in values if value))
    return found or None


def boot_options(line: Optional[str]) -> Optional[str]:
    """Return options that affect processors, interrupts and memory access, or None if the kernel reports none."""
    return None if line is None else " ".join(filter(BOOT_OPTIONS.fullmatch, line.split())) or "none"


def irqbalance() -> bool:
    """Return whether irqbalance runs: it moves a NIC's interrupts during measurements."""
    return any(read_text(path) == "irqbalance" for path in glob.glob("/proc/[0-9]*/comm"))


def read(ports: Optional[List[str]] = None) -> Dict[str, Any]:
    """Read everything in the calling thread's namespace, limited to ``ports`` if given."""
    system = "/sys/devices/system/cpu"
    return {
        "interfaces": read_interfaces(ports),
        "governors": facts.governors(),
        "frequencies": frequencies(),
        "turbo": turbo(),
        "idle_states": idle_states(),
        "irqbalance": irqbalance(),
        "isolated_cpus": read_text(system + "/isolated"),
        "online_cpus": read_text(system + "/online"),
        "smt": read_text(system + "/smt/control"),
        "boot_options": boot_options(read_text("/proc/cmdline")),
        "sysctls": {name: read_text("/proc/sys/" + name) for name in SYSCTLS},
    }
