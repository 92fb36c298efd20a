"""Time stamps of packets: delay and spacing of a run, bounds between wall clocks, the accuracy of a NIC's own. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from labconsole.model.record.extensions import (
    CAPTURE_STAMPS,
    CLOCKS,
    STATED,
    CaptureStamps,
    ClockAgreement,
    ClockStatement,
    read_extension,
)
from labconsole.model.record.run import Delay, OneWayDelay, Quantiles, StreamRecord, StreamSpacing, Variation
from labconsole.wire.capture import CountedDelay, CountedSpacing
from labconsole.wire.clocks import NicClock
from labconsole.wire.message import Message

# -- delay and spacing -------------------------------------------------------------------------------------------------
# Derives a run's delay and spacing from the counted time stamps of a capture.

Kept = TypeVar("Kept", bound=Quantiles)

MARGIN = 10
"""A delay is called one-way only if it is at least this many times the possible error of its two time stamps."""

STAMP_UNIT_NS = 1000
"""pktgen's header has microseconds, cut off: every delay is too long by up to this."""


def clock_bound_ns(source: dict[str, Any], sink: dict[str, Any]) -> int | None:
    """The bound between the wall clocks of two nodes, by the record's ``environment.nodes``, or None if unknown.

    0 for nodes under one kernel (the same boot), which have one clock. Else their offsets' distance plus both errors.
    """
    boots = [node.get("facts", {}).get("boot_id") for node in (source, sink)]
    if boots[0] is not None and boots[0] == boots[1]:
        return 0
    apart = clocks_apart_ns(source, sink)
    return None if apart is None else sum(apart)


def clocks_apart_ns(source: dict[str, Any], sink: dict[str, Any]) -> tuple[int, int] | None:
    """(difference of two nodes' clocks by their comparison with ours, its possible error)."""
    figures = [node.get(key) for node in (source, sink) for key in ("clock_offset_ns", "clock_error_ns")]
    if not all(isinstance(figure, int) for figure in figures):
        return None
    source_offset_ns, source_error_ns, sink_offset_ns, sink_error_ns = (int(figure or 0) for figure in figures)
    return abs(sink_offset_ns - source_offset_ns), source_error_ns + sink_error_ns


def build_delay(
    counted: CountedDelay | None, *, clocks_ns: int | None, stamp_lead_ns: int, ahead_ns: int = 0
) -> Delay | None:
    """A stream's delay from the count of its capture, or None if the frames carry no time stamps.

    ``clocks_ns``: the bound between sender's and capture's clock, 0 for one clock or None if unknown.
    ``stamp_lead_ns``: how long before its sending a frame may have been stamped. ``ahead_ns``: by how much the
    capture's stamps are ahead because they are of another time scale.
    """
    if counted is None:
        return None
    raw = {name: getattr(counted.raw_ns, name) - ahead_ns for name in OneWayDelay.model_fields}
    bound_ns, reason = one_way_doubt(clocks_ns, stamp_lead_ns, raw["p50"])
    return Delay(
        packets=counted.packets,
        pair_every_packets=counted.pair_every_packets,
        one_way=reason is None,
        reason=reason,
        clock_bound_ns=bound_ns,
        one_way_ns=None if reason is not None else OneWayDelay(**raw),
        pdv_ns=_copy_fields(Quantiles, counted.pdv_ns),
        ipdv_ns=None if counted.ipdv_ns is None else _copy_fields(Variation, counted.ipdv_ns),
        sampling="random",
    )


def one_way_doubt(clocks_ns: int | None, stamp_lead_ns: int, median_ns: int) -> tuple[int | None, str | None]:
    """(possible error of the two time stamps, why a delay with this median is not reported or None if it is)."""
    if clocks_ns is None:
        return None, "how far the clocks of source and sink agree is not known"
    bound_ns = clocks_ns + stamp_lead_ns + STAMP_UNIT_NS
    if bound_ns * MARGIN > median_ns:
        coarse = _coarsest(clocks_ns, stamp_lead_ns)
        return bound_ns, f"{coarse} to {bound_ns} ns only, too coarse for a median of {median_ns} ns"
    return bound_ns, None


def _coarsest(clocks_ns: int | None, stamp_lead_ns: int) -> str:
    if clocks_ns:
        return "the clocks of source and sink agree"
    return "the generator stamps frames, before it waits," if stamp_lead_ns else "frames are stamped"


def _copy_fields(kind: type[Kept], figures: Message) -> Kept:
    return kind(**{name: getattr(figures, name) for name in kind.model_fields})


def build_spacing(counted: CountedSpacing | None, arrival_pps: float | None) -> StreamSpacing | None:
    """The regularity of a stream's arrivals, or None if it was not analysed or at most one frame arrived."""
    if counted is None:
        return None
    return StreamSpacing(
        packets=counted.packets,
        arrival_pps=arrival_pps,
        gap_ns=counted.gap_ns.to_wire(),
        burst_packets=counted.burst_packets,
        peak_packets=counted.peak_packets,
    )


# -- clocks ------------------------------------------------------------------------------------------------------------
# Bounds between the wall clocks of two nodes, measured and stated, and which of them applies.

Ends = tuple[str, str]


