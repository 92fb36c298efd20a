"""The verdict on a guest trial of any kind: the part that all kinds share. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from labconsole.model.inventory import Inventory
from labconsole.model.record.run import Reason, Verdict
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.changes import Port, changes
from labconsole.verdict.foreign_packets import beyond_usual
from labconsole.verdict.influences import doubts, unobserved
from labconsole.verdict.observations import TrialObservations
from labconsole.verdict.reasons import reason, weighed


def judged(
    seen: TrialObservations,
    shown: Iterable[Reason],
    guest_problems: Iterable[str],
    *,
    limits: Tolerances,
    inventory: Inventory,
    ports: Sequence[Port] = (),
) -> Verdict:
    """The verdict on a guest trial.

    ``shown``: reasons from the record itself. ``guest_problems``: a sentence for every guest that did not answer, or
    that differs from what was set up. ``ports``: the interfaces that the numbers rest on.
    """
    found = [*seen.doubts, *(reason("guests_missing", problem) for problem in guest_problems), *shown]
    found += changes(seen, limits, inventory.uut, ports)
    found += unobserved(seen)
    found += doubts(seen, (), limits, inventory.uut, emulated=inventory.emulated)
    return weighed(found)


def capture_reasons(failure: str) -> list[Reason]:
    """Reasons for a sink whose capture failed; empty if ``failure`` is."""
    return [reason("not_measured", f"the sink's capture cannot be counted: {failure}")] if failure else []


class PacketSink(Protocol):
    """What a record has of the sink at which packets of guests are counted."""

    @property
    def node(self) -> str: ...
    @property
    def interface(self) -> str: ...
    @property
    def captured_packets(self) -> int: ...
    @property
    def dropped_packets(self) -> int | None: ...
    @property
    def nic_packets(self) -> int | None: ...
    @property
    def other_packets(self) -> int: ...
    @property
    def foreign_packets(self) -> int: ...
    @property
    def control_packets(self) -> int | None: ...


def sink_reasons(sink: PacketSink, whose: str, limits: Tolerances) -> Iterator[Reason]:
    """Reasons from a sink whose capture should have all packets of ``whose`` flows.

    The capture missed some, or others sent packets beyond the usual control traffic.
    """
    where = f"{sink.node}/{sink.interface}"
    if sink.dropped_packets:
        detail = f"{where}: the capture missed {sink.dropped_packets} packets"
        yield reason("capture_incomplete", detail, node=sink.node, dropped_packets=sink.dropped_packets)
    if sink.nic_packets is None:
        detail = f"{where}: what its NIC received is not known, so that nothing says whether the capture is complete"
        yield reason("not_observed", detail, node=sink.node)
    if sink.nic_packets is not None and sink.nic_packets > sink.captured_packets + (sink.dropped_packets or 0):
        detail = f"{where}: the NIC received {sink.nic_packets} packets, and {sink.captured_packets} were captured"
        yield reason("capture_incomplete", detail, node=sink.node)
    own = sink.captured_packets - sink.foreign_packets - sink.other_packets
    if sink.nic_packets is not None and own > sink.nic_packets:
        detail = f"{where}: {own} of our packets were captured, and the NIC received {sink.nic_packets}"
        yield reason("witnesses_disagree", detail, node=sink.node)
    strangers = sink.foreign_packets + sink.other_packets
    control = min(sink.control_packets or 0, sink.other_packets)
    if beyond_usual(strangers, control, sink.captured_packets) > limits.foreign_packets:
        detail = (
            f"{where}: {strangers} packets are not {whose}: {sink.foreign_packets} of other flows, "
            f"{sink.other_packets} of no flow"
        )
        detail += f", of these {control} of control traffic" if control else ""
        yield reason("foreign_frames", detail, node=sink.node, packets=strangers)
