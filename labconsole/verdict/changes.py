"""Differences between a trial's begin and end, and the settings of nodes in a record. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from labconsole.errors import CounterInconsistency
from labconsole.measure.counts import sample_difference
from labconsole.model.inventory import Inventory
from labconsole.model.record.run import Environment, Reason
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.observations import TrialObservations, counting_points, data_ports
from labconsole.verdict.reasons import reason
from labconsole.wire.rules import MAX_SENTENCE
from labconsole.wire.settings import IRQS_TOLD, InterfaceSettings, NodeSettings

# -- changes -----------------------------------------------------------------------------------------------------------
# Differences between a trial's begin and end: links, settings, clocks, guest, background load.

ADAPTIVE = {f"coalesce.{way}_{what}": f"adaptive_{way}" for way in ("rx", "tx") for what in ("usecs", "frames")}
"""Settings of interrupt moderation, each with the setting under which the driver adjusts it by itself."""

SEPARATELY_JUDGED = ("mtu", "up", "carrier_changes")
"""Settings of an interface that have a code of their own."""

UNJUDGED = ("irqs",)
"""irqbalance moves interrupts every ten seconds; the record reports that as an influence."""

MAX_CHANGES = 20
"""The number of changes named in one reason."""


Port = tuple[str, str]
"""Node and interface."""


def changes(seen: TrialObservations, limits: Tolerances, uut: str, ports: Sequence[Port] = ()) -> Iterator[Reason]:
    """Every reason from a difference between begin and end.

    ``ports``: the ports that numbers rest on in addition to the streams' ports.
    """
    yield from _counters(seen, uut, ports)
    yield from _ports(seen, uut, ports)
    yield from _settings(seen, uut, ports)
    yield from _clocks(seen, limits)
    yield from _platform(seen)
    yield from _background(seen, limits)


def _path(seen: TrialObservations, uut: str) -> list[tuple[str, str, str]]:
    """(node, namespace, interface) of every counter that a stream's numbers rest on."""
    found = [(p.node, p.namespace, p.interface) for raw in seen.flows for p in counting_points(raw, uut)]
    return list(dict.fromkeys(found))


def _counters(seen: TrialObservations, uut: str, ports: Sequence[Port]) -> Iterator[Reason]:
    for node, namespace, interface in (*_path(seen, uut), *((node, "", name) for node, name in ports)):
        first = seen.before.get(node, {}).get((namespace, interface))
        where = f"{node}/{namespace + '/' if namespace else ''}{interface}"
        evidence = {"node": node, "interface": f"{namespace}/{interface}" if namespace else interface}
        if first is None or node not in seen.after:
            continue
        last = seen.after[node].get((namespace, interface))
        if last is None:
            yield reason("interface_gone", f"{where} disappeared during the trial", **evidence)
            continue
        try:
            sample_difference(first, last)
        except CounterInconsistency as exc:
            yield reason("counter_decreased", f"{where}: {exc}", **evidence)


def _interfaces(
    seen: TrialObservations, node: str, interface: str
) -> tuple[InterfaceSettings, InterfaceSettings] | None:
    """One interface's settings before and after, if both are known."""
    before, after = (reading.port(interface) for reading in seen.readings(node))
    return None if before is None or after is None else (before, after)


def _all_ports(seen: TrialObservations, uut: str, ports: Sequence[Port]) -> list[Port]:
    return list(dict.fromkeys((*(port for raw in seen.flows for port in data_ports(raw, uut)), *ports)))


def _ports(seen: TrialObservations, uut: str, ports: Sequence[Port]) -> Iterator[Reason]:
    for node, interface in _all_ports(seen, uut, ports):
        both = _interfaces(seen, node, interface)
        if both is None:
            continue
        before, after = both
        evidence = {"node": node, "interface": interface}
        moved = None
        if before.carrier_changes is not None and after.carrier_changes is not None:
            moved = after.carrier_changes - before.carrier_changes
        if moved or before.up != after.up:
            times = f"{moved} times" if moved else "once"
            yield reason(
                "carrier_changed", f"{node}/{interface} went down or came up {times}", **evidence, changes=moved
            )
        if before.mtu != after.mtu:
            detail = f"the MTU of {node}/{interface} went from {before.mtu} to {after.mtu}"
            yield reason("mtu_changed", detail, **evidence, before=before.mtu, after=after.mtu)


def _settings(seen: TrialObservations, uut: str, ports: Sequence[Port]) -> Iterator[Reason]:
    for node in seen.end:
        own = [interface for name, interface in _all_ports(seen, uut, ports) if name == node]
        found = list(settings_changes(seen, node, own))
        if found:
            shown = ", ".join(f"{key} from {_word(old)} to {_word(new)}" for key, old, new in found[:MAX_CHANGES])
            more = f" and {len(found) - MAX_CHANGES} more" if len(found) > MAX_CHANGES else ""
            listed = [{"setting": key, "before": old, "after": new} for key, old, new in found[:MAX_CHANGES]]
            yield reason("settings_changed", f"{node}: {shown}{more}", node=node, changes=listed)


