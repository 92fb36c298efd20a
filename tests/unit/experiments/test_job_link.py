"""A job that sends as fast as its link allows says nothing of what runs the guests."""

from __future__ import annotations

import csv
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from labconsole.cli.main import main
from labconsole.experiments.job.limiting_resource import (
    FULL_RATIO,
    PAYLOAD_SHARE,
    is_full,
    link_notes,
    link_ratio,
    rate_bps,
    slowest_link_bps,
)
from labconsole.experiments.job.record import RECORD as JOB
from labconsole.experiments.job.record import JobRecord
from labconsole.experiments.job.summary import JobsSummary, summarize_jobs
from labconsole.experiments.job.text import summary_lines
from labconsole.store.open import open_store
from labconsole.verdict.observations import TrialObservations
from support.flow_records import flow_record
from support.job_records import job_data, job_record, taken
from support.observed_trials import reading, tell

GBIT, SIZE_MIB = 10**9, 384
FULL_S = 8 * SIZE_MIB * 2**20 / (0.99 * PAYLOAD_SHARE * GBIT)


def sent(
    seconds: list[float], speed_bps: int | None = GBIT, margin_ratio: float | None = None, **point: object
) -> JobRecord:
    record = taken(seconds, **point)  # type: ignore[arg-type]
    asked = record.requested.model_copy(update={"job": "tcp", "size": SIZE_MIB})
    ref = record.plan.model_copy(update={"margin_ratio": margin_ratio})
    return record.model_copy(update={"requested": asked, "link_speed_bps": speed_bps, "plan": ref})


def blocks(times_s: Mapping[str, Mapping[int, float]], speed_bps: int | None = GBIT) -> list[JobRecord]:
    """Of each platform what one guest takes while so many stand; six blocks."""
    draw = random.Random(3)
    return [
        sent(
            [seconds * draw.gauss(1, 0.001)],
            speed_bps,
            0.05,
            platform=platform,
            guests=guests,
            working="one",
            cpu="same",
            block=block,
        )
        for block in range(1, 7)
        for platform, of in times_s.items()
        for guests, seconds in of.items()
    ]


def words(summary: JobsSummary) -> list[str]:
    return [each.word for each in summary.overheads]


def test_the_rate_of_all_copies_is_held_against_what_tcp_can_carry() -> None:
    one, four = sent([FULL_S]), sent([4 * FULL_S, 3.9 * FULL_S, 3.8 * FULL_S, 4 * FULL_S])
    assert rate_bps(SIZE_MIB, one.copies) == pytest.approx(0.99 * PAYLOAD_SHARE * GBIT)
    for record in (one, four):
        assert is_full(link_ratio("tcp", SIZE_MIB, record.copies, GBIT))
        (note,) = link_notes("tcp", SIZE_MIB, record.copies, GBIT, "uut")
        assert (note["kind"], note["link_speed_bps"]) == ("link_full", GBIT)
    half = sent([2 * FULL_S])
    assert list(link_notes("tcp", SIZE_MIB, half.copies, GBIT, "uut")) == []
    assert not is_full(link_ratio("tcp", SIZE_MIB, one.copies, None))
    assert link_ratio("disk-read", SIZE_MIB, one.copies, GBIT) is None
    assert not is_full(FULL_RATIO * PAYLOAD_SHARE - 0.001)
    failed = [one.copies[0].model_copy(update={"exit_status": 1})]
    assert rate_bps(SIZE_MIB, failed) is None


def test_who_sends_faster_than_its_link_has_another_link() -> None:
    assert not is_full(link_ratio("tcp", SIZE_MIB, sent([FULL_S / 5]).copies, GBIT))


def test_the_link_is_as_slow_as_its_slowest_part_that_is_known() -> None:
    def seen(**mbps: int | None) -> TrialObservations:
        found = TrialObservations(run_id="r", started_at="2026-11-01T00:00:00.000Z")
        for node, speed in mbps.items():
            found.end[node] = reading(node, at_s=1.0)
            tell(found.end[node], "settings.interfaces.eth1.speed_mbps", speed)
        return found

    ports = (("src1", "eth1"), ("snk1", "eth1"))
    assert slowest_link_bps(GBIT, seen(src1=10_000, snk1=None), ports) == GBIT
    assert slowest_link_bps(GBIT, seen(src1=10_000, snk1=100), ports) == 10**8
    assert slowest_link_bps(GBIT, seen(), ports) == GBIT


