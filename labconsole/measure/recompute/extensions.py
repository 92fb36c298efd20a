"""Checks the extensions of records: clocks, times of every packet, the kernel's drops, processor activity. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from labconsole.measure.drop_causes import function_of, is_kernels
from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.measure.time_histogram import TimeHistogram, bucket_of, highest_ns, lowest_ns
from labconsole.model.record.extensions import CAPTURE_STAMPS as STAMPS
from labconsole.model.record.extensions import CAPTURE_STAMPS_VERSION as STAMPS_VERSION
from labconsole.model.record.extensions import (
    CLOCKS,
    CLOCKS_VERSION,
    HOST_KERNEL_DROPS,
    KERNEL_DROPS,
    KERNEL_DROPS_VERSION,
    PACKET_TIMES,
    PACKET_TIMES_VERSION,
    STATED,
    TELEMETRY,
    TELEMETRY_VERSION,
    ClockAgreement,
    DropsRecord,
    DropsRequest,
    PacketTimes,
    PacketTimesRefused,
    Times,
    WorkRecord,
    WorkRefused,
    read_extension,
)
from labconsole.model.record.run import RunRecord, StreamRecord
from labconsole.model.strict_model import StrictModel
from labconsole.wire.packet_times import BUCKETS, SOCKET_FILTER

# -- reading -----------------------------------------------------------------------------------------------------------
# Reads extensions of records for verify, and reports those that cannot be read.

Content = TypeVar("Content", bound=StrictModel)
Refused = TypeVar("Refused", bound=StrictModel)


def has_version(extension: Any, version: int) -> bool:
    """Whether this version can judge it."""
    return isinstance(extension, dict) and extension.get("version") == version


def readable(
    where: str, extension: Mapping[str, Any], kind: type[Content], refused: type[Refused]
) -> tuple[Content | None, list[Discrepancy]]:
    """The extension's content, or None if it only states a refusal; and the problems with reading it."""
    try:
        if "refused" not in extension:
            return kind.model_validate(extension), []
        refused.model_validate(extension)
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return None, [against(f"{where}.{place}", f"cannot be read: {first['msg']}")]
    return None, []


# -- clocks ------------------------------------------------------------------------------------------------------------
# A second statement of the bound between a stream's clocks, from the record's environment.


def known_clocks(extension: Any) -> bool:
    """Whether this version can judge it."""
    return has_version(extension, CLOCKS_VERSION)


def known_stamps(extension: Any) -> bool:
    """Whether this version can judge them."""
    return has_version(extension, STAMPS_VERSION)


def least_bound_ns(stream: StreamRecord, record: RunRecord) -> int | None:
    """The least bound between the clocks of a stream's ends, or None if the environment does not show it.

    It is the offsets' distance plus both errors, or the stated sum if that is less and not disproved; 0 under one
    kernel.
    """
    found = _ends(stream, record)
    if len(found) != 2:
        return None
    boots = [_part(node, "facts").get("boot_id") for node in found]
    if boots[0] is not None and boots[0] == boots[1]:
        return 0
    stated, apart = _stated_ns(found), _apart_ns(found)
    if apart is None:
        return stated
    least, most = apart
    return most if stated is None or stated < least else min(stated, most)


def stamps_bound_ns(stream: StreamRecord) -> int | None:
    """The bound between the clock that stamped the capture and the sink's, 0 for the sink's own, or None if unknown."""
    stamps = stream.extensions.get(STAMPS)
    if stamps is None or not known_stamps(stamps):
        return 0
    bound = stamps.get("clock_bound_ns")
    return bound if type(bound) is int else None


def contradicting_clocks(where: str, stream: StreamRecord, record: RunRecord) -> Iterator[Discrepancy]:
    """Contradictions between the extension and the environment."""
    extension = stream.extensions.get(CLOCKS)
    if extension is None or not known_clocks(extension):
        return
    clocks, problems = readable(where, extension, ClockAgreement, ClockAgreement)
    yield from problems
    found = _ends(stream, record)
    if clocks is None or len(found) != 2:
        return
    bound, stated, apart = least_bound_ns(stream, record), _stated_ns(found), _apart_ns(found)
    if clocks.bound_ns != bound:
        yield against(f"{where}.bound_ns", f"is {clocks.bound_ns}, and by the environment {bound}", clocks.bound_ns)
    if clocks.stated_ns != stated:
        yield against(f"{where}.stated_ns", f"is {clocks.stated_ns}, and by the environment {stated}", clocks.stated_ns)
    if bound and clocks.contradicted != (stated is not None and apart is not None and apart[0] > stated):
        yield against(f"{where}.contradicted", "does not agree with the environment")


