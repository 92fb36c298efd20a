"""A crew on the stage: made, kept, undone to the last part, whatever fails or is cancelled on the way."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from labconsole.contracts.crew import Crew, CrewMember, CrewOffer, HowMade
from labconsole.engine.crew_stage import CrewStage
from labconsole.engine.live.events import Notice
from labconsole.errors import ConfigError, NodeError, NodeLost, NodeSilent, TooLittleMemory
from labconsole.verdict.observations import NodeReading, TrialObservations
from labconsole.wire.changes import ApplyChanges, UndoChanges
from labconsole.wire.counters import StartCounters
from labconsole.wire.execution import Execute
from labconsole.wire.session import Undone
from labconsole.wire.settings import NodeSettings
from support.fake_session import make_inventory
from support.observed_trials import PORT, SETTINGS

MEMBERS = (CrewMember(name="g1", address="198.18.64.1/18", mac="02:6c:77:00:00:00"),)


class Driver:
    """Makes crews of nothing, and writes down what is asked of it; ``failing``: how often restore() fails."""

    def __init__(self, told: list[str], failing: int = 0) -> None:
        self.told, self.failing = told, failing
        self.memory_mib: int | None = None
        self.hold: asyncio.Event | None = None

    def crew_refusal(self, wanted: Any) -> str | None:
        return None

    def crew_offer(self, wanted: Any) -> CrewOffer:
        return CrewOffer(place="/var/tmp", files={}, memory_mib=self.memory_mib)

    async def check_node(self, uut: Any) -> None:
        self.told.append("check")

    async def prepare_crew(self, uut: Any, wanted: Any) -> Crew:
        self.told.append("prepare")
        return Crew(members=(), started_ns=0)

    async def restore(self, uut: Any) -> None:
        if self.hold is not None:
            await self.hold.wait()
        if self.failing:
            self.failing -= 1
            raise NodeError("uut", "a guest does not end")
        self.told.append("restore")


class Link:
    """The timekeeper; ``answers`` are raised by ApplyChanges, after it was done."""

    def __init__(self, name: str, told: list[str], error: Exception | None = None) -> None:
        self.name, self._told, self._error = name, told, error
        self.sampled_s: list[float] = []
        self.round_trip_s = self.clock_offset_ns = self.clock_error_ns = None

    async def ask(self, request: Any, *, timeout_s: float = 30.0) -> Any:
        if isinstance(request, ApplyChanges):
            self._told.append("address")
            if self._error is not None:
                raise self._error
        elif isinstance(request, UndoChanges):
            self._told.append("no address")
            return Undone(failed=[])
        elif isinstance(request, Execute):
            return SimpleNamespace(stdout="MemTotal: 9 kB\nMemAvailable:   2097152 kB\n")
        elif isinstance(request, StartCounters):
            self.sampled_s.append(request.interval_s)


def stage(
    driver: Any,
    told: list[str],
    *,
    error: Exception | None = None,
    notices: list[Any] | None = None,
    links: list[Link] | None = None,
) -> CrewStage:
    inventory = make_inventory()
    sink = inventory.streams[0].sink.node
    linked = {inventory.uut: Link(inventory.uut, told), sink: Link(sink, told, error)}
    if links is not None:
        links += linked.values()
    pool: Any = SimpleNamespace(require=lambda names: {name: linked[name] for name in names}, facts={}, links=linked)
    heard: list[Any] = [] if notices is None else notices
    return CrewStage(
        inventory, pool, driver_for=lambda *_: driver, emit=heard.append, stop=asyncio.Event(), guest_processes=tuple
    )


async def stand(on: CrewStage, turn: int = 1) -> Any:
    return await on.stand("raw", MEMBERS, turn)


@pytest.mark.asyncio
async def test_a_crew_is_kept_for_the_same_turn_and_made_anew_for_another() -> None:
    told: list[str] = []
    on = stage(Driver(told), told)
    first = await stand(on)
    assert await stand(on) is first
    await stand(on, turn=2)
    await on.restore()
    await on.restore()
    one = ["address", "prepare", "no address", "restore"]
    assert told == one * 2


@pytest.mark.asyncio
async def test_the_counters_of_many_guests_are_read_less_often_while_they_stand() -> None:
    driver = Driver([])
    links: list[Link] = []
    on = stage(driver, [], links=links)
    usual_s = on.inventory.defaults.sample_interval_s
    many = tuple(CrewMember(name=f"g{n}", address="198.18.64.1/18", mac="02:6c:77:00:00:00") for n in range(100))
    await on.stand("raw", many, 1)
    await on.restore()
    await stand(on)
    await on.restore()
    assert [link.sampled_s for link in links] == [[1.0, usual_s, usual_s, usual_s], []]


@pytest.mark.asyncio
async def test_an_address_that_was_given_though_the_answer_was_lost_is_taken_away() -> None:
    told: list[str] = []
    with pytest.raises(NodeError, match="no answer"):
        await stand(stage(Driver(told), told, error=NodeError("snk1", "no answer")))
    assert told == ["address", "no address", "restore"]


@pytest.mark.asyncio
async def test_no_crew_stands_beside_one_that_could_not_be_removed() -> None:
    told: list[str] = []
    notices: list[Any] = []
    driver = Driver(told, failing=2)
    on = stage(driver, told, notices=notices)
    await stand(on)
    await on.restore()
    assert [event.message for event in notices if isinstance(event, Notice)] == [
        "removing the guests: uut: a guest does not end"
    ]
    with pytest.raises(NodeError, match="a guest does not end"):
        await stand(on, turn=2)
    await stand(on, turn=2)  # now it has ended
    assert told == ["address", "prepare", "no address", "restore", "address", "prepare"]


@pytest.mark.asyncio
async def test_what_a_cancelled_removal_did_not_come_to_is_done_by_the_next() -> None:
    told: list[str] = []
    driver = Driver(told)
    on = stage(driver, told)
    await stand(on)
    driver.hold = asyncio.Event()
    removing = asyncio.create_task(on.restore())
    while "no address" not in told:
        await asyncio.sleep(0)
    removing.cancel()
    await asyncio.gather(removing, return_exceptions=True)
    driver.hold.set()
    await on.restore()
    assert told == ["address", "prepare", "no address", "restore"]


@pytest.mark.asyncio
async def test_a_node_that_is_gone_has_undone_everything() -> None:
    told: list[str] = []
    driver = Driver(told)
    on = stage(driver, told)
    await stand(on)

    async def lost(uut: Any) -> None:
        raise NodeLost("uut", "the connection was lost")

    driver.restore = lost  # type: ignore[method-assign]
    await on.restore()
    await stand(on, turn=2)


@pytest.mark.asyncio
async def test_guests_that_are_given_more_memory_than_there_is_are_refused_before_anything_is_touched() -> None:
    told: list[str] = []
    driver = Driver(told)
    on = stage(driver, told)
    driver.memory_mib = 2049
    with pytest.raises(TooLittleMemory, match="are given 2049 MiB of memory, and 2048 MiB are available"):
        await stand(on)
    assert told == []
    driver.memory_mib = 2048
    await stand(on, turn=2)
    assert "prepare" in told


@pytest.mark.asyncio
async def test_a_node_that_was_slow_only_has_undone_nothing_that_is_known() -> None:
    told: list[str] = []
    driver = Driver(told)
    on = stage(driver, told)
    await stand(on)
    restore = driver.restore

    async def slow(uut: Any) -> None:
        driver.restore = restore  # type: ignore[method-assign]
        raise NodeSilent("uut", "no answer to guest.stop within 30 s")

    driver.restore = slow  # type: ignore[method-assign]
    await on.restore()
    assert "restore" not in told
    await stand(on, turn=2)
    assert told.index("restore") < len(told) - 1 - told[::-1].index("prepare")  # before others stand, it is done


@pytest.mark.asyncio
async def test_what_a_hypervisor_keeps_of_a_lost_node_is_undone_when_the_node_is_back() -> None:
    told: list[str] = []
    driver: Any = Driver(told)
    driver.outlives_agent = True
    on = stage(driver, told)
    await stand(on)
    back, lost = driver.restore, [True]

    async def restore(uut: Any) -> None:
        if lost[0]:
            raise NodeLost("uut", "the connection was lost")
        await back(uut)

    driver.restore = restore
    await on.restore()
    await on.restore()
    assert told == ["address", "prepare", "no address"]
    lost[0] = False
    await stand(on, turn=2)
    assert told == ["address", "prepare", "no address", "restore", "address", "prepare"]


@pytest.mark.asyncio
async def test_guests_are_spread_over_the_processors_that_their_driver_tells() -> None:
    driver: Any = Driver([])
    driver.crew_cpus = [1, 3]
    assert await stage(driver, []).guest_cpus("raw") == [1, 3]


@pytest.mark.asyncio
async def test_a_platform_that_cannot_have_crews_is_refused_in_words() -> None:
    other = SimpleNamespace(about=SimpleNamespace(name="esxi"))
    with pytest.raises(ConfigError, match="driver esxi cannot make several guests for jobs"):
        await stand(stage(other, []))


@pytest.mark.asyncio
async def test_who_asks_is_told_the_ground_right_before_guests_are_started_with_options_of_its_own() -> None:
    told: list[str] = []
    driver = Driver(told)
    on = stage(driver, told)
    asked: list[Any] = []
    on._driver_for = lambda name, inventory: asked.append(inventory.platforms[name].options) or driver  # type: ignore
    limits: list[float | None] = []

    async def prepare(uut: Any, wanted: Any) -> Crew:
        limits.append(wanted.limit_s)
        told.append(f"prepare {wanted.members[0].name}")
        return Crew(members=(), started_ns=0)

    driver.prepare_crew = prepare  # type: ignore[method-assign]

    async def before(ground: Any) -> Any:
        told.append(f"before {ground.address.rpartition('.')[0].rpartition('.')[0]}")
        return [replace(MEMBERS[0], name="marked")]

    await on.stand("raw", MEMBERS, 1, HowMade(options={"forwarding": "bridge"}, limit_s=7, before=before))
    assert told == ["address", "check", "before 198.18", "prepare marked"]
    assert asked[-1]["forwarding"] == "bridge"
    assert limits == [7]
    assert on.inventory.platforms["raw"].options["forwarding"] == "route"


@pytest.mark.asyncio
async def test_the_surroundings_of_guests_tell_how_their_nodes_were_set_as_each_trial_began() -> None:
    links: list[Link] = []
    on = stage(Driver([]), [], links=links)
    await stand(on)
    as_made = NodeSettings.parse({**SETTINGS, "interfaces": {"eth1": PORT}})
    seen = TrialObservations(run_id="x", started_at="")
    seen.begin = {"uut": NodeReading(settings=as_made), "snk1": NodeReading()}
    assert on.environment(links, seen.settings())["nodes"]["uut"]["settings"]["eth1 mtu"] == 1500  # type: ignore[arg-type]
    later = NodeSettings.parse({**SETTINGS, "interfaces": {"eth1": {**PORT, "mtu": 9000}}})
    seen.begin = {"uut": NodeReading(settings=later), "snk1": NodeReading()}
    nodes = on.environment(links, seen.settings())["nodes"]  # type: ignore[arg-type]
    assert nodes["uut"]["settings"]["net.ipv4.ip_forward"] == 0
    assert nodes["uut"]["settings"]["eth1 mtu"] == 9000  # of the second trial on the same guests
    assert "settings" not in nodes["snk1"]  # which did not say
    assert "settings" not in on.environment(links)["nodes"]["uut"]  # type: ignore[arg-type]
    await on.restore()
