"""The live picture of a testbed: one store of ring buffers that the sampler writes and screens read.

Readers compare ``revision`` and paint when it moved. Samples are never sent as messages: at 100 nodes x 8 interfaces
and 10 Hz that alone would take a third of a core; an append here costs well under a microsecond.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from labconsole.agent.wire import STAT_NAMES
from labconsole.engine.events import NodeState
from labconsole.errors import CounterInconsistency
from labconsole.measure.rates import CounterSample, interval_rates

HISTORY = 600
"""Samples kept per series: a minute at 10 Hz. Bounded, so that memory stays flat over hours."""


@dataclass(slots=True)
class InterfaceLive:
    """One interface: its last sample, rates over the last interval, histories for sparklines.

    ``void`` is the sentence why the last interval has no rates (a counter decreased, samples were missed), or "".
    """

    node: str
    namespace: str
    name: str
    link: dict[str, Any] = field(default_factory=dict)
    last: CounterSample | None = None
    rates: dict[str, float] = field(default_factory=dict)
    void: str = ""
    rx_pps: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    tx_pps: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))

    @property
    def label(self) -> str:
        """The interface's name, with its namespace where it is not the node's own."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def add(self, sample: CounterSample) -> None:
        """Take a sample; compute rates against the one before unless that would be a lie."""
        previous, self.last = self.last, sample
        self.void = ""
        if previous is None or sample.monotonic_ns <= previous.monotonic_ns:
            return
        try:
            self.rates = interval_rates(previous, sample)
        except CounterInconsistency as exc:
            self.rates, self.void = {}, str(exc)
            return
        self.rx_pps.append(self.rates["rx_packets"])
        self.tx_pps.append(self.rates["tx_packets"])


@dataclass(slots=True)
class StreamLive:
    """One stream of the running or last trial. Packets are since the trial's start; rates over the last sample."""

    name: str
    source: str
    sink: str
    intended_pps: float | None = None
    offered_packets: int | None = None
    measured_packets: int | None = None
    offered_pps: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    measured_pps: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    final: bool = False
    """True once the numbers are those of the saved record rather than a running estimate."""

    generator: str = ""


@dataclass(slots=True)
class NodeLive:
    """One node: state in words, round trip, clock offset with its bound."""

    name: str
    roles: tuple[str, ...]
    state: NodeState = NodeState.IDLE
    message: str = ""
    round_trip_s: float | None = None
    clock_offset_ns: int | None = None
    kernel: str = ""
    missed_samples: int = 0
    quiet: bool = False
    """True while the node samples into its own memory and sends nothing (design.md section 3.4)."""


class Telemetry:
    """Everything live. One writer (the event loop), any number of readers on the same loop."""

    def __init__(self) -> None:
        self.revision = 0
        self.nodes: dict[str, NodeLive] = {}
        self.interfaces: dict[tuple[str, str, str], InterfaceLive] = {}
        self.streams: dict[str, StreamLive] = {}
        self._names: dict[tuple[str, str, int], str] = {}

    def set_links(self, node: str, links: list[dict[str, Any]]) -> None:
        """Take a node's list of links: new ones appear, vanished ones go."""
        present = set()
        for link in links:
            key = (node, link["namespace"], link["name"])
            present.add(key)
            self._names[(node, link["namespace"], link["index"])] = link["name"]
            live = self.interfaces.setdefault(key, InterfaceLive(node, link["namespace"], link["name"]))
            live.link = link
        for key in [k for k in self.interfaces if k[0] == node and k not in present]:
            del self.interfaces[key]
        self.revision += 1

    def interface_name(self, node: str, namespace: str, index: int) -> str | None:
        """Name of the interface with this index, or None while its link is not known yet."""
        return self._names.get((node, namespace, index))

    def add_counters(self, node: str, event: dict[str, Any]) -> None:
        """Take one checked ``counters`` event of a node."""
        for namespace, rows in event["namespaces"].items():
            for index, values in rows:
                name = self._names.get((node, namespace, index))
                live = self.interfaces.get((node, namespace, name)) if name is not None else None
                if live is not None:
                    live.add(CounterSample(event["monotonic_ns"], tuple(values)))
        self.revision += 1


def stat(values: tuple[int, ...], name: str) -> int | None:
    """One statistic of a sample, or None where the node's kernel is too old to count it."""
    index = STAT_NAMES.index(name)
    return values[index] if index < len(values) else None
