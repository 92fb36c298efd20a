"""Calibration: trials that measure generators, sinks and captures alone, with the UUT bypassed.

Every trial goes through the session, by the same procedure as a measurement. The trials measure, per frame size and
number of sources, the generator's maximum rate, its accuracy at three lower rates and, if something was lost without a
UUT, the rate up to which it can be trusted. The time limit only cuts the search short, and the envelope records that it
did.
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
