"""A testbed that is a script, for tests of how plans are executed: a trial waits until the test lets it end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from labconsole.contracts.experiment import Experiment
from labconsole.contracts.ports import Series, StoredMaximum, StoredTrial
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.pending import derive_plan_state
from labconsole.engine.execution.progress import Outcome
from labconsole.engine.execution.runner import PlanRunner
from labconsole.engine.trial.setup import TrialRequest
from labconsole.model.design_point import DesignPoint
from labconsole.model.plan.loader import check_plan, load_plan
from labconsole.model.plan.order import SetUpKey, Trial, set_up_key
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import Fixed, PlanRef, Reason, RunRecord, SetUp
from support.fake_session import make_inventory, make_record
from support.no_crews import NoCrews

PLAN = """\
plan: small
platforms: [raw, container]
frame_sizes: [64]
targets: [10Mbit]
duration_s: 1
repetitions: 3
order: as-listed
settle_s: 0
max_redo: 1
"""
EVERY = [(point, repetition) for point in (0, 1) for repetition in (1, 2, 3)]


class Script:
    """``ends`` says how trials end, in order: a verdict, "broken" (invalid so that the platform is not trusted), or an
    error. ``answer``, where there is one, says it instead. Trials are (point, repetition), in blocks (block, point,
    repetition); ``rates`` are packets/s by point, ``doubts`` codes of suspect runs by (block, point).
    """

    def __init__(self, answer: Callable[[tuple[int, ...], DesignPoint], str | Exception] | None = None) -> None:
        self.inventory = make_inventory()
        self.boots_s: dict[str, float] = {}
        self.operator = "o@h"
        self.stage: Any = NoCrews()
        self.experiments: Sequence[Experiment] = ()
        self.store = self
        self.held: list[StoredTrial] = []
        self.asked: list[tuple[int, ...]] = []
        self.warmed: list[DesignPoint] = []
        self.warm_ups: list[int] = []
        self.settled: list[float] = []
        self.ends: asyncio.Queue[str | Exception] = asyncio.Queue()
        self.begun: asyncio.Queue[tuple[int, ...]] = asyncio.Queue()
        self.batches = 0
        self.leased = self.aborted = False
        self.losses: dict[tuple[int, int], float] = {}
        self.uut_losses: dict[tuple[int, int], float] = {}
        self.rates: dict[int, float] = {}
        self.doubts: dict[tuple[int | None, int], str] = {}
        self.said: dict[str, Fixed] = {}
        self.refs: list[PlanRef] = []
        self.roles: list[str] = []
        self.numbers: list[tuple[int, int]] = []
        self.references: list[StoredMaximum | None] = []
        self.stands: tuple[SetUpKey, str] | None = None
        self.set_ups = 0
        self.purposes: list[str | None] = []
        self._answer = answer
        self._stop = asyncio.Event()

    def will_end(self, *ends: str | Exception) -> None:
        for end in ends:
            self.ends.put_nowait(end)

    def plan_runs(self, plan_hash: str, testbed_fingerprint: str) -> list[StoredTrial]:
        return self.held

    def fixed(self, run_ids: Iterable[str]) -> dict[str, Fixed]:
        return {run_id: self.said[run_id] for run_id in run_ids if run_id in self.said}

    def save(self, record: RunRecord, series: Series | None) -> None:
        raise NotImplementedError("what is taken is held already")

    def maximum(self, **_: Any) -> StoredMaximum | None:
        return None

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def settings(self, plan: Plan | None = None) -> None:
        return None

    def nodes_of(self, request: DesignPoint) -> list[str]:
        return ["uut"]

    @asynccontextmanager
    async def batch(
        self, request: DesignPoint, *, purpose: str | None = None, **_: Any
    ) -> AsyncIterator[Callable[..., Awaitable[RunRecord]]]:
        self._stop.clear()
        self.batches += 1
        self.purposes.append(purpose)
        self.leased = True
        try:
            yield self._take
        finally:
            self.leased = False
            self.stands = None

    async def _take(self, order: TrialRequest) -> RunRecord:
        request, ref = order.request, order.plan
        assert ref is not None
        place = (ref.point, ref.repetition)
        trial = place if ref.block is None else (ref.block, *place)
        shape = (set_up_key(request, self.inventory), request.background)  # what UutPlatform.require() asks
        if order.anew or self.stands != shape:
            self.stands = shape
            self.set_ups += 1
        if not order.keep:
            self.warmed.append(request)
            return self._in_set_up(make_record(request, "warm-up"), ref)
        self.asked.append(trial)
        self.refs.append(ref)
        self.roles.append(order.role)
        self.numbers.append((order.repetition, order.repetitions))
        self.references.append(order.reference)
        self.warm_ups.append(ref.warm_ups)
        if self._answer is not None:
            end = self._answer(trial, request)
        else:
            await self.begun.put(trial)
            end = await self.ends.get()
        if isinstance(end, Exception):
            self.stands = None
            raise end
        broken, end = end == "broken", "invalid" if end == "broken" else end
        doubt = self.doubts.get((ref.block, ref.point)) if end == "valid" else None
        end = "suspect" if doubt else end
        record = self._in_set_up(make_record(request, f"run{len(self.asked):05d}", status=end), ref)
        codes = ("link_lost",) if broken else (doubt,) if doubt else ()
        if codes:
            reasons = (Reason(code=codes[0], detail="the cable"),)
            record = record.model_copy(update={"verdict": record.verdict.model_copy(update={"reasons": reasons})})
        loss, pps = self.losses.get(place, 0.0), self.rates.get(ref.point, 1000.0)
        at_uut = self.uut_losses.get(place)
        total = record.total.model_copy(update={"loss_ratio": loss, "forwarding_pps": pps, "uut_loss_ratio": at_uut})
        record = record.model_copy(update={"total": total})
        if end == "invalid" and (broken or not ref.block):
            self.stands = None
        if end != "invalid" or ref.block is not None:
            assert record.set_up is not None
            if ref.fixed is not None:
                self.said[record.run_id] = ref.fixed
            self.held.append(
                StoredTrial(
                    ref.point,
                    ref.repetition,
                    record.run_id,
                    end,
                    loss,
                    ref.block,
                    record.set_up.id,
                    ref.set_up_trials,
                    ref.attempt,
                    ref.attempts,
                    pps,
                    at_uut,
                    codes,
                    total.offered_packets,
                )
            )
        return record

    def _in_set_up(self, record: RunRecord, ref: PlanRef) -> RunRecord:
        stood = SetUp(id=f"set-up-{self.set_ups}", started_at=record.started_at, setup_s=0.5, trial=1)
        return record.model_copy(update={"set_up": stood, "plan": ref})

    async def settle(self, seconds: float) -> None:
        self.settled.append(seconds)

    async def wait_connected(self, nodes: Iterable[str], *, within_s: float) -> None:
        pass

    def announce_guest_trial(self, request: object, description: str, plan: str | None) -> None:
        return

    async def renew_lease(self, left_s: float | None) -> None:
        pass

    async def wait_stopping(self) -> None:
        await self._stop.wait()

    async def abort(self) -> None:
        self.aborted = True
        self._stop.set()


def plan_of(text: str, directory: Path) -> Plan:
    path = directory / "p.yaml"
    path.write_text(text)
    return check_plan(load_plan(path), make_inventory())


def left_to_take(plan: Plan, stored: Iterable[StoredTrial], only: frozenset[int] | None = None) -> list[Trial]:
    """What of a plan is left to take, given these stored trials."""
    return derive_plan_state(plan, stored, only).left


async def execute(execution: PlanExecution, script: Script) -> Outcome:
    return (await PlanRunner([execution], script).run())[0]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(body(), 10))
