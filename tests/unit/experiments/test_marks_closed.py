"""Marks that were asked for are closed, also when what waits for them is cancelled before the timekeeper has answered."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.contracts.crew import CrewMember, CrewOffer, Ground, StandingMember
from labconsole.errors import Aborted, AgentError
from labconsole.experiments.boot.measurement import BootMeasurement
from labconsole.experiments.boot.plan import BootPoint
from labconsole.experiments.job.http_requests import HttpRequests
from labconsole.experiments.job.measurement import JobMeasurement
from labconsole.experiments.job.plan import JobPoint
from labconsole.model.jobs import JOBS
from labconsole.wire.marks import StartMarks, StopMarks

MEMBER = CrewMember(name="g1", address="198.18.64.1/18", mac="02:6c:77:00:00:01")
STREAM = SimpleNamespace(sink=SimpleNamespace(interface="eth1"))


class Timekeeper:
    """Begins to keep marks, and is not waited for; or never hears of it."""

    name = "snk1"

    def __init__(self, *, hears: bool = True) -> None:
        self.hears, self.open = hears, False
        self.asked, self.stop = asyncio.Event(), asyncio.Event()

    async def ask(self, request: Any, **_: Any) -> Any:
        if isinstance(request, StartMarks):
            self.open = self.hears
            self.asked.set()
            self.stop.set()
            await asyncio.Event().wait()
        if isinstance(request, StopMarks):
            if not self.open:
                raise AgentError("snk1", "no marks are being taken", code="no_such_marks")
            self.open = False
        return SimpleNamespace(stdout="ctxt 1", monotonic_ns=1)


async def _cancelled(work: Any, keeper: Timekeeper) -> None:
    running = asyncio.ensure_future(work)
    await keeper.asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def crew(keeper: Timekeeper) -> Any:
    async def nothing(*_: Any) -> str:
        return ""

    standing = StandingMember(name="g1", ask=nothing, pid=1)
    return SimpleNamespace(
        crew=SimpleNamespace(members=(standing,), attestation={}),
        members=(MEMBER,),
        timekeeper=keeper,
        uut=keeper,
        stream=STREAM,
        address="198.18.100.7",
        begin_trial=lambda: None,
    )


@pytest.mark.parametrize("hears", [True, False])
def test_of_a_job(hears: bool) -> None:
    async def work() -> bool:
        keeper = Timekeeper(hears=hears)
        point = JobPoint(0, "lxc", 1, "any", "wait", 1, "one")
        bench: Any = SimpleNamespace(stage=SimpleNamespace(on_mark=None))
        taking = JobMeasurement(point, 10.0, bench, crew(keeper))
        await _cancelled(taking._round(":", {"g1": 1}, 10.0), keeper)
        return keeper.open

    assert asyncio.run(work()) is False


def test_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    async def done(*_: Any) -> Any:
        return None

    for name in ("_client", "_reach", "_fetch_nothing", "_run_lines", "_ask"):
        monkeypatch.setattr(HttpRequests, name, done)
    monkeypatch.setattr("labconsole.experiments.job.http_requests.start_all", lambda *_, **more: done())

    async def work() -> bool:
        keeper, wanted = Timekeeper(), JOBS["serve-http"].requests
        assert wanted is not None
        asked = HttpRequests(wanted, 1, 10.0, crew(keeper), SimpleNamespace(), [])  # type: ignore[arg-type]
        await _cancelled(asked.take({"g1": 1}, {"g1": "198.18.64.1"}, "marks"), keeper)
        return keeper.open

    assert asyncio.run(work()) is False


@pytest.mark.parametrize("hears", [True, False])
def test_of_a_start_that_is_stopped(hears: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labconsole.experiments.boot.measurement.QUIET_S", 0.0)
    monkeypatch.setattr("labconsole.experiments.boot.measurement.SETTLE_S", 0.0)

    async def work() -> bool:
        keeper = Timekeeper(hears=hears)
        ground: Any = Ground(uut=keeper, timekeeper=keeper, stream=STREAM, address="198.18.100.7")  # type: ignore[arg-type]

        async def stand(*of: Any) -> Any:
            return await of[-1].before(ground)

        async def nothing() -> None:
            return None

        stage = SimpleNamespace(
            offer=lambda *_: CrewOffer(place="/var/tmp", files={}, memory_mib=None),
            stand=stand,
            restore=nothing,
            wait_stopping=keeper.stop.wait,
            on_mark=None,
        )
        bench: Any = SimpleNamespace(stage=stage, show=lambda picture: None)
        taking = BootMeasurement(BootPoint(0, "lxc", 1, "any", "hot"), 10.0, (MEMBER,), bench, "turn")
        with pytest.raises(Aborted):
            await taking._measured(SimpleNamespace(paths=(), options={}))  # type: ignore[arg-type]
        return keeper.open

    assert asyncio.run(work()) is False
