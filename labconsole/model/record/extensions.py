"""Extensions of records: clocks, a NIC's time stamps, times of every packet, kernel drops, processor work. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field, ValidationError

from labconsole.model.strict_model import StrictModel

# -- reading -----------------------------------------------------------------------------------------------------------
# Reads known extensions of a record by name.

Extension = TypeVar("Extension", bound=StrictModel)


def read_extension(extensions: Mapping[str, Any], name: str, kind: type[Extension]) -> Extension | None:
    """The extension, or None if it is absent, of another version, or broken, which verify reports."""
    found = extensions.get(name)
    try:
        return None if found is None else kind.model_validate(found)
    except ValidationError:
        return None


# -- clocks ------------------------------------------------------------------------------------------------------------
# Bounds on the clock difference of a stream's source and sink, and their origin: an extension of its record.
#
# ``extensions["clocks"]`` of a stream, if hosts.yaml states something about the clock of its source or its sink. The
# statement of each node is in the record's ``environment.nodes`` as ``clock_stated``.

CLOCKS = "clocks"
CLOCKS_VERSION: Final = 1
STATED = "clock_stated"
"""The key of a node's statement in ``environment.nodes``."""

Span = Annotated[int, Field(strict=True, ge=0, lt=2**66)]
"""The sum of two nodes' bounds, whose clocks may be arbitrarily wrong."""


class ClockStatement(StrictModel):
    """A stated bound between a node's wall clock and its reference, at the worse end of the trial.

    ``by``: declared in hosts.yaml, or the program that keeps the clock. ``reference``: the program's reference; two
    reports are comparable only with the same one. ``is_reference``: the clock itself is the reference (None: not
    known), which counts only with a report that follows it. ``refused``: why nothing is stated; ``error_ns`` is None
    then.
    """

    by: Literal["declared", "chrony", "ptp4l"]
    error_ns: Span | None = None
    reference: str | None = None
    is_reference: Annotated[bool, Field(strict=True)] | None = None
    refused: str | None = None


class ClockAgreement(StrictModel):
    """``bound_ns``: maximum difference of the two wall clocks, or None if unknown. ``bound_by``: its origin.

    ``measured_ns``: by labconsole's own comparison; ``stated_ns``: the sum of both statements. The smaller one is used.
    ``unused``: why the statements do not count; ``contradicted``: because the measurement disproves them.
    """

    version: Literal[1] = CLOCKS_VERSION
    bound_ns: Span | None
    bound_by: Literal["one kernel", "measured", "stated"] | None
    measured_ns: Span | None
    stated_ns: Span | None
    unused: str | None = None
    contradicted: bool = False


# -- capture stamps ----------------------------------------------------------------------------------------------------
# Time stamps of a capture's frames by the sink's NIC: an extension of a stream's record.
#
# ``extensions["capture_stamps"]`` of a stream whose sink has ``capture_stamps: nic``. Without it the kernel stamped
# them.

CAPTURE_STAMPS = "capture_stamps"
CAPTURE_STAMPS_VERSION: Final = 1


class CaptureStamps(StrictModel):
    """``seconds_ahead``: whole seconds that the NIC's clock is ahead of the node's wall clock (TAI is 37 ahead of UTC),
    which are subtracted from delays. ``clock_bound_ns``: maximum remaining difference between the two, at the worse end
    of the trial. ``reason``: why neither is known, so that there is no one-way delay.
    """

    version: Literal[1] = CAPTURE_STAMPS_VERSION
    by: Literal["nic"] = "nic"
    seconds_ahead: Annotated[int, Field(strict=True, ge=-(2**34), le=2**34)] | None
    clock_bound_ns: Annotated[int, Field(strict=True, ge=0, lt=2**66)] | None
    reason: str | None = None


# -- packet times ------------------------------------------------------------------------------------------------------
# Times of every packet of a stream from the sink's kernel: an extension of the stream's record.
#
# ``extensions["packet_times"]`` of a stream whose packets were to be timed (``packet_times``). It gives the reason if
# the kernel could not.

PACKET_TIMES = "packet_times"
PACKET_TIMES_VERSION: Final = 1


