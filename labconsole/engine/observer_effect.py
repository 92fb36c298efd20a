"""Does watching change what is measured? Compare the same trial, quiet and live, in pairs with a confidence interval.

The order within each pair is random, so that a drift of the machine affects both. None of these runs is stored: they
answer a question about the instrument, not about a platform, and must not enter a mean.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from labconsole.contracts.ports import RunSink
from labconsole.engine.session import Session
from labconsole.engine.trial.setup import TrialRequest
from labconsole.errors import Aborted, ConfigError
from labconsole.measure.statistics.as_json import difference_json
from labconsole.measure.statistics.repetitions import Difference, difference
from labconsole.model.design_point import DesignPoint
from labconsole.model.limits_check import check_request
from labconsole.model.record.run import RunRecord

MIN_PAIRS = 3
"""Fewer runs of each kind give no interval."""

MAX_PAIRS = 1000
KINDS = ("quiet", "live")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverRun:
    """One run of the comparison. ``loss_ratio`` and ``measured_pps`` are totals over the streams."""

    pair: int
    observe: str
    status: str
    reasons: tuple[str, ...]
    loss_ratio: float | None
    measured_pps: float | None

    def to_json(self) -> dict[str, object]:
        """The run as plain data."""
        return {
            "pair": self.pair,
            "observe": self.observe,
            "status": self.status,
            "reasons": self.reasons,
            "loss_ratio": self.loss_ratio,
            "measured_pps": self.measured_pps,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverProgress:
    """One run has ended (``last``), or the first begins (None)."""

    done: int
    total: int
    last: ObserverRun | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverEffect:
    """Live minus quiet for loss ratio and measured rate, or None if too few runs of either kind were usable."""

    request: str
    seed: int
    runs: tuple[ObserverRun, ...]
    loss_ratio: Difference | None
    measured_pps: Difference | None
    left_out: int
    """Number of invalid runs, which enter no mean."""

    @property
    def sentence(self) -> str:
        """The finding, with its intervals."""
        used = {kind: sum(run.observe == kind and run.status != "invalid" for run in self.runs) for kind in KINDS}
        counts = f"{used['quiet']} quiet and {used['live']} live runs"
        if self.loss_ratio is None or self.measured_pps is None or self.loss_ratio.detectable is None:
            return f"too few valid runs to tell: {counts}; at least {MIN_PAIRS} of each are needed"
        loss = f"loss {self.loss_ratio.mean * 100:+.4f} percentage points {_interval(self.loss_ratio, 100, '.4f')}"
        rate = f"measured rate {self.measured_pps.mean:+.1f} packets/s {_interval(self.measured_pps, 1, '.1f')}"
        if not self.loss_ratio.detectable and not self.measured_pps.detectable:
            return f"no detectable difference between {counts}: live minus quiet, {loss}, {rate}"
        which = [
            word
            for word, found in (("loss", self.loss_ratio), ("the measured rate", self.measured_pps))
            if found.detectable
        ]
        return f"live observation changes {' and '.join(which)} ({counts}): live minus quiet, {loss}, {rate}"

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "request": self.request,
            "seed": self.seed,
            "runs": [each.to_json() for each in self.runs],
            "loss_ratio": difference_json(self.loss_ratio),
            "measured_pps": difference_json(self.measured_pps),
            "left_out": self.left_out,
            "sentence": self.sentence,
        }


def _interval(found: Difference, factor: float, form: str) -> str:
    if found.ci_low is None or found.ci_high is None:
        return "(no interval)"
    low, high = found.ci_low * factor, found.ci_high * factor
    return f"({found.ci_level:.0%} CI {low:+{form}} to {high:+{form}})"


async def observer_effect(
    session: Session[RunSink],
    request: DesignPoint,
    pairs: int,
    on_progress: Callable[[ObserverProgress], None],
    *,
    seed: int | None = None,
    take_over: bool = False,
) -> ObserverEffect:
    """Take ``pairs`` runs of each kind and compare them. If ``seed`` is None, one is drawn; the result records it.

    Raises ConfigError for a request that cannot be measured, Aborted when stopped, and whatever a batch raises.
    """
    if not MIN_PAIRS <= pairs <= MAX_PAIRS:
        raise ConfigError(
            "is not a valid number of pairs", key="pairs", value=pairs, allowed=f"{MIN_PAIRS} to {MAX_PAIRS}"
        )
    check_request(request, session.inventory)
    if seed is None:
        seed = random.SystemRandom().randrange(2**31)
    draw = random.Random(seed)
    runs: list[ObserverRun] = []
    on_progress(ObserverProgress(done=0, total=2 * pairs, last=None))
    trial_s = request.duration_s + session.settings().drain_s + session.inventory.defaults.settle_s
    async with session.batch(
        request, purpose=f"observer effect: {request.words()}", take_over=take_over, left_s=2 * pairs * trial_s
    ) as take:
        for pair in range(1, pairs + 1):
            for kind in draw.sample(KINDS, k=len(KINDS)):
                record = await take(
                    TrialRequest(request=replace(request, observe=kind), repetition=pair, repetitions=pairs, keep=False)
                )
                if session.stopping:
                    raise Aborted("the comparison of quiet and live observation was stopped by the operator")
                runs.append(_run(pair, kind, record))
                on_progress(ObserverProgress(done=len(runs), total=2 * pairs, last=runs[-1]))
                await session.settle(session.inventory.defaults.settle_s)
    return compare(runs, request=request.words(), seed=seed)


def _run(pair: int, kind: str, record: RunRecord) -> ObserverRun:
    return ObserverRun(
        pair=pair,
        observe=kind,
        status=record.verdict.status,
        reasons=tuple(reason.code for reason in record.verdict.reasons),
        loss_ratio=record.total.loss_ratio,
        measured_pps=record.total.measured_pps,
    )


def compare(runs: list[ObserverRun], *, request: str, seed: int) -> ObserverEffect:
    """Compare the runs. Pure."""
    valid = [run for run in runs if run.status != "invalid"]

    def live_minus_quiet(name: str) -> Difference | None:
        values: dict[str, list[float]] = {
            kind: [getattr(run, name) for run in valid if run.observe == kind and getattr(run, name) is not None]
            for kind in KINDS
        }
        return difference(values["live"], values["quiet"]) if all(values.values()) else None

    return ObserverEffect(
        request=request,
        seed=seed,
        runs=tuple(runs),
        loss_ratio=live_minus_quiet("loss_ratio"),
        measured_pps=live_minus_quiet("measured_pps"),
        left_out=len(runs) - len(valid),
    )
