"""The verdict on a start of guests, and the same start computed again."""

from __future__ import annotations

from typing import Any

import pytest

from labconsole.contracts.crew import HypervisorWord, StandingMember
from labconsole.experiments.boot.derived_values import (
    GuestsMemory,
    MemoryReading,
    clock_allowed_s,
    coarse_notes,
    memory_used,
    resolution_s,
)
from labconsole.experiments.boot.kind import KIND as BOOT_KIND
from labconsole.experiments.boot.record import MemoryUse
from labconsole.experiments.boot.verdict import derive_reasons
from labconsole.experiments.boot.verify import recompute_boot
from labconsole.model.tolerances import Tolerances
from labconsole.report.trial_text import trial_lines
from labconsole.verdict import crew_trial
from labconsole.verdict.observations import TrialObservations
from support.boot_records import MIB, boot_data, boot_record
from support.fake_session import make_inventory


def judged(data: dict[str, Any], missing: tuple[str, ...] = ()) -> list[str]:
    record = boot_record(data)
    limits = Tolerances()
    shown = derive_reasons(
        record.guests,
        start=record.requested.start,
        clock_error_s=record.clock_error_s,
        clock_error_allowed_s=record.clock_error_allowed_s,
        files=record.files,
        timekeeper=record.timekeeper,
        swapped_pages=record.swapped_pages,
        limits=limits,
    )
    seen = TrialObservations(run_id=record.boot_id, started_at=record.started_at)
    verdict = crew_trial.judged(seen, shown, missing, limits=limits, inventory=make_inventory())
    return [each.code for each in verdict.reasons]


def wrong(data: dict[str, Any]) -> list[str]:
    return [each.where for each in recompute_boot(boot_record(data))]


def test_a_start_of_known_times_has_them_by_both_clocks() -> None:
    record = boot_record(boot_data((1.0, 1.5)))
    assert [each.mark_s for each in record.guests] == [1.0, 1.5]
    assert [each.own_s for each in record.guests] == pytest.approx([1.0, 1.499])
    assert (record.startup_s, record.ready_s, record.clock_error_s) == (1.5, 1.51, 0.0005)
    assert judged(boot_data()) == []
    assert wrong(boot_data()) == []


def test_both_witnesses_agree_or_the_start_is_marked() -> None:
    assert judged(boot_data((10.0,), word_after_s=0.29)) == []  # within 0.1 s and two percent
    data = boot_data((10.0,), word_after_s=0.31)
    assert judged(data) == ["ready_disagrees"]
    assert wrong(data) == ["verdict.reasons"]


def test_a_word_without_a_mark_is_a_mark_that_was_lost() -> None:
    data = boot_data((1.0, 1.5))
    data["guests"][1] |= {"mark_ns": None, "mark_s": None, "own_s": None}
    data |= {"startup_s": None, "sd_s": None}
    assert judged(data) == ["mark_lost"]
    assert "verdict.reasons" in wrong(data)


def test_a_guest_that_does_not_come_is_missing_and_the_others_marks_are_kept() -> None:
    data = boot_data((1.0, None))
    assert [each["mark_ns"] is None for each in data["guests"]] == [False, True]
    assert judged(data, ("g2: sent no mark",)) == ["guests_missing"]
    reason = {"code": "guests_missing", "detail": "g2", "evidence": None, "follows": None}
    data |= {"verdict": {"status": "invalid", "reasons": [reason]}, "status": "failed", "failure": "g2"}
    assert wrong(data) == []


@pytest.mark.parametrize(
    ("start", "cached", "codes"),
    [
        ("cold", 0, []),
        ("cold", 1, ["not_cold"]),
        ("hot", 700, []),
        ("hot", 699, ["not_hot"]),
    ],
)
def test_cold_is_nothing_in_memory_and_hot_is_all(start: str, cached: int, codes: list[str]) -> None:
    data = boot_data()
    data["requested"]["start"] = start
    data["files"][0]["cached_pages"] = cached
    assert judged(data) == codes
    assert wrong(data) == (["verdict.reasons"] if codes else [])


