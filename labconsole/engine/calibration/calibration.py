"""Calibration: the trials that tell what generators, sinks and captures do by themselves, with the UUT bypassed.

Every trial goes through the session, by the very procedure that measures. Per frame size and number of sources: what
the generator sends flat out, how well it keeps to three slower rates, and, where something was lost without a UUT, how
far it can be trusted. The time limit cuts the search short, never the rest, and the envelope says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from labconsole.contracts.ports import RunSink
from labconsole.engine.calibration.bypass import cabling, prove_bypass
from labconsole.engine.session import Session
from labconsole.engine.trial.request import Take, TrialRequest
from labconsole.engine.trial.setup import TrialSettings
from labconsole.engine.trial.stream_wiring import check_mtu
from labconsole.errors import Aborted, MeasurementError
from labconsole.measure.bounds import LossBounds, loss_bounds, unverified
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.identity import new_run_id, utc_now
from labconsole.model.limits_check import check_request
from labconsole.model.record.envelope import (
    BypassProof,
    Envelope,
    EnvelopePoint,
    NodeVersions,
    TargetBps,
)
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
from labconsole.wire.version import __version__

RATE_SHARES = (0.1, 0.5, 0.9)
"""Of the generator's maximum: where its rate error is taken."""

DISTURBED_TRIES = 3
DISTURBANCES = frozenset({"carrier_changed", "mtu_changed", "counter_decreased", "interface_gone"})
"""What makes a trial say nothing of the instrument, so that it is taken again. Not every invalid one: flat out, the two
witnesses of a virtual link disagree as a rule."""

MAXIMUM_TRIALS = 2
MAX_SEARCH_TRIALS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRequest:
    """What to calibrate. ``platform`` is the inventory's bypass; ``time_limit_s`` bounds the search."""

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
    """Where a calibration stands. ``left_s`` None: nothing to reckon with yet.

    ``trial`` of ``expected`` is under way, from 1; 0: the bypass is checked before the first. Closer bounds add trials.
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
    """The envelope of the session's testbed, whose own ``fingerprint`` is without the bypass.

    Raises ConfigError for what cannot be asked, MeasurementError when the UUT is not bypassed, Aborted.
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
        """A packet rate as bandwidth on the wire, within what the links of these streams carry."""
        bps = frame.rate_bps(pps)
        speeds = [stream.link_speed_bps for stream in self._session.inventory.streams[:sources]]
        return max(1, round(min(bps, *speeds)))

    def _search(self, taken: list[TakenTrial], frame: FrameSize, sources: int) -> Iterator[TargetBps]:
        """Targets that bring the bounds closer, while there is time: first a loss is verified, then halved in."""
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
        """Whether one more trial leaves time for all that is to be done in any case."""
        spent_s = time.monotonic() - self._began_s
        left = self._mandatory - (self._done - self._searched)
        return spent_s + (left + 1) * self._per_trial_s() <= self._wanted.time_limit_s

    def _per_trial_s(self) -> float:
        return (time.monotonic() - self._trials_began_s) / max(self._done, 1)

    def _require_bypass(self, record: RunRecord) -> None:
        """The cables may be moved back in the middle of it."""
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
    """The next rate of those bounds that are furthest apart."""

    def width(each: LossBounds) -> float:
        return float("inf") if each.clean_pps is None else (each.lossy_pps or 0) / each.clean_pps

    return max(bounds, key=width).next_pps or 0.0