def _ends(stream: StreamRecord, record: RunRecord) -> list[dict[str, Any]]:
    names = [next((hop.node for hop in stream.ledger if hop.hop == name), None) for name in ("source_nic", "sink_nic")]
    nodes = record.environment.get("nodes")
    found = [nodes.get(name) for name in names] if isinstance(nodes, dict) else []
    return [node for node in found if isinstance(node, dict)]


def _apart_ns(ends: list[dict[str, Any]]) -> tuple[int, int] | None:
    """The least and greatest difference of the two clocks, by their comparison with the console's, or None."""
    keys = ("clock_offset_ns", "clock_error_ns")
    offsets, errors = ([value for node in ends if type(value := node.get(key)) is int] for key in keys)
    if len(offsets) < len(ends) or len(errors) < len(ends):
        return None
    distance, error = abs(offsets[1] - offsets[0]), sum(errors)
    return distance - error, distance + error


def _stated_ns(ends: list[dict[str, Any]]) -> int | None:
    """The sum of the errors stated for both, or None.

    None if one of them has no statement, both are 0, references differ, or one claims to be the reference itself.
    """
    said = [_part(node, STATED) for node in ends]
    errors = [error for each in said if type(error := each.get("error_ns")) is int]
    named = [each for each in said if each.get("reference") is not None]
    if named and all(each.get("is_reference") is True for each in named):
        return None
    references = {str(each["reference"]) for each in named}
    return None if len(references) > 1 or len(errors) < len(ends) else sum(errors) or None


def _part(node: dict[str, Any], key: str) -> dict[str, Any]:
    found = node.get(key)
    return found if isinstance(found, dict) else {}


# -- packet times ------------------------------------------------------------------------------------------------------
# Checks the times that a sink's kernel reported: its histograms, their figures, its counts.
#
# Records of other versions of the extension are not judged, and unjudged reports them.

ONE_WAY_FACTOR = 10
"""One-way delay is reported only if its median is this many times the possible error of the two time stamps."""

RATIOS = {"p50": (1, 2), "p90": (9, 10), "p99": (99, 100), "p999": (999, 1000), "p9999": (9999, 10_000)}
"""As whole numbers, so that rounding does not decide the rank."""

OF_EVERY_PACKET = ("delay_ns", "due_ns")
"""Times that each packet has, and whose longest is exact."""

ROUNDING_NS = 1.0

CLOCK_SET_NS = 1000
"""A wall clock that moved by this much was set, and no delay is reported."""


def known_packet_times(extension: Any) -> bool:
    """Whether this version can judge it."""
    return has_version(extension, PACKET_TIMES_VERSION)


def contradicting_times(where: str, stream: StreamRecord, least_bound_ns: int | None = None) -> Iterator[Discrepancy]:
    """Impossible values of the extension.

    ``least_bound_ns``: the possible error of the two time stamps by the clocks in the environment, or None if it is not
    there.
    """
    extension = stream.extensions.get(PACKET_TIMES)
    if extension is None or not known_packet_times(extension):
        return
    where = f"{where}.extensions.{PACKET_TIMES}"
    times, problems = readable(where, extension, PacketTimes, PacketTimesRefused)
    yield from problems
    if times is None:
        return
    yield from _numbers(where, times, stream)
    yield from _histograms(where, times)
    yield from _delay(where, times, least_bound_ns)


