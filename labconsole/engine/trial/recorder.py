"""From a request to a stored record: set up the platform, run one trial, judge it, and save it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from labconsole.contracts.driver import DriverFor
from labconsole.contracts.ports import RunSink
from labconsole.engine.leases import Leases
from labconsole.engine.links import LinkPool
from labconsole.engine.live.events import Event, Phase, PhaseChanged, TrialFinished, TrialStarted
from labconsole.engine.live.samples import LiveStreams
from labconsole.engine.live.telemetry import Telemetry
from labconsole.engine.trial.clock_statements import read_clock_statements, worse
from labconsole.engine.trial.platform import UutPlatform, has_broken_platform
from labconsole.engine.trial.request import TrialRequest
from labconsole.engine.trial.saving import environment, node_facts, save
from labconsole.engine.trial.second_guest import second_guest_setup
from labconsole.engine.trial.setup import TrialSettings
from labconsole.engine.trial.stream_wiring import check_mtu
from labconsole.engine.trial.trial import Trial
from labconsole.errors import LeaseTaken
from labconsole.model.identity import new_run_id, utc_now
from labconsole.model.inventory import Inventory
from labconsole.model.limits_check import nodes_of
from labconsole.model.record.envelope import Envelope
from labconsole.model.record.run import InForce, RunRecord
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.calibration_check import select_envelope
from labconsole.verdict.observations import TrialObservations
from labconsole.verdict.record import build_record


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
