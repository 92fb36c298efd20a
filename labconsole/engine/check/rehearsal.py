"""A trial that is not kept: a run's procedure without a store or listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from labconsole.contracts.driver import Driver, Prepared
from labconsole.engine.check.context import CheckContext
from labconsole.engine.live.events import Event
from labconsole.engine.live.samples import LiveStreams
from labconsole.engine.live.telemetry import Telemetry
from labconsole.engine.trial.forwarding_proof import wait_forwarding
from labconsole.engine.trial.setup import TrialSettings
from labconsole.engine.trial.stream_wiring import find_wiring
from labconsole.engine.trial.trial import Trial
from labconsole.errors import Aborted, NodeError
from labconsole.model.design_point import DesignPoint
from labconsole.model.identity import new_run_id, utc_now
from labconsole.model.inventory import Inventory, Stream
from labconsole.model.record.run import RunRecord
from labconsole.verdict.record import build_record

LEARN_S = 4.0
"""Time until a platform must forward. A stream that does not forward by then is still measured, to identify it."""

DRAIN_S = 0.3
"""Drain time on virtual links, whose counters are exact at every moment. A NIC may update its counters only every
second or two, and packets not counted yet would look like a contradiction, so other testbeds use their own drain_s."""


def _ignore_event(event: Event) -> None:
    """Discard the event: a rehearsal is not a run."""


async def rehearse(
    bench: CheckContext, request: DesignPoint, streams: Sequence[Stream]
) -> tuple[RunRecord, str | None]:
    """Take one trial of exactly these streams; return its record and why some did not forward at first, or None.

    The platform is set up for the trial and undone afterwards. Raises LabError if no frame could be sent.
    """
    session, uut = bench.session, bench.inventory.uut
    inventory = bench.inventory.model_copy(update={"streams": tuple(streams)})
    driver = session.driver_for(request.platform, bench.inventory)
    wirings = [find_wiring(stream, bench.inventory, session.telemetry) for stream in streams]
    prepared = await driver.prepare(bench.link(uut), wirings)
    try:
        dark = await _learn(bench, inventory, prepared, request)
        record = await _take(bench, inventory, prepared, request)
    finally:
        await _restore(bench, driver)
    return record, dark


async def _learn(bench: CheckContext, inventory: Inventory, prepared: Prepared, request: DesignPoint) -> str | None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LEARN_S

    def enough() -> bool:
        # A graceful stop closes what was opened; a cancellation might leave a generator armed.
        return bench.session.stopping or loop.time() > deadline

    try:
        await wait_forwarding(
            inventory, bench.links, prepared, inventory.streams, generator=request.generator, stopping=enough
        )
    except Aborted:
        return f"not every stream came through within {LEARN_S:g} s"
    except NodeError as exc:
        return exc.message
    return None


async def _take(bench: CheckContext, inventory: Inventory, prepared: Prepared, request: DesignPoint) -> RunRecord:
    session, defaults = bench.session, inventory.defaults
    links = {name: bench.link(name) for name in _nodes(inventory)}
    live = LiveStreams(Telemetry(), inventory, {name: link.monotonic_offset_ns for name, link in links.items()})
    trial = Trial(
        run_id=new_run_id(datetime.now(UTC)),
        inventory=inventory,
        request=request,
        links=links,
        prepared=prepared,
        settings=replace(
            TrialSettings.of(inventory, bench.plan),
            drain_s=min(DRAIN_S, defaults.drain_s) if inventory.emulated else defaults.drain_s,
        ),
        live=live,
        nodes={},
        guests=bench.session.guest_processes(),
        emit=_ignore_event,
    )
    with session.attending(trial):
        observations = await trial.execute()
    return build_record(
        observations,
        inventory=inventory,
        request=request,
        operator=session.operator,
        plan=None,
        environment={},
        finished_at=utc_now(),
        tolerances=session.tolerances,
    )


def _nodes(inventory: Inventory) -> list[str]:
    names = [inventory.uut]
    for stream in inventory.streams:
        names += [stream.source.node, stream.sink.node]
    return names


async def _restore(bench: CheckContext, driver: Driver) -> None:
    link = bench.links.get(bench.inventory.uut)
    if link is not None:
        await driver.restore(link)
