"""From a request to a stored record: set up the platform, run one trial, judge it, and save it with its environment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from labconsole.contracts.driver import DriverFor
from labconsole.contracts.ports import AgentLink, RunSink
from labconsole.engine.leases import Leases
from labconsole.engine.links import LinkPool, run_concurrently
from labconsole.engine.live.events import Event, Notice, Phase, PhaseChanged, TrialFinished, TrialStarted
from labconsole.engine.live.samples import LiveStreams
from labconsole.engine.live.telemetry import Telemetry
from labconsole.engine.trial.forwarding_proof import ForwardingProof
from labconsole.engine.trial.platform import UutPlatform, has_broken_platform
from labconsole.engine.trial.second_guest import second_guest_setup
from labconsole.engine.trial.setup import TrialRequest, TrialSettings, check_mtu
from labconsole.engine.trial.trial import Trial
from labconsole.errors import LeaseTaken, NodeError, StoreError
from labconsole.model.identity import new_run_id, utc_now
from labconsole.model.inventory import Inventory
from labconsole.model.limits_check import nodes_of
from labconsole.model.record.envelope import Envelope
from labconsole.model.record.extensions import STATED, ClockStatement
from labconsole.model.record.run import Environment, InForce, RunRecord
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.calibration_check import select_envelope
from labconsole.verdict.observations import TrialObservations
from labconsole.verdict.record import build_record
from labconsole.wire.clocks import ReadClockKeeper
from labconsole.wire.facts import NodeFacts

# -- clock statements --------------------------------------------------------------------------------------------------
# Statements on nodes' clocks: declared in hosts.yaml, or read from the program that keeps a node's clock.

CLOCK_TIMEOUT_S = 10.0

Statements = dict[str, ClockStatement]


async def read_clock_statements(inventory: Inventory, links: Mapping[str, AgentLink]) -> Statements:
    """Statements on clocks that hosts.yaml declares or names a keeper for. A missing answer ends nothing."""
    found: Statements = {}

    async def ask(name: str) -> None:
        node = inventory.nodes[name]
        if node.clock_error_ns is not None:
            found[name] = ClockStatement(by="declared", error_ns=node.clock_error_ns)
        elif node.clock_keeper is not None:
            try:
                reply = await links[name].ask(ReadClockKeeper(keeper=node.clock_keeper), timeout_s=CLOCK_TIMEOUT_S)
            except NodeError as exc:
                found[name] = ClockStatement(by=node.clock_keeper, refused=exc.message)
            else:
                found[name] = ClockStatement(
                    by=node.clock_keeper,
                    error_ns=reply.error_ns,
                    reference=reply.reference,
                    is_reference=reply.is_reference,
                )

    await run_concurrently(ask(name) for name in links)
    return found


def worse(before: Statements, after: Statements) -> Statements:
    """The statements before and after a trial combined: none if one is missing or the reference changed."""
    return {name: _worse(statement, after.get(name)) for name, statement in before.items()}


def _worse(before: ClockStatement, after: ClockStatement | None) -> ClockStatement:
    if before.error_ns is None or before.by == "declared":
        return before
    if after is None or after.error_ns is None:
        why = "nothing" if after is None else after.refused
        return ClockStatement(by=before.by, refused=f"after the trial {before.by} reported {why}")
    if after.reference != before.reference:
        changed = f"{before.by} followed {before.reference} before the trial and {after.reference} after it"
        return ClockStatement(by=before.by, refused=changed)
    return max(before, after, key=lambda statement: statement.error_ns or 0)


# -- saving ------------------------------------------------------------------------------------------------------------
# Saves a trial: its environment in the record, its time series in the store.


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


# -- recorder ----------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True, slots=True)
class TrialRecorder:
    """Takes the trials of a session, one at a time.

    ``trial`` is the current one, which is informed of events at its nodes; None between two trials. ``envelope``: the
    calibration against which runs are judged.
    """

    inventory: Inventory
    telemetry: Telemetry
    links: LinkPool
    leases: Leases
    platform: UutPlatform
    store: RunSink
    driver_for: DriverFor
    guest_processes: Callable[[], Sequence[str]]
    operator: str
    tolerances: Tolerances
    envelope: Envelope | None
    emit: Callable[[Event], None]
    stopping: Callable[[], bool]
    trial: Trial | None = field(default=None, init=False)

    @contextmanager
    def attending(self, trial: Trial, lost: LeaseTaken | None = None) -> Iterator[None]:
        """Forward agents' events and link losses to this trial within the context. ``lost``: its lost lease."""
        self.trial = trial
        try:
            if lost is not None:
                trial.lease_taken(lost)
            elif self.stopping():
                trial.abort()
            yield
        finally:
            self.trial = None

    async def take(self, order: TrialRequest) -> RunRecord:
        """Take one trial on a leased testbed. Raises LabError if it gives no run."""
        request = order.request
        run_id = new_run_id(datetime.now(UTC))
        number, of = order.repetition, order.repetitions
        self.emit(TrialStarted(run_id=run_id, request=request, repetition=number, repetitions=of, plan=order.plan))
        self.emit(PhaseChanged(run_id=run_id, phase=Phase.PREPARING))
        links = self.links.require(nodes_of(request, self.inventory))
        await self.leases.retake(links)
        check_mtu(request, self.inventory, self.telemetry)
        second_guest = await second_guest_setup(request, self.inventory, self.driver_for, self.store, order.reference)
        if order.anew:
            await self.platform.restore()
        prepared = await self.platform.require(request, links, run_id, second_guest=second_guest)
        set_up = self.platform.begin_trial()
        await self.links.measure_clocks(links.values())
        stated = await read_clock_statements(self.inventory, links)
        settings = (order.settings or TrialSettings.of(self.inventory)).of_role(order.role)
        limits = order.tolerances or self.tolerances
        offsets_ns = {name: link.monotonic_offset_ns for name, link in links.items()}
        live = LiveStreams(self.telemetry, self.inventory, offsets_ns)
        trial = Trial(
            run_id=run_id,
            inventory=self.inventory,
            request=request,
            links=links,
            prepared=prepared,
            settings=settings,
            live=live,
            emit=self.emit,
            nodes=node_facts(links, self.links.facts, stated),
            guests=self.guest_processes(),
            second_guest=second_guest,
        )
        trial.seen.notes += self.leases.influences
        seen = await self._execute(trial, quiet=request.observe == "quiet")
        if stated:
            stated = worse(stated, await read_clock_statements(self.inventory, links))
        surroundings = environment(links, self.links.facts, stated, self.platform.forwarding_proof, live)
        versions = self.links.versions(self.inventory.streams[: request.sources])
        envelope, calibration = select_envelope(self.envelope, self.inventory, versions, datetime.now(UTC))
        record = build_record(
            seen,
            inventory=self.inventory,
            request=request,
            operator=self.operator,
            plan=order.plan,
            environment={**surroundings, **calibration},
            finished_at=utc_now(),
            tolerances=limits,
            envelope=envelope,
            role=order.role,
            set_up=set_up,
            in_force=InForce(
                tolerances=limits.model_dump(),
                settle_s=self.inventory.defaults.settle_s if order.settle_s is None else order.settle_s,
                drain_s=settings.drain_s,
                sample_interval_s=settings.sample_interval_s,
            ),
        )
        live.settle(record)
        await self._restore_after(record)
        if order.keep:
            await save(self.store, record, live, self.emit)
        else:
            self.emit(TrialFinished(record=record, saved=False, kept=False))
        return record

    async def _execute(self, trial: Trial, *, quiet: bool) -> TrialObservations:
        uut = self.inventory.uut
        with self.attending(trial, self.leases.lost):
            self.telemetry.mark_quiet(uut, quiet)
            try:
                return await trial.execute()
            finally:
                self.telemetry.mark_quiet(uut, False)

    async def _restore_after(self, record: RunRecord) -> None:
        """Undo the set-up if an invalid trial may have broken it, so that the next trial begins a new one.

        Within a block that would end the set-up, so it is only done if the platform itself is in doubt.
        """
        in_block = record.plan is not None and bool(record.plan.block)
        if record.verdict.status == "invalid" and (not in_block or has_broken_platform(record)):
            await self.platform.restore()
