"""A node's data ports: present, up, at the right speed, with a sufficient MTU and the right settings."""

from __future__ import annotations

import asyncio
import re

from labconsole.engine.check.context import ETHERNET_HEADER_BYTES, FIX_TOKEN, CheckContext, Wave, alike, check
from labconsole.engine.check.result import CheckFinding, Values, failed, passed, repaired, skipped, warned
from labconsole.network.links import LinkUp
from labconsole.units import format_rate_bps
from labconsole.verdict.observations import parse_snapshot
from labconsole.wire.changes import ApplyChanges
from labconsole.wire.codec import STAT_NAMES
from labconsole.wire.counters import ReadCounters
from labconsole.wire.links import NodeLinkState, ReadLinks
from labconsole.wire.settings import InterfaceSettings

CARRIER_S = 5.0
"""A gigabit NIC negotiates for up to four seconds."""

CARRIER_STEP_S = 0.05
LINE_ERRORS = ("rx_crc_errors", "rx_frame_errors", "rx_length_errors", "tx_carrier_errors")
"""Errors caused by a bad cable or a duplex mismatch, never by overload."""

_GENERATION = re.compile(r"([\d.]+) GT/s")


async def _links(bench: CheckContext, node: str) -> dict[str, NodeLinkState]:
    """The node's existing data ports, by name."""
    reply = await bench.link(node).ask(ReadLinks(), timeout_s=8)
    # The node's own report follows a moment later, and later checks rely on it.
    bench.session.telemetry.set_links(node, reply.links)
    found = {link.name: link for link in reply.links if link.namespace == ""}
    return {name: found[name] for name in bench.ports(node) if name in found}


async def _settings(bench: CheckContext, node: str) -> dict[str, InterfaceSettings]:
    """Settings of the node's existing data ports, by name."""
    found = (await bench.settings(node)).interfaces
    return {name: found[name] for name in bench.ports(node) if name in found}


@check("nic.present", "data ports exist", wave=Wave.FIRST)
async def present(bench: CheckContext, node: str) -> CheckFinding:
    """Every interface that hosts.yaml names exists."""
    ports = bench.ports(node)
    if not ports:
        return skipped("no stream passes through this node")
    links = await _links(bench, node)
    missing = [name for name in ports if name not in links]
    if missing:
        reply = await bench.link(node).ask(ReadLinks(), timeout_s=8)
        others = sorted(link.name for link in reply.links if link.namespace == "" and link.name != "lo")
        streams = ", ".join(dict.fromkeys(stream.name for name in missing for stream in ports[name]))
        return failed(
            f"no interface {', '.join(missing)}; there are {', '.join(others) or 'none'}",
            f"correct stream {streams} in hosts.yaml",
            missing=missing,
        )
    return passed(", ".join(f"{name} {link.mac}" for name, link in sorted(links.items())))


@check("nic.up", "links up", wave=Wave.FIXES)
async def up(bench: CheckContext, node: str) -> CheckFinding:
    """Every data port is up and has a carrier."""
    links = await _links(bench, node)
    down = [name for name, link in links.items() if not link.up]
    if bench.fix and node in bench.leased and not all(link.carrier for link in links.values()):
        if down:
            await bench.link(node).ask(ApplyChanges(token=FIX_TOKEN, changes=[LinkUp(interface=name) for name in down]))
        links = await _wait_carrier(bench, node)  # the port at the other end may just have been set up, too
        if down and all(link.carrier for link in links.values()):
            return repaired(
                f"{', '.join(down)} was down and has been set up until this session ends; to set it up permanently: "
                f"ip link set {down[0]} up on {node}",
                set_up=down,
            )
        down = [name for name, link in links.items() if not link.up]
    dark = [name for name, link in links.items() if link.up and not link.carrier]
    state = alike({name: "down" if name in down else "no carrier" if name in dark else "up" for name in links})
    if down:
        return failed(state, f"on {node}: ip link set {down[0]} up; or use --fix", fixable=True, down=down)
    if dark:
        return failed(
            state,
            f"check that the cable of {node}/{dark[0]} is plugged in and that {_far_end(bench, node, dark[0])} is up",
            no_carrier=dark,
        )
    return passed(state) if links else skipped("none of its data ports exists")


def _far_end(bench: CheckContext, node: str, interface: str) -> str:
    """The port at the other end of a cable, by hosts.yaml."""
    for stream in bench.ports(node)[interface]:
        hops = bench.hops(stream)
        place = hops.index((node, interface))
        far = hops[place + 1 if place % 2 == 0 else place - 1]
        return f"{far[0]}/{far[1]}"
    return "the other end"


