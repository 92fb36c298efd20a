"""The settings of nodes in a record: one value per setting, under the name that administrators know. Pure.

A missing setting is unknown. A sysctl that is null is known: it belongs to a kernel module that is not loaded. Every
record of a trial has the settings, so names are short, and values that are only known together are one setting.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from labconsole.model.inventory import Inventory
from labconsole.model.record.environment import Environment
from labconsole.verdict.changes import ADAPTIVE
from labconsole.wire.rules import MAX_SENTENCE
from labconsole.wire.settings import IRQS_TOLD, InterfaceSettings, NodeSettings

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