def _numbers(where: str, times: PacketTimes, stream: StreamRecord) -> Iterator[Discrepancy]:
    """Sequence numbers, which one processor reads in order; and port changes, which a socket filter never makes."""
    if times.port is not None and times.by == SOCKET_FILTER:
        yield against(f"{where}.port", f"is reported as changed by a {times.by}")
    if bool(times.packets) != bool(times.processors):
        yield against(f"{where}.processors", f"{times.processors} of them took {times.packets} packets")
    if times.late_packets > times.packets:
        yield against(
            f"{where}.late_packets", f"is more than the {times.packets} packets that arrived", times.late_packets
        )
    said = stream.generator_packets
    highest = times.packets - times.late_packets + times.skipped_packets
    if times.processors == 1 and said is not None and highest > said:
        says = f"numbers up to {highest} arrived or were skipped, but the generator sent {said} packets"
        yield against(f"{where}.skipped_packets", says, times.skipped_packets)


def _histograms(where: str, times: PacketTimes) -> Iterator[Discrepancy]:
    """Each histogram contains the number of packets to count, and its figures follow from its buckets."""
    alone = max(1, times.processors)  # packets without a neighbour before them: at most one per processor
    between = [part.packets if part is not None else 0 for part in (times.spacing_ns, times.variation_ns)]
    if between[0] != between[1]:
        yield against(f"{where}.variation_ns.packets", f"is {between[1]}, and spacing_ns has {between[0]}", between[1])
    if times.spacing_ns is None and times.packets > alone + times.overlapping_packets:
        yield against(f"{where}.spacing_ns", f"is missing for {times.packets} packets")
    for name in ("spacing_ns", "variation_ns", *OF_EVERY_PACKET):
        found: Times | None = getattr(times, name)
        if found is None:
            continue
        here = f"{where}.{name}"
        try:
            histogram = TimeHistogram.decoded(found.histogram)
        except ValueError as exc:
            yield against(f"{here}.histogram", f"cannot be read: {exc}")
            continue
        of_every = name in OF_EVERY_PACKET
        most = times.packets if of_every else times.packets - 1 - times.overlapping_packets
        least = most if of_every else times.packets - alone - times.overlapping_packets
        if not least <= histogram.total <= most or histogram.total != found.packets:
            says = f"holds {histogram.total} values and says {found.packets}; {times.packets} packets were counted"
            yield against(f"{here}.packets", says, found.packets)
            continue
        yield from _quantiles(here, found, histogram, exact_most=of_every)
        lowest = sum(lowest_ns(bucket) * count for bucket, count in histogram.packets.items())
        highest: float = sum(highest_ns(bucket) * count for bucket, count in histogram.packets.items())
        if BUCKETS - 1 in histogram.packets:
            highest = math.inf  # everything longer is in this bucket, too
        window_ns = times.window_s * 1e9 if name == "spacing_ns" and times.window_s is not None else None
        together = window_ns is None or lowest - ROUNDING_NS <= window_ns <= highest + ROUNDING_NS
        if times.processors == 1 and not times.overlapping_packets and not together:
            says = f"is {times.window_s} s, and all its packets' spacings are {lowest / 1e9} to {highest / 1e9} s"
            yield against(f"{where}.window_s", says, times.window_s)
        mean = getattr(found, "mean", None)
        if mean is not None and not lowest - ROUNDING_NS <= mean * histogram.total <= highest + ROUNDING_NS:
            says = f"is {mean}, and its buckets allow {lowest / histogram.total} to {highest / histogram.total}"
            yield against(f"{here}.mean", says, mean)


