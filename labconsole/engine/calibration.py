"""Calibration: measures generators, sinks and captures alone, with the unit under test bypassed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from labconsole.contracts.driver import Prepared, StreamPath
from labconsole.contracts.ports import AgentLink, RunSink
from labconsole.engine.links import run_concurrently
from labconsole.engine.session import Session
from labconsole.engine.trial.forwarding_proof import send_few
from labconsole.engine.trial.setup import SNAP_BYTES, Take, TrialRequest, TrialSettings, check_mtu, stream_filter
from labconsole.errors import Aborted, MeasurementError
from labconsole.measure.counts import counter_difference
from labconsole.measure.maximum import LossBounds, loss_bounds, unverified
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.identity import new_run_id, utc_now
from labconsole.model.inventory import Inventory, Platform, Stream
from labconsole.model.limits_check import check_request
from labconsole.model.plan.estimate import TRIAL_OVERHEAD_S
from labconsole.model.record.envelope import BypassProof, Envelope, EnvelopePoint, NodeVersions, TargetBps
from labconsole.model.record.run import RunRecord
from labconsole.units import format_rate_bps
from labconsole.verdict.envelope_figures import (
    Purpose,
    TakenTrial,
    explain_missing,
    honest_pps,
    split_by_witness,
    stream_envelope,
    trial_counts,
)
from labconsole.verdict.observations import Snapshot, parse_snapshot
from labconsole.wire.capture import StartCapture, StopCapture
from labconsole.wire.counters import ReadCounters
from labconsole.wire.version import __version__

# -- bypass ------------------------------------------------------------------------------------------------------------
# Prove with marked frames that the UUT is bypassed: the frames reach the sinks while the UUT's NICs count nothing.

PROOF_FRAMES = 50
ARRIVED_RATIO = 0.9
"""A switch may lose the first frames while it learns an address."""

STANDING_RATIO = 0.1
"""A NIC that no stream uses may receive a switch's own frames (spanning tree, discovery), but only a few."""


def cabling(inventory: Inventory, streams: Sequence[Stream]) -> list[str]:
    """The connections that bypass the UUT for these streams, one sentence for the operator per stream."""
    return [
        f"connect {s.source} straight to {s.sink}, taking the cables out of {inventory.uut}/{s.uut_in} and "
        f"{inventory.uut}/{s.uut_out} (or patch both into one switch, without the UUT)"
        for s in streams
    ]


async def prove_bypass(
    inventory: Inventory,
    links: Mapping[str, AgentLink],
    streams: Sequence[Stream],
    *,
    macs: Mapping[str, str],
    generator: str,
    buffer_kib: int,
) -> tuple[BypassProof, ...]:
    """Send marked frames over every stream; ``macs`` are those of the sinks' NICs, by stream.

    Raises MeasurementError naming the stream, where its frames went and what to connect.
    """
    prepared = Prepared(paths={s.name: StreamPath(destination_mac=macs[s.name], points=()) for s in streams})
    counted: dict[str, int] = {}

    async def listen(stream: Stream) -> None:
        await links[stream.sink.node].ask(
            StartCapture(
                capture=f"proof-{stream.name}",
                interface=stream.sink.interface,
                filter=stream_filter(stream, inventory.streams.index(stream)),
                snap_bytes=SNAP_BYTES,
                buffer_kib=buffer_kib,
                directory=inventory.nodes[stream.sink.node].capture_dir,
                expected_packets=PROOF_FRAMES,
            )
        )

    async def count(stream: Stream) -> None:
        result = await links[stream.sink.node].ask(StopCapture(capture=f"proof-{stream.name}"))
        counted[stream.name] = result.analysis.packets

    await run_concurrently(listen(stream) for stream in streams)
    try:
        before = await _uut(inventory, links)
        for node in dict.fromkeys(stream.source.node for stream in streams):
            mine = [s for s in streams if s.source.node == node]
            await send_few(inventory, links[node], prepared, mine, generator, frames=PROOF_FRAMES)
    finally:
        await run_concurrently(count(stream) for stream in streams)
    after = await _uut(inventory, links)
    proofs = tuple(_proof(inventory.uut, stream, counted[stream.name], before, after) for stream in streams)
    for stream, proof in zip(streams, proofs, strict=True):
        _refuse_unless_bypassed(inventory, stream, proof)
    return proofs


