"""Trials of guests as comparisons see them: the parts that all kinds share. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from labconsole.contracts.measured import MeasuredTrial, MeasuredValue, Quantity, TrialTurn
from labconsole.measure.paired_blocks import Blocks, hypervisor, uut_facts, uut_kernel
from labconsole.model.record.kind import GuestTrialRecord
from labconsole.report.planned_trials import is_included

R = TypeVar("R", bound=GuestTrialRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFacts:
    """A kind's facts about one of its records; the fields are those of MeasuredTrial. ``values``: the known ones."""

    id: str
    factors: Mapping[str, Hashable]
    words: str
    values: Mapping[Quantity, MeasuredValue]
    set_up: str | None
    anew: bool = False
    """Whether its guests belong to no other trial, so that its set-up is its block."""
    work: str = ""
    from_memory: bool = False
    conditions: Mapping[str, str | None] = field(default_factory=dict)


def build_guest_trials(kind: str, every: Iterable[R], said: Callable[[R], TrialFacts]) -> list[MeasuredTrial]:
    """Build each trial with its block, boot and conditions; only valid trials enter, as in a report."""
    records = list(every)
    blocks = Blocks(records)
    return [_measured(kind, record, said(record), blocks) for record in records]


def _measured(kind: str, record: R, said: TrialFacts, blocks: Blocks[R]) -> MeasuredTrial:
    block, turns, begun = blocks.placed(record)
    boot_id = uut_facts(record).get("boot_id")
    left_out = None
    if not is_included(record):
        left_out = record.verdict.reasons[0].code if record.verdict.reasons else record.verdict.status
    elif not said.values:
        left_out = "not measured"
    return MeasuredTrial(
        kind=kind,
        id=said.id,
        hash=record.plan.hash,
        plan_name=record.plan.name,
        status=record.status,
        started_at=record.started_at,
        testbed=record.testbed,
        testbed_fingerprint=record.testbed_fingerprint,
        emulated=record.emulated,
        factors=said.factors,
        words=said.words,
        values=said.values if left_out is None else {},
        left_out=left_out,
        set_up=blocks.replicate(record) if said.anew else said.set_up,
        boot_id=str(boot_id) if boot_id else None,
        block=block,
        turn=TrialTurn(turns, begun),
        planned=record.plan.set_ups * record.plan.repetitions,
        work=said.work,
        from_memory=said.from_memory,
        conditions={
            "kernel": uut_kernel(record) or None,
            "hypervisor": hypervisor(record) or None,
            "labconsole_version": record.labconsole_version,
            **said.conditions,
        },
        nodes=read_nodes(record.environment),
        margin_ratio=record.plan.margin_ratio,
    )


def read_nodes(environment: Mapping[str, object]) -> Mapping[str, object]:
    """A record's facts about its nodes; the record may come from elsewhere."""
    nodes = environment.get("nodes")
    if not isinstance(nodes, dict):
        return {}
    objects = {name: said for name, said in nodes.items() if isinstance(said, dict)}
    return {name: said for name, said in objects.items() if isinstance(said.get("facts", {}), dict)}
