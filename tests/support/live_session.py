"""A session in the test's own process, for what must happen in the middle of a batch or of a trial."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from labconsole.api.testbed import open_session
from labconsole.engine.live.events import Phase, PhaseChanged
from labconsole.engine.testbed import Testbed
from labconsole.engine.trial.setup import Take, TrialRequest
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import load_inventory
from labconsole.model.record.run import RunRecord
from labconsole.model.tolerances import Tolerances
from labconsole.store.open import open_store
from labconsole.store.writing import RunStore

BUSY = {"samples_missed", "duration_stretched", "offered_short", "unseen_cpu"}
"""Reasons that a machine which has other work gives any run; no test may fail because of them."""


@asynccontextmanager
async def connected(hosts: Path, store: Path) -> AsyncIterator[Testbed[RunStore]]:
    """A session with all nodes connected."""
    with open_store(str(store)) as opened:
        session = open_session(load_inventory(hosts), opened)
        try:
            await session.connect()
            yield session
        finally:
            await session.close()


async def take_while(
    session: Testbed[RunStore],
    take: Take,
    request: DesignPoint,
    meanwhile: Callable[[], Any],
    *,
    tolerances: Tolerances | None = None,
) -> RunRecord:
    """One trial; ``meanwhile`` runs in a thread once its traffic does."""
    sending = asyncio.Event()

    def listen(event: object) -> None:
        if isinstance(event, PhaseChanged) and event.phase is Phase.SENDING:
            sending.set()

    unsubscribe = session.subscribe(listen)
    trial = asyncio.ensure_future(take(TrialRequest(request=request, tolerances=tolerances)))
    try:
        await sending.wait()
        await asyncio.sleep(0.2)  # into the traffic: the word is given a little ahead
        await asyncio.to_thread(meanwhile)
        return await trial
    finally:
        unsubscribe()