async def _uut(inventory: Inventory, links: Mapping[str, AgentLink]) -> Snapshot:
    return parse_snapshot(await links[inventory.uut].ask(ReadCounters(), timeout_s=10))


def _proof(uut: str, stream: Stream, captured: int, before: Snapshot, after: Snapshot) -> BypassProof:
    """The result for one stream. Raises MeasurementError if the UUT's NICs cannot be read: unknown is not 0."""
    received = transmitted = 0
    for interface in (stream.uut_in, stream.uut_out):
        first, last = before.get(("", interface)), after.get(("", interface))
        if first is None or last is None:
            raise MeasurementError(
                f"whether the unit under test is bypassed for stream {stream.name} is unknown: {uut} has no "
                f"{interface} with readable counters"
            )
        received += counter_difference(first.values[0], last.values[0], name=f"{interface} rx_packets")
        transmitted += counter_difference(first.values[1], last.values[1], name=f"{interface} tx_packets")
    return BypassProof(
        stream=stream.name,
        sent_packets=PROOF_FRAMES,
        captured_packets=captured,
        uut_rx_packets=received,
        uut_tx_packets=transmitted,
    )


def _refuse_unless_bypassed(inventory: Inventory, stream: Stream, proof: BypassProof) -> None:
    seen = max(proof.uut_rx_packets, proof.uut_tx_packets)
    what: list[Any] = []
    if proof.captured_packets < ARRIVED_RATIO * proof.sent_packets:
        what.append(f"{proof.captured_packets} of {proof.sent_packets} marked frames arrived at {stream.sink}")
    if seen > STANDING_RATIO * proof.sent_packets:
        what.append(f"the data NICs of {inventory.uut} counted {seen} packets in the meantime")
    if what:
        raise MeasurementError(
            f"the unit under test is not bypassed for stream {stream.name}: {' and '.join(what)}; "
            + cabling(inventory, [stream])[0]
        )


# -- calibration -------------------------------------------------------------------------------------------------------
# Every trial goes through the session, by the same procedure as a measurement. The trials measure, per frame size and
# number of sources, the generator's maximum rate, its accuracy at three lower rates and, if something was lost without
# a UUT, the rate up to which it can be trusted. The time limit only cuts the search short, and the envelope records
# that it did.

RATE_SHARES = (0.1, 0.5, 0.9)
"""Shares of the generator's maximum at which its rate error is measured."""

DISTURBED_TRIES = 3
DISTURBANCES = frozenset({"carrier_changed", "mtu_changed", "counter_decreased", "interface_gone"})
"""Reasons that make a trial useless for judging the instrument, so that it is repeated. Other invalid trials are kept:
at the maximum rate the two witnesses of a virtual link usually disagree."""

