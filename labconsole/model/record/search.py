"""The record of one search, format 2: the results at one configuration, with all their trials.

Its trials are runs of their own; their counts are repeated here, so that the bounds can be recomputed from this record
alone. Loads are per source, counts are sums over the sources. docs/search.md explains every field.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.record.kind import PlannedRecord, RecordKind, columns_of
from labconsole.model.record.run import OneWayDelay, Quantiles, Variation
from labconsole.model.strict_model import StrictModel

SEARCH_FORMAT = 2
"""Format 1 lacked the queued packets and the source's losses; it is read, and rewritten in its original form."""

LATER_TRIAL_KEYS = ("source_lost_packets", "queued_packets")
"""Keys of a trial that format 1 lacks."""

LoadPps = Annotated[float, Field(ge=1e-6, le=1e12)]
"""Records may come from elsewhere: rates that no link has are refused before any computation."""

Packets = Annotated[int, Field(ge=0, lt=2**63)]
Limit = Literal["uut", "generator", "instrument", "line_rate", "below_minimum", "undecided"]
BurstLimit = Literal["uut", "generator", "instrument", "trial_length"]


class SearchRef(StrictModel):
    """A search's configuration and plan; ``hash`` is also in the plan reference of every trial's run."""

    name: str
    hash: str
    configuration: int
    repetition: int


class SearchRequested(StrictModel):
    """The design point without its load."""

    platform: str
    frame_size_bytes: int
    frame_size_includes_fcs: bool
    sources: Annotated[int, Field(ge=1)]
    background: str
    generator: str
    observe: str

    @property
    def frame(self) -> FrameSize:
        """The frame size in its convention."""
        return FrameSize(self.frame_size_bytes, self.frame_size_includes_fcs)

    def point(self) -> DesignPoint:
        """The design point, with an arbitrary load."""
        point = DesignPoint(
            platform=self.platform,
            frame=self.frame,
            sources=self.sources,
            target="max",
            duration_s=1.0,
            background=self.background,
            generator=self.generator,
            observe=self.observe,
        )
        return point.loadless()


class SearchTrial(StrictModel):
    """One trial, in the order taken. ``for_test``: load, frame-loss, back-to-back or latency.

    ``lost_outside_packets``: the part of offered minus measured that was lost behind the unit under test;
    ``source_lost_packets``: made by the generators and not on the wire. ``queued_packets``: measured, but more than
    0.01 s after the sending time, or None if unknown.
    """

    run_id: str
    for_test: str
    load_pps: LoadPps
    duration_s: Annotated[float, Field(ge=0, le=1e9)]
    intended_packets: Packets
    offered_packets: Packets
    measured_packets: Packets
    lost_outside_packets: Packets
    offered_pps: float | None = None
    source_lost_packets: int = 0
    queued_packets: int | None = None


class GoalRecord(StrictModel):
    """The bounds for one goal. ``complete`` False: the search ended before they were as close as the goal requires."""

    goal: str
    loss_ratio: float
    exceed_ratio: float
    trial_duration_s: float
    duration_sum_s: float
    relative_width: float
    lower_bound_pps: float | None
    upper_bound_pps: float | None
    conditional_throughput_pps: float | None
    limited_by: Limit
    complete: bool
    lower_run_ids: tuple[str, ...]
    upper_run_ids: tuple[str, ...]


class FrameLossPoint(StrictModel):
    """One load of the frame loss curve. ``loss_ratio`` is relative to offered; ``share_ratio`` to the line rate."""

    run_id: str
    share_ratio: float
    intended_pps: float
    offered_pps: float | None
    loss_ratio: float | None


class Burst(StrictModel):
    """One repetition of the back-to-back test; ``upper_packets`` is None if the longest burst tried passed."""

    packets: int
    upper_packets: int | None
    limited_by: BurstLimit
    run_ids: tuple[str, ...]


class BackToBackRecord(StrictModel):
    """Packets are per source. ``reached_ratio``: the slowest of the sent bursts, relative to the line rate.

    ``buffer_s`` is RFC 9004's corrected buffer time, or None if the bursts or the throughput do not give one.
    """

    bursts: tuple[Burst, ...]
    mean_packets: float
    least_packets: int
    most_packets: int
    sd_packets: float | None
    reached_ratio: float | None
    buffer_s: float | None


class StreamLatency(StrictModel):
    """One stream's delay in one trial, as the run has it."""

    run_id: str
    stream: str
    one_way_ns: OneWayDelay | None
    reason: str | None
    pdv_ns: Quantiles
    ipdv_ns: Variation | None


class LatencyRecord(StrictModel):
    """Delay at ``load_pps``, the lower bound of ``goal``. Means over streams and trials, None if not all known."""

    goal: str
    load_pps: float
    one_way_mean_ns: dict[str, float] | None
    pdv_mean_ns: dict[str, float] | None
    streams: tuple[StreamLatency, ...]
    reason: str | None


class SearchRecord(PlannedRecord):
    """One search. ``status`` failed: it ended before all requested results were found; ``failure`` gives the reason."""

    search_id: str
    format: int = SEARCH_FORMAT
    plan: SearchRef
    requested: SearchRequested
    settings: dict[str, Any]
    line_rate_pps: LoadPps
    lowest_load_pps: float
    goals: tuple[GoalRecord, ...]
    frame_loss: tuple[FrameLossPoint, ...] | None
    back_to_back: BackToBackRecord | None
    latency: LatencyRecord | None
    trials: tuple[SearchTrial, ...]

    def plain(self, mode: Literal["json", "python"] = "python") -> dict[str, Any]:
        """The record as plain data, with the keys of its own format."""
        data = super().plain(mode)
        if self.format == 1:
            for trial in data["trials"]:
                for key in LATER_TRIAL_KEYS:
                    del trial[key]
        return data


SEARCH = RecordKind(
    name="search",
    plural="searches",
    record=SearchRecord,
    format=SEARCH_FORMAT,
    columns=columns_of,
    run_ids=lambda record: [trial.run_id for trial in record.trials],
)
