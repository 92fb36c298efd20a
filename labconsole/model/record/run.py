"""The run record, format 2, as stored, printed by --json and exported. docs/data-format.md explains every field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.record.format import drop_later_keys
from labconsole.model.strict_model import StrictModel

# -- environment -------------------------------------------------------------------------------------------------------
# A record's environment: nodes and platform as observed, with free keys and a fixed structure.

Attestation = dict[str, Any]
"""A platform's report on its running guests."""


def _check_shape(environment: dict[str, Any]) -> dict[str, Any]:
    """Raises ValueError for a part that readers expect to be an object and is not."""
    _require_mapping(environment.get("platform"), "platform")
    nodes = environment.get("nodes")
    _require_mapping(nodes, "nodes")
    for name, node in (nodes or {}).items():
        _require_mapping(node, f"nodes.{name}")
        for part in ("facts", "settings"):
            _require_mapping((node or {}).get(part), f"nodes.{name}.{part}")
    return environment


def _require_mapping(value: object, place: str) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise ValueError(f"{place} must be an object or null, not {type(value).__name__}")


Environment = Annotated[dict[str, Any], AfterValidator(_check_shape)]
"""The circumstances of a trial (nodes, platform, calibration), kept as reported."""


# -- timing ------------------------------------------------------------------------------------------------------------
# Results of a run's time stamps for one stream: delay, its variation, and how evenly the frames arrived.
#
# One-way delay needs two clocks that are shown to agree; delay variation does not. So the former can be absent, with
# the reason, while the latter is present.


class Quantiles(StrictModel):
    """Quantiles of the sample, in ns; nearest rank."""

    p50: int
    p99: int
    p999: int
    max: int


class Variation(Quantiles):
    """Quantiles of absolute differences."""

    mean: float


class OneWayDelay(Quantiles):
    """From the sender's time stamp to the capture's."""

    min: int
    mean: float


class Delay(StrictModel):
    """Delay of a sample of one stream's frames: ``packets`` of them, two neighbours in every ``pair_every_packets``.

    ``one_way_ns`` is None if the clocks are not shown to agree well enough, and ``reason`` then says why.
    ``clock_bound_ns``: maximum difference of the two time stamps, or None if unknown. ``pdv_ns``: delay over the
    shortest in the sample (RFC 5481, PDV). ``ipdv_ns``: difference between neighbours (RFC 3393), absolute.
    """

    packets: int
    pair_every_packets: int
    one_way: bool
    reason: str | None
    clock_bound_ns: int | None
    one_way_ns: OneWayDelay | None
    pdv_ns: Quantiles
    ipdv_ns: Variation | None
    sampling: Literal["systematic", "random"] = "systematic"
    """random: a new random place each time (RFC 2330, section 11.1.1); systematic: at a fixed interval of packets, as
    in format 1.
    """


class StreamSpacing(StrictModel):
    """How evenly the first ``packets`` frames arrived at the sink, measured in calibrations.

    ``arrival_pps``: by the capture's first and last time stamp of the whole stream.
    """

    packets: int
    arrival_pps: float | None
    gap_ns: dict[str, float]
    burst_packets: int
    peak_packets: dict[str, int | None]


# -- the record --------------------------------------------------------------------------------------------------------
# Intended, offered and measured are three quantities and three fields. None means "not known", never zero. Records of
# format 1 are read, verified and reported on, and rewritten only in their original form (format.py). Later additions
# are in ``extensions``, each with a version of its own.

FORMAT = 2
"""Incremented when an older reader would misread a newer record."""

METHOD = 2
"""Version of the computations: incremented when the same packets would give other numbers. Format 1 only has 1."""

Status = Literal["valid", "suspect", "invalid"]

Role = Literal["measured", "pilot", "telemetry"]
"""measured: enters means; pilot: fixes references and loads before a plan's first block, and enters nothing."""

Direction = Literal["forward", "reverse"]

Side = Literal["source", "uut", "sink"]