Count = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Time = Annotated[int, Field(strict=True, ge=0, le=2**63)]
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class Times(StrictModel):
    """A distribution over every packet, in ns: nearest rank, the highest value of its bucket, so up to 1/128 too long.

    ``packets``: their number. ``histogram``: all, from 1 to 2^36 - 1 ns with two significant digits, in HdrHistogram's
    own encoding (version 2, compressed, base64). A quantile is None if it would take more packets.
    """

    packets: Count
    p50: Time
    p90: Time | None
    p99: Time | None
    p999: Time | None
    p9999: Time | None
    max: Time
    histogram: Annotated[str, Field(max_length=2**20)]


class DelayTimes(Times):
    """From the sender's time stamp to the arrival. ``min``, ``mean`` and ``max`` are exact; no quantile is longer."""

    min: Time
    mean: Annotated[float, Field(ge=0, le=2.0**63, allow_inf_nan=False)]


class TimingRefusal(StrictModel):
    """Why packets were not timed: a code and a sentence."""

    code: str
    message: str


class PortChanges(StrictModel):
    """An XDP program's changes to the sink's port, as ``wire.packet_times.XdpChanges`` explains them. The value of a
    feature is that while the program was loaded ("rx-gro-hw off").
    """

    features: tuple[str, ...]
    left_features: tuple[str, ...]
    link_changes: Count | None
    link_is_back: bool | None = None


class PacketTimes(StrictModel):
    """Every packet of one stream at its sink's port, counted and timed by the kernel there.

    ``bytes``: without the frame check sequence. ``window_s``: from the first to the last, or None below two packets.
    ``processors``: number of processors that took the packets; with more than one ``late_packets`` and
    ``skipped_packets`` are estimates. ``overlapping_packets``: two processors took them and their neighbour at the same
    instant, so that they have no spacing and no variation. ``skipped_packets``: missing numbers up to the highest that
    arrived; ``late_packets``: arrived after a higher one, or twice. ``negative_packets``: arrived before they were
    sent, by the two clocks. ``clock_moved_ns``: adjustment of the sink's wall clock meanwhile.

    ``due_ns``: the same from when a packet was due, by the intended interval: it includes packets that a stall of the
    sender withheld from the network (coordinated omission). The due time follows the sender's time stamps: no packet is
    due later than its stamp. ``max`` is exact. None without ``delay_ns``, without due times (target max), and in
    records older than this field.

    ``by``: a filter of a socket, at the place of a capture's own, or an XDP program, before that. ``port``: changes by
    the XDP program; absent for a socket filter, which changes nothing. ``memory_bytes``: memory of the sink used for
    counting, for all streams together, or None if not reported.

    ``spacing_ns``: between neighbours. ``variation_ns``: absolute difference of neighbours' delays (RFC 3393).
    ``delay_ns``: None if the clocks are not shown to agree well enough, and ``reason`` then says why;
    ``clock_bound_ns``: maximum difference of the two time stamps, or None if unknown.
    """

    version: Literal[1] = PACKET_TIMES_VERSION
    by: Literal["socket filter", "generic XDP", "native XDP"] = "socket filter"
    packets: Count
    bytes: Count
    window_s: Seconds | None
    processors: Count
    overlapping_packets: Count
    late_packets: Count
    skipped_packets: Count
    negative_packets: Count
    clock_moved_ns: Annotated[int, Field(strict=True, gt=-(2**63), lt=2**63)]
    clock_bound_ns: Count | None
    reason: str | None
    delay_ns: DelayTimes | None
    due_ns: Times | None = None
    spacing_ns: Times | None
    variation_ns: Times | None
    memory_bytes: Count | None = None
    port: PortChanges | None = None


class PacketTimesRefused(StrictModel):
    """In place of packet times. ``counted_packets``: by a filter without a program, or None if not counted either."""

    version: Literal[1] = PACKET_TIMES_VERSION
    refused: TimingRefusal
    counted_packets: Count | None = None


# -- kernel drops ------------------------------------------------------------------------------------------------------
# The packets that the UUT's kernel reports as dropped, besides the ledger's rows: an extension of a run.
#
# ``extensions["kernel_drops"]`` of a run whose ``drop_reasons`` are not off, and ``extensions["host_kernel_drops"]`` of
# the machine that runs the unit under test as a virtual one. Pure.

KERNEL_DROPS, HOST_KERNEL_DROPS = "kernel_drops", "host_kernel_drops"
KERNEL_DROPS_VERSION: Final = 1
Word = Annotated[str, Field(max_length=400)]


