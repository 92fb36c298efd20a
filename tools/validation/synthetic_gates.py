"""Occasions of a plan of routers, whose truth is known, as trials, as records in a store, and what a gate says of them."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from labconsole.api.plan_files import load_plan_on_occasion
from labconsole.cli.main import main
from labconsole.comparison.changes import Side, find_changes
from labconsole.comparison.gate import PlannedPointTrials, judge_gate
from labconsole.comparison.judgements import JudgedPoint
from labconsole.contracts.measured import MeasuredTrial, MeasuredValue
from labconsole.experiments.kinds import load_measured_kinds
from labconsole.experiments.route.measured import FORWARDED
from labconsole.experiments.route.record import RECORD as KIND
from labconsole.measure.admission import Admission
from labconsole.report.digest import Digest
from labconsole.report.sample import RunSample
from labconsole.store.open import open_store
from support.route_records import route_record

MARGIN: Final = 0.02
SET_UPS: Final = 3
PACKETS: Final = 20_000.0
"""That one router forwards in a bin of 0.1 s: so many that whole packets are no steps that matter."""

PLAN = f"""
plan: nightly
platforms: [container]
route: {{guests: [1], routes: [0], destinations: [1], filters: [0], targets: [max], frame_sizes: [64], duration_s: 2}}
set_ups: {SET_UPS}
margin: {MARGIN:.0%}
"""
KINDS = load_measured_kinds()


@dataclass(frozen=True)
class Occasions:
    """One side. ``logs``: of set-ups (columns) of occasions (rows), around 0; ``limit``: of what is offered, on the same
    scale: a set-up that could forward more lost nothing.
    """

    logs: np.ndarray[Any, Any]
    boots_apart: bool = False
    limit: float = float("inf")

    def fallen(self, ratio: float) -> Occasions:
        """The same after a fall of what can be forwarded."""
        return replace(self, logs=self.logs + np.log1p(-ratio))

    def rates(self) -> list[list[tuple[float, bool]]]:
        """Packets in a bin, and whether nothing was lost."""
        return [
            [(PACKETS * float(np.exp(min(log, self.limit))), bool(log >= self.limit)) for log in row]
            for row in self.logs
        ]

    def boot(self, side: str, occasion: int, set_up: int) -> str:
        return f"{side}-{occasion}-{set_up}" if self.boots_apart else f"{side}-{occasion}"


def judged_by_the_functions(before: Occasions, after: Occasions, margin_ratio: float = MARGIN) -> JudgedPoint:
    """What a gate says of these trials."""
    sides = _side("main", before), _side("later", after)
    changes = find_changes(*sides, margin_ratio, KINDS, across_factors=False)
    asked = PlannedPointTrials(kind=KIND.name, words="the point", hashes=tuple(trial.hash for trial in sides[1].trials))
    (judged,) = judge_gate(changes, [], margin_ratio, [asked]).judged
    return judged


def _side(name: str, occasions: Occasions) -> Side:
    trials = [
        MeasuredTrial(
            kind=KIND.name,
            id=f"{name}-{occasion}-{set_up}",
            hash=f"{name}-{occasion}-{set_up}",
            plan_name=f"nightly@{name}-{occasion}",
            status="done",
            started_at=f"2026-01-{occasion + 1:02}T00:00:0{set_up}Z",
            testbed="synthetic",
            testbed_fingerprint="f" * 16,
            emulated=False,
            factors={"platform": "container"},
            words="the point",
            values={FORWARDED: MeasuredValue(rate, "at least" if full else "exact")},
            left_out=None,
            set_up=f"{name}-{occasion}-{set_up}",
            boot_id=occasions.boot(name, occasion, set_up),
            conditions={},
            nodes={},
        )
        for occasion, row in enumerate(occasions.rates())
        for set_up, (rate, full) in enumerate(row)
    ]
    return Side(
        words=name,
        place="synthetic",
        kept=RunSample((), (), {}),
        admission=Admission((), {}),
        digest=Digest(()),
        trials=tuple(trials),
    )


def judged_by_the_command(before: Occasions, after: Occasions) -> tuple[int, dict[str, Any]]:
    """Exit status of ``labconsole gate`` on a store of records, and what it says of the point."""
    with tempfile.TemporaryDirectory() as directory:
        plan, store = Path(directory) / "nightly.yaml", Path(directory) / "runs.sqlite"
        plan.write_text(PLAN)
        named: dict[str, list[str]] = {}
        for side, occasions in (("main", before), ("later", after)):
            for occasion, row in enumerate(occasions.rates()):
                name = f"{side}-{occasion}"
                named.setdefault(side, []).extend(["--occasion", name])
                boots = [occasions.boot(side, occasion, set_up) for set_up in range(len(row))]
                _keep(store, plan, name, row, boots)
        _said("baseline", "set", "main", str(plan), *named["main"], "--store", str(store))
        status, text = _said("gate", str(plan), "--baseline", "main", *named["later"], "--json", "--store", str(store))
    (point,) = json.loads(text)["judged"]
    return status, point


def _keep(store: Path, path: Path, occasion: str, row: list[tuple[float, bool]], boots: list[str]) -> None:
    plan = load_plan_on_occasion(path, occasion, None)
    assert plan.guests is not None
    trials: Any = plan.guests.trials
    hashes = {trial.block: key for trial, key in zip(trials, plan.guests.hashes, strict=True)}
    with open_store(str(store)) as opened:
        for block, ((rate, full), boot) in enumerate(zip(row, boots, strict=True), 1):
            made = route_record([round(rate)], lost_inside=[0 if full else 4000], block=block)
            of = made.plan.model_copy(
                update={
                    "name": plan.name,
                    "hash": hashes[block],
                    "plan_hash": plan.hash(),
                    "block": block,
                    "set_ups": SET_UPS,
                }
            )
            assert made.set_up is not None
            record = made.model_copy(
                update={
                    "route_id": f"20260101T000000Z-{occasion}-{block}",
                    "plan": of,
                    "environment": {"nodes": {"uut": {"facts": {"boot_id": boot, "kernel": "6.1"}}}},
                    "set_up": made.set_up.model_copy(update={"id": f"{occasion}-{block}"}),
                }
            )
            opened.save_experiment(KIND, record)


def _said(*words: str) -> tuple[int, str]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = main(list(words))
    return status, printed.getvalue()
