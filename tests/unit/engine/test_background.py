"""Background load: what a second guest says is read strictly, what it reached is reckoned, what cannot be is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from labconsole.cli.text.runs import run_lines
from labconsole.contracts.driver import SecondGuest
from labconsole.contracts.ports import AgentLink, RunSink, StoredMaximum
from labconsole.engine.trial import guest_load
from labconsole.engine.trial.background import BackgroundLoad
from labconsole.engine.trial.guest_load import ImplausibleAnswer
from labconsole.engine.trial.second_guest import (
    SecondGuestSetup,
    check_background,
    check_reference,
    forwarding,
    second_guest_setup,
)
from labconsole.errors import AgentError, CapabilityMissing, ConfigError, NodeError
from labconsole.measure.recompute.derived import recompute
from labconsole.model.design_point import FrameSize
from labconsole.model.record.run import Background, RunRecord
from labconsole.model.record.summary import RunSummary
from labconsole.platforms.drivers.bypass import BypassDriver
from labconsole.platforms.loading import build_driver
from labconsole.store.maximum import highest
from support.asking import Asking
from support.background_records import FOUND, REQUEST, forwarding_record
from support.fake_session import make_inventory, make_record


def stat(pid: int, *, parent: int = 10, state: str = "R", faults: int = 0, born: int = 77, name: str = "stress") -> str:
    """A line of /proc/PID/stat as Linux writes it."""
    rest = f"{parent} 10 10 0 -1 4194368 {faults} 0 0 0 62 0 0 0 20 0 1 0 {born} 3465216 67 18446744073709551615"
    return f"{pid} ({name}) {state} {rest} 94678106370048 0 0 0 6 0 0 0 0 17 1 0 0 0 0 0"


def sample(*workers: tuple[int, float, int, int], cpu: str = "100 0 50 800 0 0 50 0 0 0", faults: int = 0) -> str:
    """An answer to the sampling line; a worker is (pid, uptime, run, wait)."""
    lines = [f"cpu  {cpu}"]
    for pid, at_s, run_ns, wait_ns in workers:
        lines += [f"{at_s:.2f} 28301.28", stat(pid, faults=faults), f"{run_ns} {wait_ns} 4"]
    return "\n".join(lines)


def figures(kind: str, begin: str, end: str, pids: Sequence[int]) -> dict[str, Any]:
    return guest_load.figures(kind, guest_load.parse_sample(begin, pids), guest_load.parse_sample(end, pids), 4096)


# -- what is reached --------------------------------------------------------------------------------------------------


def test_a_worker_that_runs_or_waits_all_the_time_reaches_the_whole_demand_however_little_it_runs() -> None:
    found = figures("light", sample((11, 100.0, 0, 0)), sample((11, 102.0, 300_000_000, 1_700_000_000)), [11])
    assert found["workers"] == 1
    assert found["demand_ratio"] == pytest.approx(1.0)
    assert found["guest_cpu_s"] == pytest.approx(0.3)
    assert found["guest_cpu_ratio"] == pytest.approx(0.15)
    assert found["guest_window_s"] == pytest.approx(2.0)


def test_a_worker_that_sleeps_or_dies_is_missing_from_the_demand() -> None:
    asleep = figures("light", sample((11, 100.0, 0, 0)), sample((11, 102.0, 500_000_000, 500_000_000)), [11])
    assert asleep["demand_ratio"] == pytest.approx(0.5)
    pids = list(range(11, 23))
    begin = sample(*((pid, 100.0, 0, 0) for pid in pids))
    end = sample(*((pid, 101.0, 10**9, 0) for pid in pids[:6]))
    died = figures("heavy", begin, end, pids)
    assert (died["workers"], died["demand_ratio"]) == (6, pytest.approx(0.5))


def test_another_process_with_the_number_of_a_worker_is_not_that_worker() -> None:
    begin, end = sample((11, 100.0, 0, 0)), sample((11, 101.0, 10**9, 0)).replace(" 77 ", " 78 ")
    found = figures("light", begin, end, [11])
    assert (found["workers"], found["demand_ratio"]) == (0, 0)


def test_a_dead_process_that_nobody_reaped_is_no_worker() -> None:
    text = sample((11, 100.0, 5, 5)).replace(") R ", ") Z ")
    assert guest_load.parse_sample(text, [11]).workers == {}


def test_memory_written_is_counted_in_pages() -> None:
    begin = sample((11, 100.0, 0, 0), faults=1000)
    end = sample((11, 101.0, 10**9, 0), faults=3000)
    assert figures("light", begin, end, [11])["memory_touched_bytes"] == 2000 * 4096


def test_what_is_not_known_is_none_and_never_a_number() -> None:
    kept = sample((11, 100.0, 0, 0)), sample((11, 101.0, 10**9, 0))
    without = [text.rsplit("\n", 1)[0] for text in kept]  # a kernel that keeps no schedstat
    found = figures("light", without[0], without[1], [11])
    assert (found["workers"], found["demand_ratio"], found["guest_cpu_s"]) == (1, None, None)
    back = figures("light", kept[1], kept[0], [11])
    assert (back["demand_ratio"], back["guest_cpu_s"]) == (None, None), "clocks and times that go back"
    same = guest_load.parse_sample(kept[0], [11])
    assert guest_load.steal_ratio(same, same) is None


def test_stolen_time_is_a_share_of_all_time() -> None:
    first, last = (guest_load.parse_sample(sample(cpu=cpu), []) for cpu in ("0 0 0 0 0 0 0 0", "50 0 20 20 0 0 0 10"))
    assert guest_load.steal_ratio(first, last) == pytest.approx(0.1)


# -- what a guest says ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "sh: stress: not found",
        "cpu  1 2 3",
        "cpu  1 2 3 4 5 6 -7 8",
        "cpu  " + "9" * 40 + " 2 3 4 5 6 7 8",
        sample((12, 100.0, 0, 0)),  # not asked for
        sample((11, 100.0, 0, 0), (11, 101.0, 0, 0)),  # twice
        sample((11, 100.0, -5, 0)),
        sample((11, 100.0, 0, 0)) + "\n\x1b[2J",
        sample((11, 100.0, 0, 0)).replace("100.00", "nan"),
        sample((11, 100.0, 0, 0)).replace("100.00", "1e308"),
        sample((11, 100.0, 0, 0), faults=-1),
        sample((11, 100.0, 10**30, 0)),
    ],
)
def test_an_answer_that_is_none_is_refused_whole(answer: str) -> None:
    with pytest.raises(ImplausibleAnswer) as caught:
        guest_load.parse_sample(answer, [11])
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


def test_only_living_children_of_the_leader_are_workers() -> None:
    answer = "\n".join(
        [
            stat(10, parent=1),
            stat(11),
            stat(12),
            stat(13, state="Z"),
            stat(14, parent=99),
            stat(15, name="a (b) c"),
        ]
    )
    assert guest_load.parse_workers(answer, 10) == [11, 12, 15]
    assert guest_load.parse_group_members(answer, 10) == [10, 11, 12, 14, 15], (
        "by their group, whoever their parent is now"
    )
    with pytest.raises(ImplausibleAnswer):
        guest_load.parse_workers(answer + "\nls: /proc: I am a teapot", 10)


@pytest.mark.parametrize(
    "answer", ["", "started", "started -1", "started 0", "started 99999999999", "started 5; rm -rf /"]
)
def test_a_process_number_is_a_number(answer: str) -> None:
    with pytest.raises(ImplausibleAnswer):
        guest_load.parse_started(answer)


# -- a load as it is started, looked at and ended ----------------------------------------------------------------------


class _Guest:
    """Answers the lines that a load asks, as a shell with ``stress`` would."""

    def __init__(self, workers: int = 1, *, memory_mib: int = 4096, lacks: str = "") -> None:
        self.pids = list(range(11, 11 + workers))
        self.lines: list[str] = []
        self.memory_mib, self.lacks = memory_mib, lacks
        self.at_s = 100.0
        self.alive = False
        self.deaf = False

    async def ask(self, uut: AgentLink, line: str) -> str:
        self.lines.append(line)
        if self.deaf:
            raise AgentError("uut", "guest second did not answer within 30 s", code="guest_silent")
        if line == guest_load.FACTS_LINE:
            return f"memory {self.memory_mib * 1024}\npage 4"
        if "setsid stress" in line:
            self.alive = not self.lacks
            return self.lacks or "started 10"
        if line.startswith("kill"):
            self.alive = False
            return stat(10, state="Z")
        if line == guest_load.FIND_LINE:
            return "\n".join(stat(pid) for pid in self.pids)
        self.at_s += 2.0
        ran_ns = round(self.at_s * 1e9)
        return sample(*((pid, self.at_s, ran_ns, 0) for pid in self.pids))


class _Uut(Asking):
    name = "uut"

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def request(self, op: str, args: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        assert op == "process.usage"
        self.asked.append(args)
        ns = len(self.asked) * 10**9
        times = {"monotonic_ns": ns, "cpu_ns": ns, "run_ns": ns, "wait_ns": 2 * ns}
        return {**times, "processes": 3, "threads": 3, "gone": []}


def _load(kind: str, guest: _Guest, **more: Any) -> tuple[BackgroundLoad, _Uut]:
    uut = _Uut()
    second = SecondGuest(name="second", ask=guest.ask, pid=5, **more)
    return BackgroundLoad(SecondGuestSetup(kind, None), second, cast(AgentLink, uut)), uut


async def _whole(load: BackgroundLoad) -> Background:
    await load.start()
    await load.begin()
    await load.end()
    await load.stop()
    await load.stop()
    return load.result()


def test_a_load_is_recorded_as_it_was_seen_from_inside_and_outside_and_ends() -> None:
    guest = _Guest(workers=12)
    load, uut = _load("heavy", guest, cpus="1", same_pids=True)
    found = asyncio.run(_whole(load))
    assert (found.kind, found.guest, found.cpus) == ("heavy", "second", "1")
    assert found.requested == {"workers": 12, "demand_ratio": 1.0}
    assert found.achieved["workers"] == 12
    assert found.achieved["demand_ratio"] == pytest.approx(1.0)
    assert (found.achieved["host_cpu_s"], found.achieved["host_wait_s"]) == (1.0, 2.0)
    assert uut.asked[0] == {"pids": [5, *guest.pids]}, "their numbers inside are those outside"
    assert not guest.alive
    assert load.notes == []


def test_an_idle_guest_runs_nothing_and_is_looked_at_from_outside() -> None:
    guest = _Guest()
    load, uut = _load("idle", guest)
    found = asyncio.run(_whole(load))
    assert found.requested == {}
    assert found.achieved["host_cpu_s"] == 1.0
    assert "demand_ratio" not in found.achieved
    assert uut.asked[0] == {"pids": [5]}
    assert not any("stress" in line or "kill" in line for line in guest.lines)


@pytest.mark.parametrize(
    ("guest", "message"),
    [
        (
            _Guest(lacks=guest_load.NO_STRESS),
            "second guest, second: does not have stress: install the package stress in it",
        ),
        (_Guest(lacks=guest_load.NO_SETSID), "does not have setsid"),
        (_Guest(12, memory_mib=200), "has 200 MiB of memory to spare, and background heavy .* writes to 1024 MiB"),
        (
            _Guest(lacks="Segmentation fault"),
            "should have reported which process it started, but said 'Segmentation fault'",
        ),
    ],
)
def test_a_guest_that_cannot_is_named_with_what_it_lacks(guest: _Guest, message: str) -> None:
    load, _ = _load("heavy", guest)
    with pytest.raises(NodeError, match=message) as caught:
        asyncio.run(load.start())
    assert caught.value.node == "uut"


def test_a_load_that_nobody_wants_any_more_is_not_waited_for() -> None:
    guest = _Guest(workers=3)  # the others never come
    second = SecondGuest(name="second", ask=guest.ask)
    load = BackgroundLoad(SecondGuestSetup("heavy", None), second, cast(AgentLink, _Uut()), stopping=lambda: True)

    async def work() -> None:
        await load.start()
        await load.stop()

    asyncio.run(work())
    assert not guest.alive


def test_a_guest_without_a_way_in_cannot_be_loaded_but_be_idle() -> None:
    second = SecondGuest(name="vm2", cannot="it has no shell that can be reached")
    with pytest.raises(CapabilityMissing, match="vm2: it has no shell that can be reached"):
        asyncio.run(BackgroundLoad(SecondGuestSetup("light", None), second, cast(AgentLink, _Uut())).start())
    found = asyncio.run(_whole(BackgroundLoad(SecondGuestSetup("idle", None), second, cast(AgentLink, _Uut()))))
    assert set(found.achieved) == {"window_s"}


def test_a_guest_that_falls_silent_leaves_unknown_numbers_and_a_note() -> None:
    async def work() -> Background:
        await load.start()
        await load.begin()
        guest.deaf = True
        await load.end()
        return load.result()

    guest = _Guest()
    load, _ = _load("light", guest)
    found = asyncio.run(work())
    assert found.achieved["demand_ratio"] is None
    assert found.achieved["workers"] is None
    assert found.achieved["host_cpu_s"] == 1.0
    assert "second: guest second did not answer" in load.notes[0]["detail"]


# -- what may be asked for --------------------------------------------------------------------------------------------


class _Store:
    def __init__(self, found: StoredMaximum | None = None) -> None:
        self.found = found
        self.asked: dict[str, Any] = {}

    def maximum(self, **asked: Any) -> StoredMaximum | None:
        self.asked = asked
        return self.found


def test_a_platform_that_cannot_says_why_and_what_it_can() -> None:
    inventory = make_inventory()
    with pytest.raises(ConfigError, match="no unit under test on which a second guest") as caught:
        check_background(
            replace(REQUEST, background="light"), inventory, lambda name, _: cast(Any, BypassDriver(name, {}))
        )
    assert (caught.value.key, caught.value.value, caught.value.allowed) == ("background", "light", "none")
    check_background(replace(REQUEST, background="heavy"), inventory, build_driver)


def test_a_driver_that_knows_nothing_of_second_guests_has_none() -> None:
    with pytest.raises(ConfigError, match="platform raw has no second guest") as caught:
        check_background(replace(REQUEST, background="idle"), make_inventory(), lambda name, _: cast(Any, object()))
    assert caught.value.allowed == "none"
    check_background(REQUEST, make_inventory(), lambda name, _: cast(Any, object()))


def test_a_share_of_a_maximum_that_nobody_measured_is_refused_with_the_command_that_does() -> None:
    inventory, store = make_inventory(), _Store()
    asked = replace(REQUEST, background="forwarding-50", frame=FrameSize(REQUEST.frame.bytes, includes_fcs=True))
    command = "labconsole run --platform raw --background idle --frame-size 64 --includes-fcs --sources 1 --target max"
    with pytest.raises(ConfigError, match=command):
        asyncio.run(second_guest_setup(asked, inventory, build_driver, cast(RunSink, store)))
    assert store.asked == {
        "platform": "raw",
        "testbed_fingerprint": inventory.fingerprint(),
        "background": "idle",
        "frame": FrameSize(64, includes_fcs=True),
        "sources": 1,
    }


def test_what_a_share_rests_on_is_looked_for_before_anything_is_asked_of_the_testbed() -> None:
    inventory, asked = make_inventory(), replace(REQUEST, background="forwarding-50")
    with pytest.raises(ConfigError, match="needs a stored maximum of platform raw") as caught:
        check_reference(asked, inventory, cast(RunSink, _Store()))
    assert caught.value.key == "background"
    check_reference(asked, inventory, cast(RunSink, _Store(FOUND)))
    check_reference(replace(REQUEST, background="heavy"), inventory, cast(RunSink, _Store()))
    with pytest.raises(ConfigError, match="which its link cannot carry"):
        check_reference(asked, inventory, cast(RunSink, _Store(replace(FOUND, measured_pps=4e6))))


def test_the_second_guests_stream_is_sent_at_the_share_of_the_reference() -> None:
    inventory = make_inventory()
    asked = replace(REQUEST, background="forwarding-95")
    found = asyncio.run(second_guest_setup(asked, inventory, build_driver, cast(RunSink, _Store(FOUND))))
    assert found is not None
    assert found.request is not None
    assert found.stream == inventory.streams[-1]
    assert found.request.intended_pps == pytest.approx(95_000, rel=1e-3)
    assert (found.request.frame.bytes, found.request.duration_s) == (64, 2.0)
    assert found.reference is not None
    assert (found.reference["share_ratio"], found.reference["run_id"]) == (0.95, FOUND.run_id)


def test_a_share_beyond_the_link_of_the_second_guests_stream_is_refused() -> None:
    asked = replace(REQUEST, background="forwarding-95")
    with pytest.raises(ConfigError, match="which its link cannot carry"):
        forwarding(asked, make_inventory().streams[-1], replace(FOUND, measured_pps=2e6))


def _summary(run_id: str, target: int | str, pps: float | None, verdict: str = "valid") -> RunSummary:
    record = make_record(replace(REQUEST, target=cast(Any, target)), run_id)
    names = {
        name: getattr(record.requested, name) for name in ("platform", "frame_size_bytes", "sources", "background")
    }
    return RunSummary(
        run_id=run_id,
        started_at=record.started_at,
        testbed="t",
        testbed_fingerprint="f",
        emulated=False,
        generator="pktgen",
        frame_size_includes_fcs=False,
        target_bps=cast(Any, target),
        duration_s=1.0,
        plan_name=None,
        plan_hash=None,
        plan_point=None,
        repetition=None,
        verdict=verdict,
        reason_codes=(),
        offered_pps=pps,
        offered_bps=pps,
        measured_pps=pps,
        measured_bps=pps,
        loss_packets=0,
        loss_ratio=0.0,
        has_series=False,
        **names,
    )


def test_the_maximum_is_the_highest_mean_over_targets_of_runs_that_stand() -> None:
    runs = [
        _summary("r6", "max", 80_000.0),
        _summary("r5", 10**8, 110_000.0, "suspect"),
        _summary("r4", 10**8, 90_000.0),
        _summary("r3", 10**8, 500_000.0, "invalid"),
        _summary("r2", 10**8, None),
        _summary("r1", 10**7, 10_000.0),
    ]
    found = highest(runs)
    assert found == StoredMaximum(measured_pps=100_000.0, runs=2, run_id="r5", target_bps=10**8), "collapse beyond it"
    assert highest(runs[1:]) is None, "without a run at max nobody knows whether it is the maximum"
    assert highest([_summary("r1", "max", 0.0)]) is None


def test_the_maximum_is_of_forwarding_rates_under_the_newest_conditions_and_of_no_pilot() -> None:
    known: dict[str, Any] = {"method": 2, "forwarding_bps": 1e6}
    pilot = replace(_summary("r9", "max", 900_000.0), role="pilot")
    upstream = replace(_summary("r8", "max", 800_000.0, "suspect"), reason_codes=("lost_at_source",))
    bare = replace(_summary("r7", 10**8, 700_000.0), generator="pktgen")
    new = [replace(_summary(f"r{n}", "max", 99.0), forwarding_pps=pps, **known) for n, pps in ((6, 60.0), (5, 80.0))]
    old = [replace(run, run_id="old", uut_kernel="6.1", forwarding_pps=5000.0) for run in new]
    found = highest([pilot, upstream, bare, *new, *old])
    assert found == StoredMaximum(measured_pps=70.0, runs=2, run_id="r6", target_bps="max")
    assert highest([pilot, upstream, bare]) is None


# -- what is recorded -------------------------------------------------------------------------------------------------


def _wrong(data: dict[str, Any]) -> dict[str, Any]:
    return {d.where: d.recomputed for d in recompute(RunRecord.model_validate(data))}


def test_the_numbers_of_a_second_guests_stream_follow_from_its_raw_counts() -> None:
    assert _wrong(forwarding_record()) == {}


def test_a_changed_number_of_a_background_load_is_named() -> None:
    data = forwarding_record()
    data["background"]["streams"][0]["measured_pps"] += 1
    data["background"]["requested"]["offered_pps"] = 60_000.0
    found = _wrong(data)
    assert found["background.requested.offered_pps"] == 50_000.0
    assert {"background.streams[0].measured_pps", "background.achieved.measured_pps"} <= set(found)
    assert "background.streams[0].delay_ns" in found, "what was sent is not what was asked for"


def test_a_run_is_told_with_its_load_and_the_second_guests_stream() -> None:
    record = RunRecord.model_validate(forwarding_record())
    text = "\n".join(run_lines(record, saved=True))
    assert "background forwarding-50 in second, not pinned" in text
    assert "offered_pps: requested 50\u2009000, achieved" in text
    assert "a share of: share_ratio 0.5, measured_pps 100000.0" in text
    assert text.count("offered") >= 3
    assert record.total.offered_packets == record.streams[0].offered_packets, "the second guest's enters no total"
