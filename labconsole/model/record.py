"""The run record, format 1: what is stored, printed by --json and exported. docs/data-format.md explains every field.

Intended, offered and measured are three quantities and three fields. None means "not known", never zero.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from labconsole.model.timing import Delay, StreamSpacing

FORMAT = 1
"""Incremented when an older reader would misread a newer record."""

Status = Literal["valid", "suspect", "invalid"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Reason(_Part):
    """Why a run is not simply valid: a stable code, a sentence, and the figures behind it for programs."""

    code: str
    detail: str
    evidence: dict[str, Any] | None = None


class Verdict(_Part):
    """valid, suspect (stands, with a doubt that is named) or invalid (enters no mean)."""

    status: Status
    reasons: tuple[Reason, ...] = ()


class PlanRef(_Part):
    """Which point of which plan a run is. ``warm_ups``: trials thrown away since the platform was set up for it."""

    name: str
    hash: str
    point: int
    repetition: int
    seed: int
    warm_ups: int = 0


class Requested(_Part):
    """What was asked for. ``target_bps`` is bandwidth on the wire per source."""

    platform: str
    frame_size_bytes: int
    frame_size_includes_fcs: bool
    sources: int
    target_bps: int | Literal["max"]
    background: str
    duration_s: float
    generator: str
    observe: str


class Capture(_Part):
    """tcpdump's own words: ``complete`` is True only when it says that it dropped nothing."""

    captured_packets: int
    dropped_packets: int | None
    complete: bool


class Sequence(_Part):
    """From pktgen's sequence numbers. ``lost_runs``: run length (as text, a JSON key) to how many."""

    lost_runs: dict[str, int]
    reordered_packets: int
    duplicate_packets: int


class Hop(_Part):
    """One point of a stream's path; ``lost_packets`` went missing between the hop before and this one.

    ``drops``: what counters at this place say was dropped on the way here, reason to packets. Raw increments: two of
    them may count the same packet, and those named ``node.*`` count for the whole node.
    """

    hop: str
    node: str
    interface: str
    packets: int | None
    lost_packets: int | None
    drops: dict[str, int] = Field(default_factory=dict)


class StreamRecord(_Part):
    """One stream of one run. ``*_bps`` is bandwidth on the wire; ``loss_packets`` = offered - measured, any sign."""

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
    capture: Capture | None
    counters: dict[str, int | None]
    sequence: Sequence | None
    ledger: tuple[Hop, ...]
    unplaced_packets: int | None
    delay: Delay | None = None
    spacing: StreamSpacing | None = None


class Total(_Part):
    """Sums over the streams; None when a summand is not known."""

    offered_packets: int | None
    offered_pps: float | None
    offered_bps: float | None
    measured_packets: int | None
    measured_pps: float | None
    measured_bps: float | None
    loss_packets: int | None
    loss_ratio: float | None


class Background(_Part):
    """What ran beside the guest under test, and the proof that it did (method.md section 3).

    ``requested`` and ``achieved``: names with units to numbers; every name of ``requested`` is in ``achieved``, None
    there when it is not known. ``cpus``: the UUT's CPUs that the second guest is pinned to; None: not pinned.
    ``streams``: the second guest's own, which enter no total. ``reference``: the stored maximum that a forwarding load
    is a share of.
    """

    kind: str
    guest: str | None = None
    cpus: str | None = None
    requested: dict[str, int | float] = Field(default_factory=dict)
    achieved: dict[str, int | float | None] = Field(default_factory=dict)
    streams: tuple[StreamRecord, ...] = ()
    reference: dict[str, Any] | None = None


class Failure(_Part):
    """What stopped a run before its end: a stable word, the operation, a sentence."""

    failure: str
    operation: str | None
    node: str | None
    message: str


class RunRecord(_Part):
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
    influences: tuple[dict[str, Any], ...] = ()
    environment: dict[str, Any] = Field(default_factory=dict)
    timeline: dict[str, Any] = Field(default_factory=dict)
    failure: Failure | None = None

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON types."""
        return self.model_dump(mode="json")