@pytest.mark.parametrize(("start", "code"), [("cold", "not_cold"), ("hot", "not_hot")])
def test_a_start_of_whose_files_no_page_is_known_is_proven_neither_way(start: str, code: str) -> None:
    data = boot_data()
    data["requested"]["start"] = start
    data["files"][0] |= {"pages": 0, "cached_pages": 0}
    assert judged(data) == [code]


def test_swapped_pages_and_strange_pings_void_it() -> None:
    data = boot_data()
    data["swapped_pages"] = 3
    data["timekeeper"]["strange_packets"] = 1
    assert sorted(judged(data)) == ["mark_forged", "swapped"]


def test_a_hypervisors_own_word_follows_from_what_it_has_left_or_says_of_each_guest() -> None:
    data = boot_data((1.0, 1.5))
    for guest in data["guests"]:
        guest["hypervisor_bytes"] = 7 * MIB
        guest["way_in"] = {"tries": 2, "gap_s": 0.1, "mark_tries": 1, "joined_s": 0.4}
    data["memory"] |= {"hypervisor_command": "virsh dommemstat", "hypervisor_bytes": 14 * MIB}
    assert wrong(data) == []
    free = {"hypervisor_free_before_bytes": 100 * MIB, "hypervisor_free_after_bytes": 70 * MIB}
    data["memory"] |= free
    assert wrong(data) == ["memory.hypervisor_bytes"]
    data["memory"]["hypervisor_bytes"] = 30 * MIB
    assert wrong(data) == []


def test_a_record_from_before_hypervisors_were_asked_is_as_good() -> None:
    data = boot_data()
    for guest in data["guests"]:
        del guest["hypervisor_bytes"], guest["way_in"]
    assert "hypervisor_bytes" not in data["memory"]
    assert wrong(data) == []
    assert any("processes" in line for line in trial_lines(BOOT_KIND, boot_record(data)))


def test_what_the_time_holds_of_the_way_inside_is_shown() -> None:
    data = boot_data((1.0,))
    data["guests"][0]["way_in"] = {"tries": 3, "gap_s": 0.104, "mark_tries": 1, "joined_s": None}
    data["memory"] |= {
        "hypervisor_command": "xl info, xl list",
        "hypervisor_free_before_bytes": 9 * MIB,
        "hypervisor_free_after_bytes": 2 * MIB,
        "hypervisor_bytes": 7 * MIB,
    }
    text = "\n".join(trial_lines(BOOT_KIND, boot_record(data)))
    assert "led inside at try 3, 0.104 s after the previous one" in text
    assert "by the report of the hypervisor (xl info, xl list) 7.0 MiB" in text


def test_a_hypervisors_word_becomes_a_figure_when_it_is_whole() -> None:
    async def ask(uut: Any, line: str) -> str:
        return ""

    members = [StandingMember(name=name, ask=ask, pid=None) for name in ("g1", "g2")]

    def used(before: HypervisorWord | None, after: HypervisorWord | None) -> MemoryUse:
        looks = MemoryReading(word=before), MemoryReading(word=after)
        return memory_used(*looks, GuestsMemory(), members, 5.0)

    one, both = ({"g1": 5 * MIB}, {"g1": 5 * MIB, "g2": 6 * MIB})
    assert used(None, None).hypervisor_bytes is None
    assert used(None, HypervisorWord(command="c", guest_bytes=one)).hypervisor_bytes is None
    assert used(None, HypervisorWord(command="c", guest_bytes=both)).hypervisor_bytes == 11 * MIB
    left = [HypervisorWord(command="c", free_bytes=free * MIB, guest_bytes=both) for free in (100, 88)]
    assert used(left[0], left[1]).hypervisor_bytes == 12 * MIB