async def _wait_carrier(bench: CheckContext, node: str) -> dict[str, NodeLinkState]:
    """The links, as soon as all have a carrier or time is up. Both ends may have been down."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + CARRIER_S
    while True:
        links = await _links(bench, node)
        if all(link.carrier for link in links.values()) or loop.time() > deadline:
            return links
        await asyncio.sleep(CARRIER_STEP_S)


@check("nic.speed", "speed and duplex")
async def speed(bench: CheckContext, node: str) -> CheckFinding:
    """Links run at the speed in hosts.yaml, full duplex. A virtual link has no speed of its own."""
    worse, better, unknown = [], [], []
    by_port: dict[str, str] = {}
    values: Values = {}
    for name, setting in (await _settings(bench, node)).items():
        wanted_bps = max(stream.link_speed_bps for stream in bench.ports(node)[name])
        if setting.bus is None or setting.bus.kind not in ("pci", "usb", "platform"):
            by_port[name] = f"virtual, {format_rate_bps(wanted_bps)} by hosts.yaml"
            continue
        mbps = setting.speed_mbps
        if mbps is None:
            unknown.append(name)
            by_port[name] = "speed unknown"
            continue
        values[name] = {"speed_mbps": mbps, "duplex": setting.duplex}
        by_port[name] = f"{format_rate_bps(mbps * 10**6)} {setting.duplex or 'unknown'} duplex"
        if mbps * 10**6 < wanted_bps or setting.duplex == "half":
            worse.append(f"{name} should run at {format_rate_bps(wanted_bps)}, full duplex")
        elif mbps * 10**6 > wanted_bps:
            better.append(name)
    evidence = alike(by_port)
    if worse:
        return failed(
            evidence,
            f"{'; '.join(worse)}: check cable, port and autonegotiation (ethtool {worse[0].split()[0]})",
            **values,
        )
    if better:
        return warned(
            evidence, f"hosts.yaml gives {better[0]} a lower link_speed; targets above it will be refused", **values
        )
    if unknown:
        return warned(evidence, f"make sure that {unknown[0]} is up, and look at `ethtool {unknown[0]}`", **values)
    return passed(evidence, **values) if by_port else skipped("none of its data ports exists")


@check("nic.mtu", "MTU")
async def mtu(bench: CheckContext, node: str) -> CheckFinding:
    """The longest frame passes every port."""
    longest = bench.frame_sizes()[1]
    needed = longest - ETHERNET_HEADER_BYTES
    settings = await _settings(bench, node)
    if not settings:
        return skipped("none of its data ports exists")
    evidence = alike({name: f"{setting.mtu} B" for name, setting in settings.items()})
    evidence += f"; {'the plan' if bench.plan else 'a full frame'} needs {needed} B"
    short = [name for name, setting in settings.items() if setting.mtu is not None and setting.mtu < needed]
    if short:
        return failed(evidence, f"on {node}: ip link set {short[0]} mtu {needed}", needed_bytes=needed, short=short)
    return passed(evidence, needed_bytes=needed)


@check("nic.mac", "MAC addresses")
async def mac(bench: CheckContext, node: str) -> CheckFinding:
    """Each data port has a unique address; two equal ones confuse every bridge between them."""
    owners: dict[str, list[str]] = {}
    for stream in bench.inventory.streams:
        for place in bench.hops(stream):
            live = bench.session.telemetry.interfaces.get((place[0], "", place[1]))
            if live is not None and live.link.mac:
                owners.setdefault(live.link.mac, []).append("/".join(place))
    mine = {key: names for key, names in owners.items() if any(n.startswith(f"{node}/") for n in names)}
    double = {key: names for key, names in mine.items() if len(names) > 1}
    if double:
        text = "; ".join(f"{key} is that of {' and '.join(names)}" for key, names in double.items())
        return failed(text, "give one of them another address: ip link set IFACE address 02:…")
    group = [key for key in mine if int(key.split(":")[0], 16) & 1]
    if group:
        return failed(f"{group[0]} is a group address", "give the interface an address whose first byte is even")
    return passed(f"all {len(mine)} are unique") if mine else skipped("none of its data ports has a MAC address")


@check("nic.driver", "driver and slot")
async def driver(bench: CheckContext, node: str) -> CheckFinding:
    """Drivers of the ports, and whether their slots carry the link speed."""
    narrow = []
    by_port: dict[str, str] = {}
    for name, setting in (await _settings(bench, node)).items():
        rings, bus = setting.rings, setting.bus
        text = f"{setting.driver or 'driver unknown'}"
        if rings is not None:
            text += f", rx ring {rings.rx} of {rings.rx_max}"
        if bus is not None and bus.link_width:
            carries_bps = slot_bps(bus.link_speed, bus.link_width)
            text += f", PCIe x{bus.link_width} at {bus.link_speed}"
            if carries_bps is not None and setting.speed_mbps and carries_bps < setting.speed_mbps * 10**6:
                narrow.append(f"{name}'s slot carries {format_rate_bps(carries_bps)}, less than its link")
        by_port[name] = text
    if narrow:
        return warned(alike(by_port), f"{'; '.join(narrow)}: use a wider slot")
    return passed(alike(by_port)) if by_port else skipped("none of its data ports exists")


@check("nic.stamps", "time stamps", roles=("sink",))
async def stamps(bench: CheckContext, node: str) -> CheckFinding:
    """Who can time-stamp the frames that a sink captures: the kernel and, with some NICs, the NIC."""
    ports = await _settings(bench, node)
    able = {name: port.stamps is not None and port.stamps.all_received for name, port in ports.items()}
    text = alike({name: "by the NIC, too" if each else "by the kernel only" for name, each in able.items()})
    if bench.inventory.nodes[node].capture_stamps == "nic" and not all(able.values()):
        return failed(text, f"remove capture_stamps of {node} from hosts.yaml, or use a NIC that stamps every frame")
    return passed(text) if text else skipped("none of its data ports exists")


def slot_bps(speed: str | None, width: int) -> float | None:
    """Bits per second of a PCIe slot in one direction: transfers times lanes, less the overhead of the line code."""
    found = _GENERATION.search(speed or "")
    if found is None:
        return None
    transfers_per_s = float(found[1]) * 1e9
    return transfers_per_s * width * (0.8 if transfers_per_s <= 5e9 else 128 / 130)


@check("nic.pause", "flow control")
async def pause(bench: CheckContext, node: str) -> CheckFinding:
    """Reports flow control, which can throttle a generator; it is left as found unless a platform sets it."""
    some = False
    by_port: dict[str, str] = {}
    for name, setting in (await _settings(bench, node)).items():
        found = setting.pause
        some = some or found is not None
        if found is None:
            by_port[name] = "none"
        else:
            by_port[name] = f"rx {'on' if found.rx else 'off'} tx {'on' if found.tx else 'off'}"
    if not by_port:
        return skipped("none of its data ports exists")
    return passed(alike(by_port) + ("; left as found unless a platform sets it, and watched" if some else ""))


@check("nic.offloads", "offloads")
async def offloads(bench: CheckContext, node: str) -> CheckFinding:
    """Large receive offload merges frames before they are counted or forwarded. Others are left as found."""
    merging = []
    by_port: dict[str, str] = {}
    values: Values = {}
    for name, setting in (await _settings(bench, node)).items():
        on = [key for key, value in setting.offloads.items() if value and key in ("gro", "gso", "tso", "lro")]
        values[name] = setting.offloads
        by_port[name] = ", ".join(on) or "none"
        if setting.offloads.get("lro"):
            merging.append(name)
    evidence = alike(by_port)
    if merging:
        hint = f"on {node}: ethtool -K {merging[0]} lro off (merged frames are not the frames that were sent)"
        if "uut" in bench.roles(node):
            return failed(evidence, hint, **values)
        return warned(evidence, hint, **values)
    return passed(evidence, **values) if by_port else skipped("none of its data ports exists")


@check("nic.errors", "damaged frames")
async def errors(bench: CheckContext, node: str) -> CheckFinding:
    """Damaged frames since the node started indicate a bad cable or a duplex mismatch."""
    snapshot = parse_snapshot(await bench.read(node, ReadCounters()))
    found: Values = {}
    for name in bench.ports(node):
        sample = snapshot.get(("", name))
        for statistic in LINE_ERRORS:
            index = STAT_NAMES.index(statistic)
            if sample is not None and index < len(sample.values) and sample.values[index]:
                found[f"{name} {statistic}"] = sample.values[index]
    if found:
        counts = ", ".join(f"{key} {count}" for key, count in found.items())
        return warned(
            counts,
            "check whether they grow during a run; if so, replace the cable or check the duplex setting",
            **found,
        )
    return passed("no damaged frames counted since the node started")