def _versioned(value: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    for name, extension in value.items():
        if type(extension.get("version")) is not int:
            raise ValueError(f"extension {name!r} has no version, an integer")
    return value


Extensions = Annotated[dict[str, dict[str, Any]], AfterValidator(_versioned)]
"""Additions of later programs, by name. A reader keeps those it does not know, and says that it did not judge them."""

Figures = dict[str, Any]
"""The evidence of a reason or an influence, by name. Each kind has its own figures, which a record keeps unchanged."""


class Reason(StrictModel):
    """Why a run is not simply valid: a stable code, a sentence, and the figures behind it for programs.

    ``follows``: the code of the reason that caused this one, or None if it is independent.
    """

    code: str
    detail: str
    evidence: Figures | None = None
    follows: str | None = None


class Verdict(StrictModel):
    """valid, suspect (the numbers count, with a named doubt) or invalid (they enter no mean)."""

    status: Status
    reasons: tuple[Reason, ...] = ()


class Fixed(StrictModel):
    """Values that a plan's pilot fixed for every block and that concern this run.

    ``maximum_target_bps``: the load at which the maximum of this run's setting is read, or None if it has a rate and no
    maximum, or the pilot has no run of it. ``reference_pps``: the platform's maximum that a forwarding second guest's
    load is a share of. ``run_ids``: the runs behind both. ``source``: the pilot's own trials; "stored", for runs under
    equal conditions, is read but not written by this version.
    """

    maximum_target_bps: int | Literal["max"] | None = None
    reference_pps: float | None = None
    run_ids: tuple[str, ...] = ()
    source: Literal["pilot", "stored"] = "pilot"


class PlanRef(StrictModel):
    """The point and plan of a run. ``warm_ups``: discarded trials since the platform was set up for it.

    ``block`` from 1, 0 for the pilot, or None in a plan without blocks. ``attempt`` from 1, of at most ``attempts``.
    ``position``: place from 1 in the order of the whole plan. ``set_ups``, ``repetitions``: as in the plan when the run
    was taken. ``set_up_trials``: number of trials in this run's complete set-up. ``margin_ratio``: the difference that
    does not matter according to the plan, or None if it declares none. ``claims``: the tables that may conclude, or
    None for all.
    """

    name: str
    hash: str
    point: int
    repetition: int
    seed: int
    warm_ups: int = 0
    block: int | None = None
    attempt: int = 1
    attempts: int = 1
    order: str | None = None
    position: int | None = None
    set_ups: int | None = None
    repetitions: int | None = None
    set_up_trials: int | None = None
    margin_ratio: float | None = None
    claims: tuple[str, ...] | None = None
    fixed: Fixed | None = None


class SetUp(StrictModel):
    """The set-up of platform and background that a run was taken in.

    ``trial``: number of the trial in it, from 1, including warm-ups. ``setup_s``: setup time until it forwarded.
    """

    id: str
    started_at: str
    setup_s: float
    trial: int


class Conditions(StrictModel):
    """Other conditions that must be equal before runs may be pooled, as reported by the UUT. None means not known."""

    uut_kernel: str | None = None
    hypervisor: str | None = None
    hypervisor_version: str | None = None
    uut_boot_id: str | None = None


class InForce(StrictModel):
    """The settings and tolerances of the trial. ``tolerances``: all of them, by name."""

    tolerances: dict[str, int | float]
    settle_s: float | None
    drain_s: float | None
    sample_interval_s: float | None = None


class Requested(StrictModel):
    """The request. ``target_bps`` is bandwidth on the wire per source."""

    platform: str
    frame_size_bytes: int | None
    """The size, or None for a mix of sizes, which an extension describes."""

    frame_size_includes_fcs: bool
    sources: int
    target_bps: int | Literal["max"]
    background: str
    duration_s: float
    generator: str
    observe: str

    @property
    def includes_fcs(self) -> bool:
        """The convention of the frame size, or of all sizes of a mix."""
        return self.frame_size_includes_fcs

    def format_size(self) -> str:
        """``64 B without FCS``; for a mix ``mixed B without FCS``."""
        return f"{self.frame_size_bytes or 'mixed'} B {FrameSize(0, self.frame_size_includes_fcs).convention}"

    @property
    def frame(self) -> FrameSize | None:
        """The frame size in its convention, or None for a mix."""
        return None if self.frame_size_bytes is None else FrameSize(self.frame_size_bytes, self.frame_size_includes_fcs)

    @property
    def point(self) -> DesignPoint | None:
        """The request as a design point, or None for frames of several sizes."""
        return None if self.frame_size_bytes is None else DesignPoint.from_columns(dict(self))


class CaptureCounts(StrictModel):
    """tcpdump's own report: ``complete`` is True only if tcpdump states that it dropped nothing.

    ``sha256``: of the capture file's bytes as they were counted, before they were deleted.
    """

    captured_packets: int
    dropped_packets: int | None
    complete: bool
    sha256: str | None = None


class Arrivals(StrictModel):
    """Arrival times of a stream's packets at the sink, by the sink's clock alone.

    ``window_s``: from the first to the last of ``packets``; ``window_from`` counters: from their samples, which are
    ``resolution_s`` apart. ``late_packets``: arrived later than the sending time after the first one, queued until
    then, or None if the samples do not show it. ``queued_packets``: those of them more than another 0.01 s late, which
    a search counts as lost. From samples both are lower bounds.
    """

    packets: int
    window_s: float
    window_from: Literal["capture", "counters"]
    resolution_s: float
    late_packets: int | None
    queued_packets: int | None = None


class JointLoss(StrictModel):
    """Packets lost on several sides together, because the counter between them was not read."""

    sides: tuple[Side, ...]
    packets: int


class Sequence(StrictModel):
    """Losses by pktgen's sequence numbers. ``lost_runs``: run length (as text, a JSON key) to number of runs."""

    lost_runs: dict[str, int]
    reordered_packets: int
    duplicate_packets: int


class LedgerHop(StrictModel):
    """One point of a stream's path; ``lost_packets`` were lost between the hop before and this one.

    ``drops``: packets that counters at this place report as dropped on the way here, by reason. Raw increments: two of
    them may count the same packet, and those named ``node.*`` count for the whole node.
    """

    hop: str
    node: str
    interface: str
    packets: int | None
    lost_packets: int | None
    drops: dict[str, int] = Field(default_factory=dict)


class StreamRecord(StrictModel):
    """One stream of one run. ``*_bps`` is bandwidth on the wire; ``loss_packets`` = offered - measured, any sign.

    ``offered_packets``: as seen on the wire, the smaller of the generator's count and the source's NIC's (RFC 2285,
    section 3.5.2); ``generator_packets`` is the generator's count. ``source_lost_packets`` = generator - offered,
    ``uut_lost_packets`` = offered - sent by the UUT's port, ``sink_lost_packets`` = that - measured; if a counter was
    not read, both sides of it are None and ``lost_together`` has their sum. ``forwarding_pps``: over the window of
    arrivals, never over less than the sending time (RFC 2285, section 3.6.1).
    """

    name: str
    generator: str
    generator_version: str | None
    delay_ns: int
    burst_packets: int | None
    intended_packets: int | None
    intended_pps: float | None
    offered_packets: int | None
    offered_duration_s: float | None
    offered_pps: float | None
    offered_bps: float | None
    measured_packets: int | None
    measured_pps: float | None
    measured_bps: float | None
    measured_from: Literal["capture", "counters"] | None
    loss_packets: int | None
    loss_ratio: float | None
    capture: CaptureCounts | None
    counters: dict[str, int | None]
    sequence: Sequence | None
    ledger: tuple[LedgerHop, ...]
    unplaced_packets: int | None
    delay: Delay | None = None
    spacing: StreamSpacing | None = None
    direction: Direction = "forward"
    generator_packets: int | None = None
    source_lost_packets: int | None = None
    uut_lost_packets: int | None = None
    sink_lost_packets: int | None = None
    lost_together: tuple[JointLoss, ...] = ()
    arrivals: Arrivals | None = None
    forwarding_pps: float | None = None
    forwarding_bps: float | None = None
    extensions: Extensions = Field(default_factory=dict)


class Total(StrictModel):
    """Sums over the streams, or None if a summand is unknown. ``uut_loss_ratio``: relative to offered."""

    offered_packets: int | None
    offered_pps: float | None
    offered_bps: float | None
    measured_packets: int | None
    measured_pps: float | None
    measured_bps: float | None
    loss_packets: int | None
    loss_ratio: float | None
    generator_packets: int | None = None
    source_lost_packets: int | None = None
    uut_lost_packets: int | None = None
    sink_lost_packets: int | None = None
    uut_loss_ratio: float | None = None
    late_packets: int | None = None
    queued_packets: int | None = None
    forwarding_pps: float | None = None
    forwarding_bps: float | None = None


class Background(StrictModel):
    """The second guest's load, and the proof that it ran (docs/background.md, "How it is proven").

    ``requested`` and ``achieved``: names with units to numbers; every name of ``requested`` is in ``achieved``, None
    there if unknown. ``cpus``: the UUT's CPUs that the second guest is pinned to, or None if not pinned. ``streams``:
    the second guest's own, which enter no total. ``reference``: the stored maximum that a forwarding load is a share
    of.
    """

    kind: str
    guest: str | None = None
    cpus: str | None = None
    requested: dict[str, int | float] = Field(default_factory=dict)
    achieved: dict[str, int | float | None] = Field(default_factory=dict)
    streams: tuple[StreamRecord, ...] = ()
    reference: Figures | None = None


class Failure(StrictModel):
    """The reason for a run's early end: a stable code, the operation, a sentence."""

    failure: str
    operation: str | None
    node: str | None
    message: str


class RunRecord(StrictModel):
    """One run. The same object in the store, in --json and in exports."""

    run_id: str
    format: int = FORMAT
    started_at: str
    finished_at: str
    testbed: str
    testbed_fingerprint: str
    emulated: bool
    operator: str
    labconsole_version: str
    plan: PlanRef | None
    requested: Requested
    streams: tuple[StreamRecord, ...]
    total: Total
    background: Background | None
    verdict: Verdict
    influences: tuple[Figures, ...] = ()
    environment: Environment = Field(default_factory=dict)
    timeline: dict[str, Any] = Field(default_factory=dict)
    failure: Failure | None = None
    role: Role = "measured"
    method: int = METHOD
    set_up: SetUp | None = None
    conditions: Conditions | None = None
    in_force: InForce | None = None
    extensions: Extensions = Field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON types."""
        return self.plain("json")

    def plain(self, mode: Literal["json", "python"] = "python") -> dict[str, Any]:
        """The record as plain data, with the keys of its own format. ``python`` keeps a NaN, which JSON would turn to
        null.
        """
        data = self.model_dump(mode=mode)
        return drop_later_keys(data) if self.format == 1 else data


# -- conditions --------------------------------------------------------------------------------------------------------
# Conditions that must be equal, besides the design point, before runs count as repetitions of each other. Pure; for
# every format.
#
# Unknown is a value of its own: runs with an unknown condition pool with each other and with no others.

MOST_LENGTH = 200
"""Longest version text that a node may report."""


def derive_conditions(record: RunRecord) -> Conditions:
    """The conditions of the record, or those that its environment shows for format 1."""
    if record.conditions is not None:
        return record.conditions
    stream = record.streams[0] if record.streams else None
    uut = next((hop.node for hop in stream.ledger if hop.hop == "uut_in"), None) if stream is not None else None
    return read_conditions(record.environment, uut)


def read_conditions(environment: Mapping[str, Any], uut: str | None) -> Conditions:
    """Read the conditions from a record's environment. ``uut``: the UUT's name among the nodes, or None if unknown."""
    facts = _mapping(_mapping(_mapping(environment.get("nodes")).get(uut or "")).get("facts"))
    platform = _mapping(environment.get("platform"))
    versions = platform.get("versions")
    if isinstance(versions, Mapping):
        version: str | None = ", ".join(f"{name} {value}" for name, value in sorted(versions.items()))
    else:
        version = _text(platform.get("version"))
    return Conditions(
        uut_kernel=_text(facts.get("kernel")),
        hypervisor=_text(platform.get("driver")),
        hypervisor_version=version[:MOST_LENGTH] if version else None,
        uut_boot_id=_text(facts.get("boot_id")),
    )


def format_hypervisor(conditions: Conditions) -> str | None:
    """The platform's driver, with the versions of its hypervisor and of the guests' images."""
    if conditions.hypervisor is None or not conditions.hypervisor_version:
        return conditions.hypervisor
    return f"{conditions.hypervisor} {conditions.hypervisor_version}"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return value[:MOST_LENGTH] if isinstance(value, str) else None