def test_two_platforms_at_the_rate_of_the_link_are_neither_alike_nor_different() -> None:
    alike = {"host": {1: FULL_S}, "lxc": {1: FULL_S}}
    apart = {"host": {1: FULL_S}, "lxc": {1: FULL_S * 1.03}}
    for times_s in (alike, apart):
        summary = summarize_jobs(blocks(times_s))
        assert words(summary) == ["held by the link"]
        assert summary.overheads[0].effect.p is None, "it is no claim of the family"
        assert any(": held by the link, " in line for line in summary_lines(summary))
        assert words(summarize_jobs(blocks(times_s, None))) == [
            "equivalent" if times_s is alike else "different, within the margin"
        ], "of older records the link is not known"


def test_who_is_slower_than_a_link_that_holds_only_the_bare_host_is_different_and_never_equivalent() -> None:
    assert words(summarize_jobs(blocks({"host": {1: FULL_S}, "uml": {1: 2 * FULL_S}}))) == ["different"]
    near = blocks({"host": {1: 1.06 * FULL_S}, "lxc": {1: 1.04 * FULL_S}})
    assert words(summarize_jobs(near)) == ["different"], "not: within the margin"


@pytest.mark.parametrize(
    ("each_s", "word"), [(0.0, "held by the link"), (-0.005, "held by the link"), (1.0, "grows")], ids=str
)
def test_a_job_that_the_link_holds_is_not_flat_but_may_grow(each_s: float, word: str) -> None:
    times = {guests: FULL_S + each_s * (guests - 1) for guests in (1, 2, 5)}
    (curve,) = summarize_jobs(blocks({"lxc": times})).one_works
    assert curve.word == word


def test_the_abstracts_conclusion_of_tools_that_the_link_holds_is_not_decided(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.sqlite'}"
    flat = dict.fromkeys((1, 2, 5), FULL_S)
    with open_store(url) as opened:
        for record in blocks({"host": {1: FULL_S}, "lxc": flat, "uml": flat}):
            opened.save_experiment(JOB, record)
    out = tmp_path / "out"
    assert main(["report", "--store", url, "--out", str(out), "--formats", "csv", "--reference", "quetier"]) == 0
    rows = csv.DictReader((out / "quetier-abstract-jobs.csv").read_text().splitlines())
    held = ("uml against lxc: held by the link", "not decided: held by the link")
    assert [(row["finding"], row["word"]) for row in rows][:2] == [held, held], "of one guest, and of growth"
    beside = list(csv.DictReader((out / "quetier-beside.csv").read_text().splitlines()))
    assert {each["finding"] for each in beside if each["topic"] == "overhead"} == {"held by the link"}
    overheads = list(csv.DictReader((out / "job-overheads.csv").read_text().splitlines()))
    assert {(each["word"], each["p"]) for each in overheads} == {("held by the link", "")}


def test_senders_that_fill_the_link_decide_nothing_of_the_least_overhead(tmp_path: Path) -> None:
    from labconsole.experiments.flow.record import RECORD as FLOW

    url, draw = f"sqlite:///{tmp_path / 'flows.sqlite'}", random.Random(5)
    with open_store(url) as opened:
        for block in range(1, 6):
            for number, (platform, share) in enumerate((("mine", 0.995), ("other", 0.97))):
                end = f"20260101T000000000000Z-0{number}0{block}1"
                record = flow_record([[8000] * 4], platform=platform, block=block, flow_id=end)
                line = share * draw.gauss(1, 0.0002)
                changes = {"line_ratio": line, "sum_bps": line * record.line_bps}
                opened.save_experiment(FLOW, record.model_copy(update=changes))
    out = tmp_path / "out"
    words = ["--reference", "mattos", "--reference-map", "mine=xen", "--formats", "csv"]
    assert main(["report", "--store", url, "--out", str(out), *words]) == 0
    found = list(csv.DictReader((out / "mattos-abstract-network.csv").read_text().splitlines()))
    assert [row["word"] for row in found if row["conclusion"].startswith("Xen introduces")] == [
        "not decided: held by the link"
    ]


def test_a_record_without_the_field_is_read_and_one_with_it_bounded() -> None:
    data = job_data()
    assert job_record(data).link_speed_bps is None
    assert job_record(data | {"link_speed_bps": GBIT}).link_speed_bps == GBIT
    with pytest.raises(ValueError, match="link_speed_bps"):
        job_record(data | {"link_speed_bps": 0})
