"""A plan's runs whose truth is known: the order of the program's own plans, values by a model of what goes wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

import numpy as np

from labconsole.model.design_point import BACKGROUNDS, DesignPoint, FrameSize
from labconsole.model.plan.order import configuration, pilot_points, planned_set_ups, schedule
from labconsole.model.plan.plan import PlannedPoint
from labconsole.model.record.run import METHOD

PLATFORMS = tuple(f"p{number}" for number in range(1, 8))
FRAME_SIZES_BYTES = (64, 1500)
TRUE_PPS = {64: 600_000.0, 1500: 80_000.0}
OFFERED_RATIO = 1.25
"""Of the true rate: enough is lost at the unit under test for its maximum to be reached."""

DURATION_S = 10.0


@dataclass(frozen=True)
class Scenario:
    """x = μ(1 + u of the set-up + drift + e); all deviations relative. ``phi``: e is AR(1) over the order of trials.

    ``slowed_ratio``: by how much the machine is slower for one unbroken third of the trials, from anywhere.
    """

    name: str
    trials_sd: float = 0.005
    set_ups_sd: float = 0.0
    drift_ratio: float = 0.0
    phi: float = 0.0
    slowed_ratio: float = 0.0

    def values(self, rng: np.random.Generator, set_ups: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The factor of each trial in the order of the plan; ``set_ups``: the number of its set-up."""
        count = len(set_ups)
        noise = rng.normal(size=count)
        if self.phi:
            noise[1:] *= math.sqrt(1 - self.phi**2)  # the first is drawn from what the process settles to
            for place in range(1, count):
                noise[place] += self.phi * noise[place - 1]
        drift = self.drift_ratio * np.arange(count) / max(count - 1, 1)
        if self.slowed_ratio:
            first = int(rng.integers(count - count // 3 + 1))
            drift[first : first + count // 3] -= self.slowed_ratio
        by_set_up: np.ndarray[Any, Any] = rng.normal(size=set_ups.max() + 1)[set_ups]
        return 1 + self.set_ups_sd * by_set_up + drift + self.trials_sd * noise

    @property
    def truth(self) -> float:
        """The plan's mean of the factor."""
        return 1 + self.drift_ratio / 2 - self.slowed_ratio / 3


IID = Scenario("(i) trials scatter, 0.5 %")
SET_UPS_DIFFER = Scenario("(ii) and set-ups differ, 1 %", set_ups_sd=0.01)
DRIFT = Scenario("(iii) (i) and the machine slows by 5 %", drift_ratio=-0.05)
AR_HALF = Scenario("(iv) neighbouring trials alike, φ = 0.5, 1 %", trials_sd=0.01, phi=0.5)
AR_MOST = Scenario("(iv) neighbouring trials alike, φ = 0.9, 1 %", trials_sd=0.01, phi=0.9)
SLOWED = Scenario("(v) (i) and one third of the time 20 % slower", slowed_ratio=0.2)
SCENARIOS = (IID, SET_UPS_DIFFER, DRIFT, AR_HALF, AR_MOST, SLOWED)


@dataclass(slots=True)
class Row:
    """What the report asks of a run: the attributes of a RunSummary, and rates that are drawn anew for each report."""

    run_id: str
    platform: str
    frame_size_bytes: int
    background: str
    plan_point: int
    repetition: int
    block: int | None
    set_up: str | None
    set_up_trials: int | None
    started_at: str = "2026-01-01T00:00:00Z"
    frame: FrameSize = field(init=False)
    sources: int = 1
    target_bps: int | Literal["max"] | None = "max"
    duration_s: float = DURATION_S
    generator: str = "afpacket"
    testbed: str = "synthetic"
    testbed_fingerprint: str = "f" * 16
    uut_kernel: str | None = "6.1.0"
    hypervisor: str | None = None
    boot_id: str | None = "boot"
    plan_hash: str = "a" * 16
    plan_name: str = "synthetic"
    verdict: str = "valid"
    reason_codes: tuple[str, ...] = ()
    format: int = 2
    method: int = METHOD
    role: str = "measured"
    attempt: int = 1
    attempts: int | None = None
    emulated: bool = False
    has_series: bool = False
    note: str | None = None
    offered_packets: int = 0
    loss_packets: int = 0
    uut_lost_packets: int = 0
    source_lost_packets: int = 0
    sink_lost_packets: int = 0
    late_packets: int = 0
    loss_ratio: float = 0.0
    offered_pps: float = 0.0
    offered_bps: float = 0.0
    measured_pps: float = 0.0
    measured_bps: float = 0.0
    forwarding_pps: float = 0.0
    forwarding_bps: float = 0.0
    bits: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.frame = FrameSize(self.frame_size_bytes)
        self.bits = 8 * self.frame.wire_bytes
        self.offered_pps = OFFERED_RATIO * TRUE_PPS[self.frame_size_bytes]
        self.offered_packets = round(self.offered_pps * self.duration_s)
        self.offered_bps = self.offered_pps * self.bits

    def forwarded(self, factor: float) -> None:
        """Give it as many packets as ``factor`` of the true rate is."""
        packets = round(TRUE_PPS[self.frame_size_bytes] * factor * self.duration_s)
        lost = self.offered_packets - packets
        self.loss_packets = self.uut_lost_packets = lost
        self.loss_ratio = lost / self.offered_packets
        self.measured_pps = self.forwarding_pps = packets / self.duration_s
        self.measured_bps = self.forwarding_bps = self.forwarding_pps * self.bits


@dataclass
class SyntheticPlan:
    """All platforms x backgrounds x frame sizes at one load, in ``set_ups`` blocks of ``repetitions`` trials each.

    ``in_blocks`` False: a plan of the kind that knows none, with one set-up of each platform and background.
    """

    set_ups: int
    repetitions: int
    platforms: tuple[str, ...] = PLATFORMS
    backgrounds: tuple[str, ...] = BACKGROUNDS
    in_blocks: bool = True
    requests: list[DesignPoint] = field(init=False)
    rows: dict[tuple[int, int], Row] = field(init=False)

    def __post_init__(self) -> None:
        self.requests = [
            DesignPoint(
                platform=platform,
                background=background,
                frame=FrameSize(size),
                sources=1,
                target="max",
                duration_s=DURATION_S,
            )
            for platform, background, size in product(self.platforms, self.backgrounds, FRAME_SIZES_BYTES)
        ]
        self.pilot = pilot_points(self.requests)
        self.rows = {(point, number): self._row(point, number) for point, number in self._numbers()}

    def _numbers(self) -> Iterator[tuple[int, int]]:
        return product(range(len(self.requests)), range(1, self.set_ups * self.repetitions + 1))

    def _row(self, point: int, number: int) -> Row:
        request = self.requests[point]
        block, repetition = divmod(number - 1, self.repetitions)
        return Row(
            run_id=f"20260101T000000Z-{point:03x}{number:03x}",
            platform=request.platform,
            frame_size_bytes=request.frame.bytes,
            background=request.background,
            plan_point=point,
            repetition=repetition + 1,
            block=block + 1 if self.in_blocks else None,
            set_up=f"{request.platform}-{request.background}-{block + 1}" if self.in_blocks else None,
            set_up_trials=len(FRAME_SIZES_BYTES) * self.repetitions if self.in_blocks else None,
        )

    def drawn(self, rng: np.random.Generator, scenario: Scenario, changed: Changed | None = None) -> list[Row]:
        """The runs of one carrying out, in its order (the pilot's trials take time, and are not among them).

        The same objects come again with the next call.
        """
        seed = int(rng.integers(2**31))
        order = planned_set_ups(
            self.requests, self.pilot, "blocked-random", seed, self.set_ups, lambda _: self.repetitions
        )
        numbers = np.repeat(np.arange(len(order)), [len(each.trials) for each in order])
        factors = scenario.values(rng, numbers).tolist()
        trials = [(set_up.block, trial) for set_up in order for trial in set_up.trials]
        measured = [(trial, factor) for (block, trial), factor in zip(trials, factors, strict=True) if block]
        return self._given(measured, changed)

    def drawn_in_one_go(self, rng: np.random.Generator, scenario: Scenario, order: str) -> list[Row]:
        """The same of a plan without blocks, in the ``order`` that it names."""
        points = [PlannedPoint(index, request) for index, request in enumerate(self.requests)]
        trials = schedule(points, order, int(rng.integers(2**31)), lambda _: self.repetitions, self.repetitions)
        names = [configuration(self.requests[point]) for point, _ in trials]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        factors = scenario.values(rng, np.array([numbers[name] for name in names])).tolist()
        return self._given(list(zip(trials, factors, strict=True)), None)

    def _given(self, trials: list[tuple[tuple[int, int], float]], changed: Changed | None) -> list[Row]:
        """The rows of these trials, each with what its factor makes of the true rate."""
        rows = []
        for trial, factor in trials:
            row = self.rows[trial]
            row.forwarded(factor if changed is None else factor * changed.factor(row))
            rows.append(row)
        return rows


@dataclass(frozen=True)
class Changed:
    """A true effect of one background, on every platform and frame size."""

    background: str
    change_ratio: float

    def factor(self, row: Row) -> float:
        return 1 + self.change_ratio if row.background == self.background else 1.0