def settings_changes(
    seen: TrialObservations, node: str, ports: list[str], *, unjudged: bool = False
) -> Iterator[tuple[str, Any, Any]]:
    """(setting, before, after) of a node and of these ports of it.

    ``unjudged``: only those that are reported, not judged.
    """
    first, last = (reading.settings for reading in seen.readings(node))
    if first is None or last is None:
        return
    for interface in ports:
        both = _interfaces(seen, node, interface)
        if both is None:
            continue
        for key, old, new in _differences(*(port.to_wire() for port in both)):
            word = key.partition(".")[0]
            if _adapts_itself(key, both):
                continue
            if word not in SEPARATELY_JUDGED and (word in UNJUDGED) == unjudged:
                yield f"{interface} {key}", old, new
    if not unjudged:
        whole = (settings.to_wire() for settings in (first, last))
        yield from _differences(*({k: v for k, v in settings.items() if k != "interfaces"} for settings in whole))


def _adapts_itself(key: str, both: tuple[InterfaceSettings, ...]) -> bool:
    """Whether the driver adjusts this value by itself all the time: it is a momentary value, not a setting."""
    if key not in ADAPTIVE:
        return False
    return all(port.coalesce is not None and getattr(port.coalesce, ADAPTIVE[key]) for port in both)


def _differences(first: Mapping[str, Any], last: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Leaves that differ, with their keys joined by dots. A key that only one side has is a difference, too."""
    for key in {**first, **last}:
        old, new = first.get(key), last.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from ((f"{key}.{inner}", a, b) for inner, a, b in _differences(old, new))
        elif old != new:
            yield key, old, new


def _word(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):  # checked before numbers: 0 and 1 are equal to booleans
        return "on" if value else "off"
    return str(value)


def _clocks(seen: TrialObservations, limits: Tolerances) -> Iterator[Reason]:
    moved = {"the console": seen.console_clock_moved_ns, **{node: clock_moved_ns(seen, node) for node in seen.end}}
    for who, by_ns in moved.items():
        if by_ns is not None and abs(by_ns) / 1e9 > limits.clock_step_s:
            way = "forward" if by_ns > 0 else "back"
            yield reason(
                "clock_stepped",
                f"the wall clock of {who} was set {way} by {abs(by_ns) / 1e9:.3f} s during the trial, or it slept",
                node=None if who == "the console" else who,
                moved_ns=by_ns,
            )


def clock_moved_ns(seen: TrialObservations, node: str) -> int | None:
    """The change of wall clock minus monotonic clock, or None. NTP slews both alike, so only a step appears."""
    first, last = (reading.surroundings for reading in seen.readings(node))
    if first is None or last is None:
        return None
    return last.wall_ns - last.monotonic_ns - (first.wall_ns - first.monotonic_ns)


def _platform(seen: TrialObservations) -> Iterator[Reason]:
    if seen.attested_after is None or seen.attested_after == seen.attestation:
        return
    found = list(_differences(seen.attestation, seen.attested_after))
    shown = ", ".join(f"{key} was {_word(old)} and is {_word(new)}" for key, old, new in found[:MAX_CHANGES])
    yield reason(
        "guest_changed",
        f"the platform has changed since it was attested: {shown}",
        changes=[{"key": key, "before": old, "after": new} for key, old, new in found[:MAX_CHANGES]],
    )


def _background(seen: TrialObservations, limits: Tolerances) -> Iterator[Reason]:
    load = seen.background
    if load is None:
        return
    for key, requested in load.requested.items():
        achieved = load.achieved.get(key)
        if achieved is None:
            yield reason(
                "background_missed",
                f"it is not known what the background load reached ({key})",
                key=key,
                requested=requested,
            )
        elif abs(achieved - requested) > limits.background_ratio * abs(requested):
            yield reason(
                "background_missed",
                f"the background load reached {achieved:.6g} instead of {requested:.6g} ({key})",
                key=key,
                requested=requested,
                achieved=achieved,
            )


# -- node settings -----------------------------------------------------------------------------------------------------
# The settings of nodes in a record: one value per setting, under the name that administrators know.
#
# A missing setting is unknown. A sysctl that is null is known: it belongs to a kernel module that is not loaded. Every
# record of a trial has the settings, so names are short, and values that are only known together are one setting.

NOT_KEPT = ("interfaces", "governors", "idle_states", "sysctls")
"""Settings of a node that are omitted, because the record has them in another form."""

NOT_KEPT_OF_PORTS = (
    "mac",
    "up",
    "carrier_changes",
    "irqs",
    "sysctls",
    "qdisc",
    "stamps",
    "offloads",
    "device",
    "queues",
)
"""Settings of an interface that are omitted: identity and capabilities, and those recorded in another form."""

NOT_KEPT_OF_RINGS = ("rx_max", "tx_max")
"""The limits of the driver."""

MASKS = ("_cpus", "_bitmap")
"""Suffixes of the names of hexadecimal settings."""

SAME_AS = {"net/ipv4/conf/all/forwarding": "net/ipv4/ip_forward"}
"""A sysctl that the kernel also has under another name."""

OF_MODULES = ("net/bridge/", "net/netfilter/")
"""Sysctls that are absent until their module is needed. Others may be hidden in a network namespace."""

Kept = dict[str, str | int | float | bool | None]


def build_recorded_settings(settings: NodeSettings, ports: Iterable[str]) -> Kept:
    """The settings of the node and of these ports of it."""
    plain = settings.to_wire()
    found: Kept = dict(_leaves({key: value for key, value in plain.items() if key not in NOT_KEPT}))
    for name, value in settings.sysctls.items():
        if (value is not None or name.startswith(OF_MODULES)) and settings.sysctls.get(SAME_AS.get(name, "")) is None:
            found[name.replace("/", ".")] = _number(name, value)
    if settings.governors is not None:
        found["governors"] = ", ".join(f"{name} of {count}" for name, count in sorted(settings.governors.items()))
    if settings.idle_states is not None:
        off = {True: " (off)", False: ""}
        states = (f"{each.name} {each.exit_latency_us} µs{off[each.disabled]}" for each in settings.idle_states)
        found["idle states of the first processor"] = ", ".join(states)
    for name in ports:
        if name in settings.interfaces:
            found.update(_port_settings(name, settings.interfaces[name], steady=not settings.irqbalance))
    return {name: value for name, value in found.items() if not _cut(value)}


def _number(name: str, value: Any) -> Any:
    """A number if the kernel reports a decimal number; any other value unchanged."""
    plain = isinstance(value, str) and re.fullmatch(r"0|-?[1-9][0-9]{0,17}", value) and not name.endswith(MASKS)
    return int(value) if plain else value


def _cut(value: Any) -> bool:
    """Whether the value was longer than the limit for texts from a node: the rest may belong to another value."""
    return isinstance(value, str) and len(value) >= MAX_SENTENCE - 1


def _port_settings(name: str, port: InterfaceSettings, *, steady: bool) -> Iterator[tuple[str, Any]]:
    plain = port.to_wire()
    for key, value in {**port.offloads, **(port.device or {}), **port.sysctls}.items():
        if value is not None:
            yield f"{name} {key}", _number(key, value)
    if port.queues is not None:
        yield f"{name} queues", ", ".join(f"{key} {number}" for key, number in plain["queues"].items())
    if plain["rings"] is not None:
        plain["rings"] = {key: value for key, value in plain["rings"].items() if key not in NOT_KEPT_OF_RINGS}
    for key, value in _leaves({key: value for key, value in plain.items() if key not in NOT_KEPT_OF_PORTS}):
        adaptive = ADAPTIVE.get(key)
        if adaptive is None or not getattr(port.coalesce, adaptive):  # else the driver adjusts it all the time
            yield f"{name} {key}", value
    if port.qdiscs is None and port.qdisc is not None:
        yield f"{name} qdiscs", port.qdisc
    affinities = [port.irqs[number] for number in sorted(port.irqs, key=lambda each: (len(each), each))]
    if steady and 0 < len(affinities) < IRQS_TOLD:  # irqbalance would move them during the measurement
        known = [each for each in affinities if each is not None]
        if len(known) == len(affinities):
            yield f"{name} interrupts on processors", " ".join(known)


def _leaves(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _leaves(inner, f"{path}{key}.")
        elif inner is not None:
            yield f"{path}{key}", inner


def find_stream_ports(inventory: Inventory, node: str) -> list[str]:
    """The interfaces of a node that have streams in hosts.yaml."""
    found = []
    for stream in inventory.streams:
        ends = (stream.source.node, stream.source.interface), (stream.sink.node, stream.sink.interface)
        found += [
            interface
            for name, interface in (*ends, (inventory.uut, stream.uut_in), (inventory.uut, stream.uut_out))
            if name == node
        ]
    return list(dict.fromkeys(found))


def add_settings(
    nodes: Mapping[str, Any], settings: Mapping[str, NodeSettings | None], inventory: Inventory
) -> Environment:
    """An environment's entries on its nodes, with the settings of each node that reported them."""
    return {
        name: {**said, "settings": build_recorded_settings(known, find_stream_ports(inventory, name))}
        if (known := settings.get(name)) is not None and isinstance(said, dict)
        else said
        for name, said in nodes.items()
    }