def _quantiles(here: str, found: Times, histogram: TimeHistogram, *, exact_most: bool) -> Iterator[Discrepancy]:
    buckets = list(histogram.packets)
    for name, (part, whole) in RATIOS.items():
        said, due = getattr(found, name), _value_at_rank(histogram, -(-histogram.total * part // whole))
        due = min(due, found.max) if exact_most else due
        if name != "p50" and histogram.total < whole // (whole - part):
            if said is not None:
                yield against(f"{here}.{name}", f"takes more than {histogram.total} packets", said)
        elif said != due:
            yield against(f"{here}.{name}", f"is {said}, and by its histogram {due}", said)
    if not exact_most:
        if found.max != highest_ns(buckets[-1]):
            yield against(f"{here}.max", f"is {found.max}, and by its histogram {highest_ns(buckets[-1])}", found.max)
        return
    for name, bucket in (("min", buckets[0]), ("max", buckets[-1])):
        value = getattr(found, name, None)
        if value is not None and bucket_of(value) != bucket:
            says = f"is {value}, and by its histogram from {lowest_ns(bucket)} to {highest_ns(bucket)}"
            yield against(f"{here}.{name}", says, value)


def _value_at_rank(histogram: TimeHistogram, rank: int) -> int:
    seen = 0
    for bucket, count in histogram.packets.items():
        seen += count
        if seen >= rank:
            return highest_ns(bucket)
    raise ValueError("a histogram of nothing has no quantiles")


def _delay(where: str, times: PacketTimes, least_bound_ns: int | None) -> Iterator[Discrepancy]:
    delay, bound = times.delay_ns, times.clock_bound_ns
    if (delay is None) == (times.reason is None):
        yield against(f"{where}.reason", "does not agree with the delay")
    if bound is not None and least_bound_ns is not None and bound < least_bound_ns:
        says = f"is {bound} ns; by the clocks in the environment they may be {least_bound_ns} ns off"
        yield against(f"{where}.clock_bound_ns", says, bound)
    if delay is None:
        if times.due_ns is not None:
            yield against(f"{where}.due_ns", "is given, but delay_ns is not")
        return
    yield from _due(where, delay, times.due_ns)
    if abs(times.clock_moved_ns) > CLOCK_SET_NS:
        yield against(f"{where}.delay_ns", f"is given, but the sink's clock was set by {times.clock_moved_ns} ns")
    if times.negative_packets:
        says = f"is given, but {times.negative_packets} packets arrived before they were sent"
        yield against(f"{where}.delay_ns", says)
    if bound is None or bound * ONE_WAY_FACTOR > delay.p50:
        off = "by an unknown amount" if bound is None else f"by {bound} ns"
        says = f"a median of {delay.p50} ns is given, but the two clocks may be off {off}"
        yield against(f"{where}.clock_bound_ns", says, bound)


def _due(where: str, delay: Times, due: Times | None) -> Iterator[Discrepancy]:
    """A packet is due no later than it was sent."""
    if due is None:
        return
    for name in (*RATIOS, "max"):
        since_sent, since_due = getattr(delay, name), getattr(due, name)
        if since_sent is not None and since_due is not None and since_due < since_sent:
            says = f"is {since_due}, but delay_ns, which cannot be longer, has {since_sent}"
            yield against(f"{where}.due_ns.{name}", says, since_due)


# -- kernel drops ------------------------------------------------------------------------------------------------------
# Checks the drops that the unit under test's kernel reported against the loss there.
#
# Records of other versions of the extension are not judged, and unjudged reports them.

COST_RATIO = 0.01
"""The share of a processor over the trial above which requested counting may have changed the measurement."""

BEFORE, BEHIND = ("generator", "source_nic"), ("sink_nic", "capture")
"""Hops outside the unit under test. Packets dropped before it never got into it."""


def known_kernel_drops(extension: Any) -> bool:
    """Whether this version can judge it."""
    return has_version(extension, KERNEL_DROPS_VERSION)


def contradicting_drops(record: RunRecord) -> Iterator[Discrepancy]:
    """Impossible values of the extensions."""
    for extension in (KERNEL_DROPS, HOST_KERNEL_DROPS):
        yield from _contradicting(record, extension)


def _contradicting(record: RunRecord, extension: str) -> Iterator[Discrepancy]:
    content, where = record.extensions.get(extension), f"extensions.{extension}"
    if content is None or not known_kernel_drops(content):
        return
    if "counted_ns" not in content:
        yield from readable(where, content, DropsRequest, DropsRequest)[1]
        return
    drops, problems = readable(where, content, DropsRecord, DropsRecord)
    yield from problems
    if drops is None:
        return
    left_out = drops.unlisted_packets + drops.missed_packets + drops.unreadable_packets
    if drops.complete == (drops.ended_early or left_out > 0):
        says = f"does not agree with {left_out} packets that were left out and ended_early {drops.ended_early}"
        yield against(f"{where}.complete", says)
    names = {stream.name for stream in (*record.streams, *_second(record))}
    for place, row in enumerate(drops.elsewhere):
        if row.stream is not None and row.stream not in names:
            yield against(f"{where}.elsewhere.{place}.stream", "is not one of the streams of this run", row.stream[:80])


def doubts_due(record: RunRecord) -> Iterator[tuple[str, bool, str]]:
    """For both doubts based on the extensions: the code, whether it must be there, and what the record shows."""
    read = [read_extension(record.extensions, name, DropsRecord) for name in (KERNEL_DROPS, HOST_KERNEL_DROPS)]
    drops = [each for each in read if each is not None]
    if not drops:
        return
    shares = [(each.asked, each.estimated_cost_ns / (record.requested.duration_s * 1e9)) for each in drops]
    shown = "; ".join(f"counting, {mode}, took {share:.2%} of a processor" for mode, share in shares)
    yield "tracing_cost", any(mode == "on" and share > COST_RATIO for mode, share in shares), shown
    if record.failure is not None or any(reason.code == "aborted" for reason in record.verdict.reasons):
        return
    found = [*_more_than_lost((*record.streams, *_second(record)), drops)]
    nothing = "the kernel dropped no more of any stream than was lost in the unit under test"
    yield "kernel_drops_disagree", bool(found), "; ".join(found) or nothing


def _second(record: RunRecord) -> Sequence[StreamRecord]:
    return () if record.background is None else record.background.streams


def _more_than_lost(streams: Sequence[StreamRecord], drops: Sequence[DropsRecord]) -> Iterator[str]:
    for stream in streams:
        off_way = [row for each in drops for row in each.elsewhere if row.stream == stream.name]
        hops = [hop for hop in stream.ledger if hop.hop not in BEFORE]
        dropped_at = {(hop.hop, name): n for hop in hops for name, n in hop.drops.items() if is_kernels(name)}
        labels = [name for hop in stream.ledger for name in hop.drops if is_kernels(name)]
        nameless = any(row.function is None for row in off_way) or any(function_of(name) is None for name in labels)
        if nameless or stream.uut_lost_packets is None or all(hop.hop in BEHIND for hop in hops):
            continue  # without the functions' names it is unknown which are losses
        dropped = sum(dropped_at.values()) + sum(row.packets for row in off_way)
        if dropped > max(stream.uut_lost_packets, 0):
            yield f"{stream.name}: the kernel dropped {dropped}, and the unit under test lost {stream.uut_lost_packets}"


# -- telemetry ---------------------------------------------------------------------------------------------------------
# Checks the processor activity that the unit under test reported.
#
# Records of other versions of the extension are not judged, and unjudged reports them.

KINDS = 7
"""The kinds of time, each rounded to ticks by itself."""

SLACK_RATIO = 0.05
SLACK_NS = 10**8
"""Both readings take a while, and time is counted in ticks that may be late."""


def known_telemetry(extension: Any) -> bool:
    """Whether this version can judge it."""
    return has_version(extension, TELEMETRY_VERSION)


def contradicting_telemetry(record: RunRecord) -> Iterator[Discrepancy]:
    """Impossible values of the extension."""
    extension, where = record.extensions.get(TELEMETRY), f"extensions.{TELEMETRY}"
    if extension is None and record.role == "telemetry" and record.verdict.status != "invalid":
        yield against(where, "is missing in a run with the role telemetry")
    if extension is None or not known_telemetry(extension):
        return
    if record.role != "telemetry":
        yield against(where, f"is given for a run with the role {record.role}")
    work, problems = readable(where, extension, WorkRecord, WorkRefused)
    yield from problems
    if work is None:
        return
    numbers = [each.number for each in work.processors]
    if len(set(numbers)) < len(numbers):
        yield against(f"{where}.processors", "has a processor twice")
    for place, each in enumerate(work.processors):
        here = f"{where}.processors.{place}"
        total = each.user_ns + each.system_ns + each.interrupt_ns + each.softirq_ns + each.steal_ns + each.idle_ns
        most = work.elapsed_ns * (1 + SLACK_RATIO) + KINDS * work.tick_ns + SLACK_NS
        if total > most:
            yield against(here, f"has {total} ns of time within {work.elapsed_ns} ns", total)
        if each.guest_ns > each.user_ns + work.tick_ns:
            yield against(f"{here}.guest_ns", f"is more than user_ns, {each.user_ns}", each.guest_ns)
