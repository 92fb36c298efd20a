"""Saves a trial: its environment in the record, its time series in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from labconsole.contracts.ports import AgentLink, RunSink
from labconsole.engine.live.events import Event, Notice, Phase, PhaseChanged, TrialFinished
from labconsole.engine.live.samples import LiveStreams
from labconsole.engine.trial.clock_statements import Statements
from labconsole.engine.trial.forwarding_proof import ForwardingProof
from labconsole.errors import StoreError
from labconsole.model.record.clocks import STATED, ClockStatement
from labconsole.model.record.environment import Environment
from labconsole.model.record.run import RunRecord
from labconsole.wire.facts import NodeFacts


def environment(
    links: dict[str, AgentLink],
    facts: dict[str, NodeFacts],
    stated: Statements,
    forwarding_proof: ForwardingProof | None,
    live: LiveStreams,
) -> Environment:
    """Facts and clocks of the trial's nodes, the learning phase, and the contents of the series."""
    return {
        "nodes": node_facts(links, facts, stated),
        "learning": forwarding_proof.to_json() if forwarding_proof is not None else None,
        "series_interfaces": live.interface_names,
        "series_rows_not_kept": live.rows_not_kept,
    }


def node_facts(
    links: Mapping[str, AgentLink], facts: Mapping[str, NodeFacts], stated: Mapping[str, ClockStatement] | None = None
) -> Environment:
    """Each node's facts, its clocks' relation to ours, and the statements ``stated`` about them."""
    statements = {name: {STATED: each.model_dump()} for name, each in (stated or {}).items()}
    return {
        name: {
            "facts": facts[name].to_wire() if name in facts else {},
            "round_trip_s": link.round_trip_s,
            "clock_offset_ns": link.clock_offset_ns,
            "clock_error_ns": link.clock_error_ns,
            **statements.get(name, {}),
        }
        for name, link in links.items()
    }


async def save(store: RunSink, record: RunRecord, live: LiveStreams, emit: Callable[[Event], None]) -> None:
    """Store the run. If the store refuses, report it, still pass the record to every listener, and raise StoreError."""
    try:
        await asyncio.to_thread(store.save, record, live.series())
    except StoreError as exc:
        emit(Notice(severity="error", message=f"the run could not be saved: {exc}"))
        emit(TrialFinished(record=record, saved=False))
        raise
    emit(PhaseChanged(run_id=record.run_id, phase=Phase.SAVED))
    emit(TrialFinished(record=record, saved=True))