class DroppedElsewhere(StrictModel):
    """Test packets that were dropped at no hop of a stream. ``namespace``: "" for the node's own. None of
    ``interface``: it no longer exists; of ``stream``: they belong to none; of ``reason`` and ``function``: this kernel
    does not report it.
    """

    namespace: Word
    interface: Word | None
    stream: Word | None
    reason: Word | None
    function: Word | None
    packets: Count


class DropsRefusal(StrictModel):
    """Why there are no drops: a code and a sentence."""

    code: Word
    message: Word


class DropsRequest(StrictModel):
    """A request to the kernel for its drops. It gave no answer, and ``refused`` says why unless the node was lost.
    ``node``: the queried host, if it is not the unit under test.
    """

    version: Literal[1] = KERNEL_DROPS_VERSION
    asked: Word
    budget_ns: Count | None
    mode: Word | None = None
    tells_reasons: bool | None = None
    refused: DropsRefusal | None = None
    node: Word | None = None


class DropsRecord(DropsRequest):
    """A request with its answer. ``complete``: from begin to end; otherwise counts are lower bounds."""

    passed_packets: Count
    looked_packets: Count
    unreadable_packets: Count
    unlisted_packets: Count
    missed_packets: Count
    counted_ns: Count
    ended_early: bool
    complete: bool
    estimated_cost_ns: Count
    elsewhere: tuple[DroppedElsewhere, ...]


# -- telemetry ---------------------------------------------------------------------------------------------------------
# Processor work of the UUT in a telemetry trial: an extension of a run's record.
#
# ``extensions["telemetry"]`` of a run with the role ``telemetry``. It gives the reason if the node could not report it.

TELEMETRY = "telemetry"
TELEMETRY_VERSION: Final = 1


class ProcessorRecord(StrictModel):
    """One processor while traffic ran, in whole ticks of the kernel. ``system_ns``: without interrupts; ``guest_ns`` is
    also in ``user_ns``. ``received_softirqs``, ``sent_softirqs``: runs of NET_RX and NET_TX. ``stack_packets``: packets
    passed to the stack here, once more behind each virtual port on their path; ``backlog_dropped_packets``: further
    packets that found the backlog full. ``squeezed``: runs of NET_RX that ended for lack of time or budget with work
    left. None if the kernel does not report it.
    """

    number: Count
    user_ns: Count
    guest_ns: Count
    system_ns: Count
    interrupt_ns: Count
    softirq_ns: Count
    steal_ns: Count
    idle_ns: Count
    received_softirqs: Count | None
    sent_softirqs: Count | None
    stack_packets: Count | None
    backlog_dropped_packets: Count | None
    squeezed: Count | None


class InterruptRecord(StrictModel):
    """One interrupt line. ``by_processor``: (processor, number of interrupts)."""

    line: Word
    what: Word
    by_processor: tuple[tuple[Count, Count], ...]


class QueueRecord(StrictModel):
    """Packets of one queue of an interface by its driver's own statistics. ``direction``: rx or tx."""

    interface: Word
    direction: Word
    queue: Count
    packets: Annotated[int, Field(strict=True, gt=0, lt=2**63)]


class ProcessRecord(StrictModel):
    """One of the processes that used the processors most. ``kernel``: a kernel thread."""

    pid: Count
    name: Word
    kernel: bool
    cpu_ns: Count


class WorkRecord(StrictModel):
    """Work from right before the traffic to right after it. ``tick_ns``: the kernel's unit of time.
    ``unlisted_interrupts``: on lines that are not listed individually.
    """

    version: Literal[1] = TELEMETRY_VERSION
    node: Word
    elapsed_ns: Annotated[int, Field(strict=True, gt=0, lt=2**63)]
    tick_ns: Annotated[int, Field(strict=True, gt=0, le=10**9)]
    processors: tuple[ProcessorRecord, ...]
    interrupts: tuple[InterruptRecord, ...]
    unlisted_interrupts: Count
    queues: tuple[QueueRecord, ...]
    processes: tuple[ProcessRecord, ...]


class WorkRefusal(StrictModel):
    """Why there is no telemetry: a code and a sentence."""

    code: Word
    message: Word


class WorkRefused(StrictModel):
    """In place of the telemetry."""

    version: Literal[1] = TELEMETRY_VERSION
    node: Word
    refused: WorkRefusal