def agreement(names: Ends, source: dict[str, Any] | None, sink: dict[str, Any] | None) -> ClockAgreement:
    """The agreement of a stream's two nodes, by the record's ``environment.nodes``; None for a node missing there."""
    if source is None or sink is None:
        return ClockAgreement(bound_ns=None, bound_by=None, measured_ns=None, stated_ns=None)
    measured_ns = clock_bound_ns(source, sink)
    stated_ns, unused = _stated(names, (source, sink))
    if measured_ns == 0:
        return ClockAgreement(bound_ns=0, bound_by="one kernel", measured_ns=0, stated_ns=stated_ns)
    distance_ns, wrong_ns = clocks_apart_ns(source, sink) or (0, 0)
    apart_ns = distance_ns - wrong_ns
    contradicted = stated_ns is not None and apart_ns > stated_ns
    if contradicted:
        unused = (
            f"the clocks of {names[0]} and {names[1]} are stated to agree to {stated_ns} ns, and labconsole measured "
            f"that they are at least {apart_ns} ns apart"
        )
    holds = stated_ns is not None and not contradicted and (measured_ns is None or stated_ns < measured_ns)
    bound_ns = stated_ns if holds else measured_ns
    return ClockAgreement(
        bound_ns=bound_ns,
        bound_by="stated" if holds else None if bound_ns is None else "measured",
        measured_ns=measured_ns,
        stated_ns=stated_ns,
        unused=unused,
        contradicted=contradicted,
    )


def is_stated(*nodes: Mapping[str, Any] | None) -> bool:
    """Whether anything is stated about the clock of any of these nodes."""
    return any(node is not None and STATED in node for node in nodes)


def statement(node: Mapping[str, Any]) -> ClockStatement | None:
    """The statement about a node's clock in the environment, or None if there is none that this version understands."""
    try:
        return None if STATED not in node else ClockStatement.model_validate(node[STATED])
    except ValidationError:
        return None


def _stated(names: Ends, nodes: tuple[Mapping[str, Any], Mapping[str, Any]]) -> tuple[int | None, str | None]:
    """(the sum of the errors stated for both nodes, why it does not count)."""
    total_ns, references, follows = 0, {}, False
    for name, node in zip(names, nodes, strict=True):
        said = statement(node)
        if said is None or said.error_ns is None:
            why = "its error is not stated" if said is None else said.refused or "no error was reported"
            return None, f"the clock of {name}: {why}"
        total_ns += said.error_ns
        if said.reference is not None:
            references[name] = said.reference
            follows = follows or not said.is_reference
    if total_ns == 0:
        return None, "both are stated to be exact, which two clocks never are"
    if len(set(references.values())) > 1:
        return None, "their references differ: " + ", ".join(f"{name} {what}" for name, what in references.items())
    if references and not follows:
        own = next(iter(references))
        return None, f"{own} claims to be the reference, but the other node does not report that it follows it"
    return total_ns, None


def clock_sentence(stream: StreamRecord) -> str | None:
    """The agreement of a stream's clocks and its origin, or None if nothing was stated about them."""
    clocks = read_extension(stream.extensions, CLOCKS, ClockAgreement)
    if clocks is None:
        return None
    if clocks.bound_by == "one kernel":
        return "source and sink have one clock"
    also = "" if clocks.unused is None else f"; what is stated does not count: {' '.join(clocks.unused.split())}"
    if clocks.bound_ns is None:
        return f"how far the clocks agree is not known{also}"
    others = {"stated": ("measured", clocks.measured_ns), "measured": ("stated", clocks.stated_ns)}
    what, other_ns = others[clocks.bound_by or "measured"]
    alternative = "" if other_ns is None or clocks.unused else f" ({what}: to {other_ns} ns)"
    origin = "as is stated of them" if clocks.bound_by == "stated" else "as labconsole measured"
    return f"the clocks agree to {clocks.bound_ns} ns, {origin}{alternative}{also}"


# -- capture stamps ----------------------------------------------------------------------------------------------------
# The accuracy of a NIC's own time stamps relative to the system's clock.

SECOND_NS = 10**9


def nic_stamps(readings: Sequence[NicClock], refused: str | None, ends_ns: Sequence[int | None]) -> CaptureStamps:
    """Derive it from the NIC's clock before and after. ``ends_ns``: the first and the last stamp of the capture."""

    def unknown(why: str) -> CaptureStamps:
        return CaptureStamps(seconds_ahead=None, clock_bound_ns=None, reason=why)

    if refused is not None or len(readings) != 2:
        return unknown(refused or "its clock was not read before and after")
    before, after = readings
    if any(at is not None and not before.at_ns <= at <= after.at_ns for at in ends_ns):
        return unknown("frames have times that its clock did not have meanwhile, so it did not stamp all of them")
    seconds = round(before.ahead_ns / SECOND_NS)
    bound_ns = max(abs(each.ahead_ns - seconds * SECOND_NS) + each.error_ns for each in readings)
    return CaptureStamps(seconds_ahead=seconds, clock_bound_ns=bound_ns)


def add_nic_clock_bound(clocks_ns: int | None, stamps: CaptureStamps | None) -> int | None:
    """The bound between a source's clock and the one that stamped the capture, from the bound to the sink's clock."""
    if stamps is None or clocks_ns is None:
        return clocks_ns
    return None if stamps.clock_bound_ns is None else clocks_ns + stamps.clock_bound_ns


def stamps_sentence(stream: StreamRecord) -> str | None:
    """The source of a capture's time stamps, or None if it was the kernel."""
    stamps = read_extension(stream.extensions, CAPTURE_STAMPS, CaptureStamps)
    if stamps is None:
        return None
    if stamps.clock_bound_ns is None:
        return f"captured frames are stamped by the sink's NIC; {' '.join((stamps.reason or '').split())}"
    ahead = f", {stamps.seconds_ahead} s ahead" if stamps.seconds_ahead else ""
    return f"captured frames are stamped by the sink's NIC, to {stamps.clock_bound_ns} ns by the sink's clock{ahead}"