MAXIMUM_TRIALS = 2
MAX_SEARCH_TRIALS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRequest:
    """The calibration to run. ``platform`` is the inventory's bypass; ``time_limit_s`` bounds the search."""

    platform: str
    frames: tuple[FrameSize, ...]
    source_counts: tuple[int, ...]
    duration_s: float
    generator: str
    time_limit_s: float
    take_over: bool = False

    def trial(self, frame: FrameSize, sources: int, target_bps: TargetBps) -> DesignPoint:
        """The request of one trial."""
        return DesignPoint(
            platform=self.platform,
            frame=frame,
            sources=sources,
            target=target_bps,
            duration_s=self.duration_s,
            generator=self.generator,
            observe="quiet",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationProgress:
    """Progress of a calibration. ``left_s`` is None until it can be estimated.

    ``trial`` counts from 1 to ``expected``; it is 0 while the bypass is checked before the first trial. The search for
    closer bounds adds trials.
    """

    trial: int
    expected: int
    elapsed_s: float
    left_s: float | None
    doing: str


OnProgress = Callable[[CalibrationProgress], None]


async def calibrate(
    session: Session[RunSink],
    wanted: CalibrationRequest,
    fingerprint: str,
    bypass: Literal["lab", "patched", "inventory"],
    on_progress: OnProgress,
) -> Envelope:
    """Calibrate the session's testbed and return its envelope. ``fingerprint``: the testbed's, without the bypass.

    Raises ConfigError for an impossible request, MeasurementError if the UUT is not bypassed, and Aborted.
    """
    for frame in wanted.frames:
        for sources in wanted.source_counts:
            request = wanted.trial(frame, sources, "max")
            check_request(request, session.inventory)
            check_mtu(request, session.inventory, session.telemetry)
    return await _Calibration(session, wanted, fingerprint, bypass, on_progress).run()


class _Calibration:
    def __init__(
        self,
        session: Session[RunSink],
        wanted: CalibrationRequest,
        fingerprint: str,
        bypass: Literal["lab", "patched", "inventory"],
        on_progress: OnProgress,
    ) -> None:
        self._session, self._wanted = session, wanted
        self._fingerprint, self._bypass, self._on_progress = fingerprint, bypass, on_progress
        self._streams = session.inventory.streams[: max(wanted.source_counts)]
        self._settings: TrialSettings = replace(session.settings(), spacing=True)
        self._combinations = [(frame, count) for frame in wanted.frames for count in wanted.source_counts]
        self._mandatory = len(self._combinations) * (MAXIMUM_TRIALS + len(RATE_SHARES))
        self._done = self._searched = 0
        self._cut_short = False
        self._began_s = time.monotonic()
        self._trials_began_s = self._began_s

    async def run(self) -> Envelope:
        started_at = utc_now()
        first = self._wanted.trial(self._wanted.frames[0], max(self._wanted.source_counts), "max")
        self._tell("checking whether the UUT is bypassed")
        trial_s = self._wanted.duration_s + self._settings.drain_s
        async with self._session.batch(
            first,
            purpose="calibration, unit under test bypassed",
            take_over=self._wanted.take_over,
            left_s=self._mandatory * trial_s,
        ) as take:
            proof = await self._prove()
            self._trials_began_s = time.monotonic()
            points = [await self._point(take, frame, count) for frame, count in self._combinations]
            nodes = self._nodes()
        inventory = self._session.inventory
        return Envelope(
            calibration_id=new_run_id(datetime.now(UTC)),
            started_at=started_at,
            finished_at=utc_now(),
            testbed=inventory.testbed,
            testbed_fingerprint=self._fingerprint,
            emulated=inventory.emulated,
            operator=self._session.operator,
            labconsole_version=__version__,
            bypass=self._bypass,
            proof=proof,
            generator=self._wanted.generator,
            duration_s=self._wanted.duration_s,
            capture_buffer_kib=inventory.defaults.capture_buffer_kib,
            cut_short=self._cut_short,
            nodes=nodes,
            points=tuple(points),
        )

    async def _prove(self) -> tuple[BypassProof, ...]:
        session = self._session
        macs = {}
        for stream in self._streams:
            live = session.telemetry.interfaces.get((stream.sink.node, "", stream.sink.interface))
            if live is None or not live.link.mac:
                raise MeasurementError(f"{stream.sink} is not a visible Ethernet interface")
            macs[stream.name] = live.link.mac
        return await prove_bypass(
            session.inventory,
            session.links,
            self._streams,
            macs=macs,
            generator=self._wanted.generator,
            buffer_kib=session.inventory.defaults.capture_buffer_kib,
        )

    def _nodes(self) -> dict[str, NodeVersions]:
        return self._session.versions(self._streams)

    # One point

    async def _point(self, take: Take, frame: FrameSize, sources: int) -> EnvelopePoint:
        taken: list[TakenTrial] = []

        async def one(target_bps: TargetBps, purpose: Purpose) -> None:
            plural = "source" if sources == 1 else "sources"
            at = "max" if target_bps == "max" else format_rate_bps(target_bps)
            closer = "closer bounds: " if purpose == "search" else ""
            self._tell(f"{closer}{frame.bytes} B, {sources} {plural} at {at} each", trial=self._done + 1)
            request = self._wanted.trial(frame, sources, target_bps)
            for _ in range(DISTURBED_TRIES):
                record = await take(TrialRequest(request=request, settings=self._settings, keep=False))
                if self._session.stopping:
                    raise Aborted("the calibration was stopped by the operator")
                self._require_bypass(record)
                disturbed = [reason for reason in record.verdict.reasons if reason.code in DISTURBANCES]
                if not disturbed:
                    break
            else:
                raise MeasurementError(f"{DISTURBED_TRIES} trials in a row were disturbed: {disturbed[0].detail}")
            taken.append(TakenTrial(target_bps, purpose, record))
            self._done += 1
            self._searched += purpose == "search"

        await one("max", "maximum")
        maxima = [honest_pps(stream) for stream in taken[0].record.streams]
        lowest = min((pps for pps in maxima if pps), default=None)
        if lowest is None:
            raise MeasurementError(f"no generator sent anything at {frame.bytes} B: {explain_missing(taken[0].record)}")
        for share in RATE_SHARES:
            await one(self._target(frame, sources, share * lowest), "rate")
        for _ in range(MAXIMUM_TRIALS - 1):
            await one("max", "maximum")
        for target in self._search(taken, frame, sources):
            await one(target, "search")
        streams = tuple(
            stream_envelope(stream, taken, index)
            for index, stream in enumerate(self._session.inventory.streams[:sources])
        )
        return EnvelopePoint(
            **frame.columns(),
            sources=sources,
            streams=streams,
            trials=tuple(trial_counts(trial) for trial in taken),
        )

    def _target(self, frame: FrameSize, sources: int, pps: float) -> int:
        """A packet rate as bandwidth on the wire, at most what the links of these streams carry."""
        bps = frame.rate_bps(pps)
        speeds = [stream.link_speed_bps for stream in self._session.inventory.streams[:sources]]
        return max(1, round(min(bps, *speeds)))

    def _search(self, taken: list[TakenTrial], frame: FrameSize, sources: int) -> Iterator[TargetBps]:
        """Yield targets that tighten the bounds while time is left: first verify a loss, then bisect."""
        for _ in range(MAX_SEARCH_TRIALS):
            witnesses = [w for index in range(sources) for w in split_by_witness(taken, index)]
            target: TargetBps | None = None
            doubtful = [found for found in map(unverified, witnesses) if found is not None]
            if doubtful:
                target = doubtful[0]  # type: ignore[assignment]
            else:
                wide = [bounds for bounds in map(loss_bounds, witnesses) if bounds.next_pps is not None]
                if wide:
                    target = self._target(frame, sources, _widest(wide))
            if target is None:
                return
            if not self._time_for_search():
                self._cut_short = True
                return
            yield target
        self._cut_short |= any(
            loss_bounds(trials).wide for index in range(sources) for trials in split_by_witness(taken, index)
        )

    def _time_for_search(self) -> bool:
        """Whether one more search trial still leaves time for all mandatory trials."""
        spent_s = time.monotonic() - self._began_s
        left = self._mandatory - (self._done - self._searched)
        return spent_s + (left + 1) * self._per_trial_s() <= self._wanted.time_limit_s

    def _per_trial_s(self) -> float:
        return (time.monotonic() - self._trials_began_s) / max(self._done, 1)

    def _require_bypass(self, record: RunRecord) -> None:
        """Raises MeasurementError if the UUT is no longer bypassed, because cables may be moved meanwhile."""
        for stream in record.streams:
            seen = max(stream.counters.get(key) or 0 for key in ("uut_in_rx_packets", "uut_out_tx_packets"))
            if stream.offered_packets and seen > 0.1 * stream.offered_packets:
                known = {s.name: s for s in self._streams}
                raise MeasurementError(
                    f"the unit under test is no longer bypassed: it counted {seen} packets of {stream.name}; "
                    + cabling(self._session.inventory, [known[stream.name]])[0]
                )

    def _tell(self, doing: str, *, trial: int = 0) -> None:
        left = max(self._mandatory - (self._done - self._searched), 0)
        self._on_progress(
            CalibrationProgress(
                trial=trial,
                expected=max(trial, self._mandatory + self._searched),
                elapsed_s=time.monotonic() - self._began_s,
                left_s=left * self._per_trial_s() if self._done and left else None,
                doing=doing,
            )
        )


def _widest(bounds: list[LossBounds]) -> float:
    """The next rate of the bounds that are furthest apart."""

    def width(each: LossBounds) -> float:
        return float("inf") if each.clean_pps is None else (each.lossy_pps or 0) / each.clean_pps

    return max(bounds, key=width).next_pps or 0.0


# -- offer -------------------------------------------------------------------------------------------------------------
# What can be calibrated on a testbed, and how its UUT is bypassed; shared by the command and the console.

Bypass = Literal["lab", "patched", "inventory"]
"""Who bypasses the UUT: the lab itself, an operator who moves cables, or a platform of the inventory."""

USUAL_FRAME_SIZES = (64, 500, 1000, 1500)
USUAL_DURATION_S = 0.5
USUAL_TIME_LIMIT_S = 120.0
DRIVER = "bypass"


@dataclass(frozen=True)
class CalibrationMeans:
    """The functions that the engine needs in order to calibrate; both block.

    ``rewire`` wires a testbed around its UUT for the length of a with block, or returns None if only an operator can.
    ``save`` stores an envelope.
    """

    rewire: Callable[[Inventory], AbstractContextManager[None] | None]
    save: Callable[[Envelope], None]


@dataclass(frozen=True)
class CalibrationOffer:
    """A possible calibration: the request, how the UUT is bypassed, and the cables to move first."""

    wanted: CalibrationRequest
    bypass: Bypass
    cables: tuple[str, ...]
    about_s: float
    """Estimated duration of its trials, without those that tighten bounds."""


def add_bypass(inventory: Inventory) -> tuple[str, Inventory]:
    """The name of the bypass and the inventory that contains it; the bypass is added if the inventory has none."""
    for name, platform in inventory.platforms.items():
        if platform.driver == DRIVER:
            return name, inventory
    platforms = {**inventory.platforms, DRIVER: Platform(driver=DRIVER)}
    return DRIVER, inventory.model_copy(update={"platforms": platforms})


def calibration_request(
    inventory: Inventory,
    *,
    sizes_bytes: Sequence[int] = (),
    includes_fcs: bool = False,
    source_counts: Sequence[int] = (),
    points: Sequence[DesignPoint] = (),
    duration_s: float = USUAL_DURATION_S,
    time_limit_s: float = USUAL_TIME_LIMIT_S,
    generator: str | None = None,
    take_over: bool = False,
) -> CalibrationRequest:
    """Build a request from the arguments, then from what a plan's ``points`` need, then from defaults."""
    sizes = tuple(sizes_bytes or dict.fromkeys(r.frame.bytes for r in points)) or USUAL_FRAME_SIZES
    includes_fcs = inventory.defaults.frame(sizes[0], includes_fcs).includes_fcs
    if points and not sizes_bytes:
        includes_fcs = points[0].frame.includes_fcs
    everyone = len(inventory.streams)
    counts = tuple(source_counts or ((1, everyone) if inventory.emulated else (everyone,)))
    if points and not source_counts:
        counts = tuple(sorted({request.sources for request in points}))
    return CalibrationRequest(
        platform=add_bypass(inventory)[0],
        frames=tuple(FrameSize(size, includes_fcs) for size in dict.fromkeys(sizes)),
        source_counts=tuple(dict.fromkeys(counts)),
        duration_s=duration_s,
        generator=generator or (points[0].generator if points else inventory.defaults.generator),
        time_limit_s=time_limit_s,
        take_over=take_over,
    )


def calibration_offer(inventory: Inventory, wanted: CalibrationRequest, *, rewired: bool) -> CalibrationOffer:
    """Describe a calibration and how the UUT is bypassed for it; ``rewired``: the testbed does it by itself."""
    trials = len(wanted.frames) * len(wanted.source_counts) * (MAXIMUM_TRIALS + len(RATE_SHARES))
    about_s = trials * (wanted.duration_s + inventory.defaults.drain_s + TRIAL_OVERHEAD_S)
    if rewired:
        return CalibrationOffer(wanted, "lab", (), about_s)
    if wanted.platform in inventory.platforms:
        return CalibrationOffer(wanted, "inventory", (), about_s)
    cables = cabling(inventory, inventory.streams[: max(wanted.source_counts)])
    return CalibrationOffer(wanted, "patched", tuple(cables), about_s)