def coarse(error_ms: float, startup_s: float, allowed_s: float | None) -> dict[str, Any]:
    """A start whose clocks were compared to so many ms."""
    data = boot_data((startup_s,))
    half_ns = round(error_ms * 1e6 / 2)
    data["clocks"] |= {"uut_error_ns": half_ns, "timekeeper_error_ns": half_ns}
    return data | {"clock_error_s": error_ms / 1e3, "clock_error_allowed_s": allowed_s}


@pytest.mark.parametrize(
    ("error_ms", "startup_s", "codes"),
    [
        (1.0, 0.03, []),
        (1.2, 0.03, ["clock_coarse"]),
        (9.0, 1.0, []),
        (11.0, 1.0, ["clock_coarse"]),
        (11.0, 2.0, []),
    ],
)
def test_clocks_that_leave_much_of_a_time_open_make_it_doubtful(
    error_ms: float, startup_s: float, codes: list[str]
) -> None:
    data = coarse(error_ms, startup_s, clock_allowed_s(startup_s))
    assert judged(data) == codes
    assert wrong(data) == (["verdict.reasons"] if codes else [])
    if codes:
        told = {"code": "clock_coarse", "detail": "d", "evidence": None, "follows": None}
        assert wrong(data | {"verdict": {"status": "suspect", "reasons": [told]}}) == []
    assert "clock_error_allowed_s" in wrong(data | {"clock_error_allowed_s": 1.0})


def test_a_record_from_before_the_clocks_error_was_judged_stands() -> None:
    data = coarse(500.0, 1.0, None)
    del data["clock_error_allowed_s"]
    assert boot_record(data).clock_error_allowed_s is None
    assert wrong(data) == []


def test_how_coarse_a_mark_is_follows_from_the_steps_in_which_the_way_is_tried() -> None:
    record = boot_record(boot_data((1.0, 1.5)))
    assert resolution_s(record.guests, 0.0005) == pytest.approx(0.0205)
    assert list(coarse_notes(record.guests, "uut")) == []
    assert "they may have been up earlier, by 0.02" in "\n".join(trial_lines(BOOT_KIND, record))
    data = boot_data((1.0, 1.5))
    data["guests"][1]["way_in"] = {"tries": 3, "gap_s": 0.104, "mark_tries": 2, "joined_s": None}
    record = boot_record(data)
    assert resolution_s(record.guests, 0.0005) == pytest.approx(0.0005 + 0.104 + 1.0)
    (note,) = coarse_notes(record.guests, "uut")
    assert (note["kind"], note["earlier_s"]) == ("mark_coarse", {"g2": pytest.approx(1.104)})
    data["guests"][1]["way_in"]["mark_tries"] = None
    record = boot_record(data)
    assert resolution_s(record.guests, 0.0005) is None
    (note,) = coarse_notes(record.guests, "uut")
    assert note["unknown"] == ["g2"]
    assert resolution_s(record.guests, None) is None


@pytest.mark.parametrize(
    ("where", "change"),
    [
        ("startup_s", lambda data: data.update(startup_s=1.6)),
        ("sd_s", lambda data: data.update(sd_s=0.1)),
        ("mark_zero_ns", lambda data: data.update(mark_zero_ns=data["mark_zero_ns"] + 1)),
        ("guests[0].own_s", lambda data: data["guests"][0].update(own_s=2.0)),
        ("memory.used_bytes", lambda data: data["memory"].update(used_bytes=1)),
        ("memory.pss_bytes", lambda data: data["memory"].update(pss_bytes=1)),
        ("memory.hypervisor_bytes", lambda data: data["memory"].update(hypervisor_bytes=1)),
        (
            "guests[0].way_in",
            lambda data: data["guests"][0].update(
                way_in={"tries": 1, "gap_s": 0.1, "mark_tries": None, "joined_s": None}
            ),
        ),
        ("status", lambda data: data.update(status="failed")),
        ("guests", lambda data: data["requested"].update(guests=3)),
        ("files[0]", lambda data: data["files"][0].update(pages=0, cached_pages=1)),
    ],
)
def test_what_does_not_follow_is_found(where: str, change: Any) -> None:
    data = boot_data()
    change(data)
    assert where in wrong(data)
