"""What a paper's abstract concludes, compared with findings: confirmed by what was decided, and by nothing less."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from labconsole.cli.main import main
from labconsole.experiments.boot.record import RECORD as BOOT
from labconsole.experiments.boot.record import BootRecord
from labconsole.experiments.flow.record import RECORD as FLOW
from labconsole.experiments.job.record import RECORD as JOB
from labconsole.experiments.route.record import RECORD as ROUTE
from labconsole.measure.statistics.effects import paired_effect
from labconsole.model.record.run import Reason
from labconsole.report.paper_abstracts import (
    ToolPair,
    conclude_difference,
    format_kernels,
    judge_all_different,
    judge_differences,
    pair_tools,
)
from labconsole.store.open import open_store
from support.flow_records import flow_record
from support.job_records import drawn_at, taken
from support.route_records import route_record


def pair(one: str, other: str, apart: bool | None, *, by_link: bool = False) -> ToolPair:
    return ToolPair(one, other, "so", apart, by_link)


def test_all_tools_differ_where_every_two_are_shown_to_and_do_not_where_two_are_shown_not_to() -> None:
    ab, ac, bc = pair("a", "b", True), pair("a", "c", True), pair("b", "c", None)
    assert judge_all_different([ab]) == judge_all_different([ab, ac, bc._replace(apart=True)]) == "confirmed"
    assert judge_all_different([ab, ac]) == "not decided", "b and c were not compared"
    assert judge_all_different([ab, ac, bc]) == "not decided"
    assert judge_all_different([ab, ac, bc._replace(apart=False)]) == "not confirmed"
    assert judge_all_different([ab, ac, bc._replace(by_link=True)]) == "not decided: held by the link"
    assert judge_all_different([]) == "not decided"
    assert judge_all_different([ab, ab]) == "confirmed", "of two hypervisors of one platform, both"


def test_the_whole_conclusion_holds_where_every_two_differ_in_something() -> None:
    ab, ac = pair("a", "b", True), pair("a", "c", True)
    bc = pair("b", "c", True)
    whole = conclude_difference("they differ", [[ab, pair("a", "c", None)], [pair("b", "a", False), ac, bc]])
    assert whole is not None
    assert (whole.held, whole.found) == ("confirmed", "3 of 3 pairs of tools are shown to differ in something")
    lacking = conclude_difference("they differ", [[ab, pair("a", "c", None)], [pair("b", "a", False), ac]])
    assert lacking is not None and lacking.held == "not decided", "b and c were not compared"
    part = conclude_difference("they differ", [[ab], [pair("a", "c", False)]])
    assert part is not None and part.held == "not decided", "a and c are alike in one thing of two"
    one = conclude_difference("they differ", [[ab, pair("a", "c", None)], [ab, pair("a", "c", False)]])
    assert one is not None and one.held == "not decided"
    none = conclude_difference("they differ", [[pair("a", "c", False)], [pair("c", "a", False)]])
    assert none is not None and none.held == "not confirmed"
    assert conclude_difference("they differ", [[ab]]) is None, "one thing is the row above it"


class Key(NamedTuple):
    platform: str
    kernel: str
    hypervisor: str = ""
    testbed_fingerprint: str = "lab"


def test_tools_are_held_against_each_other_under_one_kernel_where_they_have_one_in_common() -> None:
    def pairs(*keys: Key) -> list[str]:
        return sorted(f"{one.platform}{one.kernel} {other.platform}{other.kernel}" for one, other in pair_tools(keys))

    old, new = "1", "2"
    both = [Key("lxc", old), Key("uml", old), Key("lxc", new), Key("uml", new)]
    assert pairs(*both) == ["uml1 lxc1", "uml2 lxc2"], "an upgrade in between unmakes nothing"
    assert pairs(Key("lxc", old), Key("xen", new)) == ["xen2 lxc1"], "Xen's kernel is its own"
    assert format_kernels({"1", "2"}, Key("xen", new), Key("lxc", old)) == ", each under a kernel of its own"
    assert format_kernels({"1", "2"}, *both[:2]) == ", Linux 1"
    assert format_kernels({"1"}, *both[:2]) == ""


def test_effects_are_judged_as_one_family_and_alike_only_within_a_margin() -> None:
    far, near = (
        paired_effect({n: x * (1 + n / 1e4) for n in range(6)}, dict.fromkeys(range(6), 1.0)) for x in (1.2, 1.0)
    )
    assert judge_differences([far, near], [0.02, 0.02]) == [True, False]
    assert judge_differences([far, near], [None, None]) == [True, True], (
        "a small difference is one, where no margin is declared"
    )
    assert judge_differences([far, paired_effect({}, {})], [0.02, 0.02]) == [True, None]


def rows(out: Path, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((out / f"{name}.csv").read_text().splitlines()))


def reported(store: str, out: Path, *words: str) -> Path:
    assert main(["report", "--store", store, "--out", str(out), "--formats", "csv", *words]) == 0
    return out


def jobs(
    path: Path,
    growth_of: dict[str, float],
    *,
    level_of: dict[str, float] | None = None,
    margin: float | None = 0.02,
    blocks_of: dict[str, range] | None = None,
    failed: tuple[str, int] | None = None,
    never: str = "",
) -> str:
    """On each platform a job takes so many times as long, and so much longer with each guest that stands beside; all
    keep guests apart. ``failed``: a platform and a number of guests where a trial took too long; ``never``: one of
    which no guest ever came.
    """
    draw, url = random.Random(2), f"sqlite:///{path}"
    with open_store(url) as opened:
        for platform, growth in {"host": 0.0, **growth_of}.items():
            for block in (blocks_of or {}).get(platform, range(1, 7)):
                for guests in (1, 2, 5):
                    for working in ("one",) if guests == 1 else ("one", "one-two"):
                        times = [1.0] if working == "one" else [2.0, 3.0, 3.0]
                        level = 4.0 * (level_of or {}).get(platform, 1.0) * (1 + growth * guests)
                        took = [level * each * draw.gauss(1, 0.0002) for each in times]
                        codes = ("job_failed",) if (platform, guests) == failed and block == 3 else ()
                        codes = ("guests_missing",) if platform == never else codes
                        record = taken(
                            took,
                            platform=platform,
                            guests=guests,
                            working=working,
                            cpu="same",
                            block=block,
                            codes=codes,
                        )
                        asked = record.requested.model_copy(update={"job": "cpu-sqrt2", "size": 2000})
                        plan = record.plan.model_copy(update={"margin_ratio": margin})
                        more = {"program": None, "copies": ()} if platform == never else {}
                        opened.save_experiment(
                            JOB, record.model_copy(update={"requested": asked, "plan": plan, **more})
                        )
    return url


def concluded(store: str, out: Path) -> dict[str, dict[str, str]]:
    """Of overhead, what it is about to the row."""
    found = rows(reported(store, out, "--reference", "quetier"), "quetier-abstract-jobs")
    return {row["about"]: row for row in found if row["conclusion"].endswith("in overhead")}


LEVEL, GROWTH, ALL = (
    "cpu, cpu-sqrt2 (2000 digits), 1 guest, one CPU for all",
    "cpu, cpu-sqrt2 (2000 digits), one CPU for all, growth from 1 to 5 guests",
    "all of the above",
)


@pytest.mark.parametrize(
    ("level", "growth", "words"),
    [
        (1.0, 0.0, ("not confirmed", "not confirmed", "not confirmed")),
        (1.3, 0.0, ("confirmed", "not confirmed", "confirmed")),
        (1.0, 0.1, ("confirmed", "confirmed", "confirmed")),
    ],
)
def test_tools_differ_in_overhead_by_what_one_guest_takes_and_by_how_that_grows(
    tmp_path: Path, level: float, growth: float, words: tuple[str, str, str]
) -> None:
    store = jobs(tmp_path / "jobs.sqlite", {"lxc": 0.0, "uml": growth}, level_of={"uml": level})
    found = concluded(store, tmp_path / "out")
    assert tuple(found[about]["word"] for about in (LEVEL, GROWTH, ALL)) == words
    assert found[LEVEL]["finding"].startswith("uml against lxc: ")
    assert "host" not in " ".join(row["finding"] for row in found.values())
    isolation = [
        row
        for row in rows(tmp_path / "out", "quetier-abstract-jobs")
        if row["conclusion"].endswith("in isolation") and row["about"] != ALL
    ]
    assert {(row["word"], row["finding"]) for row in isolation} == {
        ("not confirmed", "uml against lxc: between guests and between guests")
    }
    assert "quetier-abstract-jobs" not in {
        path.stem for path in reported(store, tmp_path / "other", "--reference", "mattos").glob("*.csv")
    }


def test_that_tools_are_alike_is_said_within_a_margin_and_of_all_only_of_every_two(tmp_path: Path) -> None:
    without = concluded(jobs(tmp_path / "a.sqlite", {"lxc": 0.0, "uml": 0.0}, margin=None), tmp_path / "a")
    assert without[LEVEL]["word"] == "not decided"
    three = jobs(tmp_path / "b.sqlite", {"lxc": 0.0, "uml": 0.0, "xen": 0.0}, level_of={"xen": 2.0}, margin=None)
    found = concluded(three, tmp_path / "b")
    assert found[LEVEL]["word"] == "not decided", "xen differs from both, which may be alike"
    assert found[ALL]["finding"] == "2 of 3 pairs of tools are shown to differ in something"


def test_platforms_that_were_not_measured_in_the_same_blocks_are_not_held_against_each_other(tmp_path: Path) -> None:
    later = {"lxc": range(1, 7), "uml": range(7, 13)}
    store = jobs(tmp_path / "jobs.sqlite", {"lxc": 0.0, "uml": 0.0}, level_of={"uml": 1.3}, blocks_of=later)
    found = concluded(store, tmp_path / "out")
    assert {row["word"] for row in found.values()} == {"not decided"}


def test_trials_that_took_too_long_are_no_growth_that_was_not_there(tmp_path: Path) -> None:
    store = jobs(tmp_path / "jobs.sqlite", {"lxc": 0.0, "uml": 0.0}, failed=("uml", 5))
    found = concluded(store, tmp_path / "out")
    of_all = rows(tmp_path / "out", "quetier-abstract-jobs")
    isolated = [row for row in of_all if row["conclusion"].endswith("isolation") and ", 5 guests" in row["about"]]
    assert [row["finding"] for row in isolated] == ["uml against lxc: trials left out by outcome"]
    assert found[GROWTH]["finding"] == "uml against lxc: trials left out by outcome"
    assert found[GROWTH]["word"] == "not decided"
    words = {
        row["platform"]: row["word"] for row in rows(tmp_path / "out", "job-guests") if row["working"] == "one works"
    }
    assert words == {"host": "flat", "lxc": "flat", "uml": "trials left out by outcome"}


def test_platforms_of_which_nothing_is_valid_are_told_with_what_was_left_out(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'jobs.sqlite'}"
    with open_store(store) as opened:
        for block in (1, 2):
            for platform in ("lxc", "uml"):
                codes = ("unseen_cpu",) if platform == "uml" else ()
                made = taken([4.0], platform=platform, guests=1, working="one", block=block, codes=codes)
                opened.save_experiment(JOB, made)
    (row,) = rows(reported(store, tmp_path / "out", "--reference", "quetier"), "quetier-abstract-jobs")
    assert row["word"] == "not decided"
    assert row["finding"] == "uml against lxc: without valid trials: uml"


def test_a_tool_of_which_nothing_is_valid_leaves_open_what_was_asked_of_it(tmp_path: Path) -> None:
    """Where its guests never came, and so never showed the program that they would have run."""
    tools = {"lxc": 0.0, "uml": 0.1, "xen": 0.0}
    store = jobs(tmp_path / "jobs.sqlite", tools, level_of={"uml": 1.3}, never="xen")
    found = concluded(store, tmp_path / "out")
    assert [found[about]["word"] for about in (LEVEL, GROWTH, ALL)] == ["not decided"] * 3
    assert found[LEVEL]["finding"].startswith("uml against lxc: +")
    assert found[LEVEL]["finding"].endswith("; xen against uml: without valid trials: xen")
    of_all = rows(tmp_path / "out", "quetier-abstract-jobs")
    isolated = [row["finding"] for row in of_all if row["conclusion"].endswith("isolation") and ", 5 g" in row["about"]]
    assert isolated and "xen against lxc: without valid trials: xen" in isolated[0]


def test_growth_that_a_full_link_hides_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "labconsole.experiments.job.platform_comparison.is_link_limited",
        lambda trials: any((each.requested.platform, each.requested.guests) == ("lxc", 1) for each in trials),
    )
    found = concluded(jobs(tmp_path / "jobs.sqlite", {"lxc": 0.0, "uml": 0.1}), tmp_path / "out")
    assert (found[GROWTH]["finding"], found[GROWTH]["word"]) == (
        "uml against lxc: held by the link",
        "not decided: held by the link",
    )
    assert found[LEVEL]["word"] == "confirmed", "the link makes the faster one no faster"


def test_margins_are_those_of_what_is_compared(tmp_path: Path) -> None:
    store = jobs(tmp_path / "jobs.sqlite", {"lxc": 0.0, "uml": 0.0})
    with open_store(store) as opened:
        for block in range(1, 4):
            other = taken([4.0], platform="lxc", guests=1, working="one", block=block)
            asked = other.requested.model_copy(update={"job": "memory-read", "size": 8})
            plan = other.plan.model_copy(update={"margin_ratio": 0.05, "name": "another"})
            more = {"requested": asked, "plan": plan, "job_id": f"{other.job_id}-o"}
            opened.save_experiment(JOB, other.model_copy(update=more))
    assert concluded(store, tmp_path / "out")[LEVEL]["word"] == "not confirmed", "another plan has another margin"


def test_two_blocks_tell_a_growth_as_it_is(tmp_path: Path) -> None:
    store = jobs(
        tmp_path / "jobs.sqlite", {"lxc": 0.0, "uml": 0.1}, blocks_of=dict.fromkeys(("host", "lxc", "uml"), range(1, 3))
    )
    finding = concluded(store, tmp_path / "out")[GROWTH]["finding"]
    # 1.5 / 1.1, as uml's time grows from 1.1 to 1.5 of its own.
    assert finding.startswith("uml against lxc: +36.")
    assert finding.endswith(" % (fewer than 3 blocks)")


def test_guests_that_send_confirm_or_not_what_is_said_of_xen(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'flows.sqlite'}"
    with open_store(store) as opened:
        for block in range(1, 5):
            for number, (platform, packets) in enumerate((("mine", 4000 + block), ("other", 3000 + block))):
                end = f"20260101T000000000000Z-0{number}0{block}"
                one = flow_record([[packets] * 4], platform=platform, block=block, flow_id=f"{end}1")
                uneven = 1 if platform == "mine" else 2
                two = flow_record([[2000] * 4, [2000 * uneven] * 4], platform=platform, block=block, flow_id=f"{end}2")
                for record in (one, two):
                    begun = {"started_at": drawn_at(block, platform, len(record.senders))}
                    opened.save_experiment(FLOW, record.model_copy(update=begun))
    words = ("--reference", "mattos", "--reference-map", "mine=xen")
    found = rows(reported(store, tmp_path / "out", *words), "mattos-abstract-network")
    (best,) = [row for row in found if row["conclusion"].startswith("Xen introduces")]
    assert (best["about"], best["word"]) == ("mine, from the guest", "confirmed")
    assert best["finding"].startswith("compared with other: +33.")
    fair = {row["about"].partition(":")[0]: row for row in found if row["conclusion"].endswith("is fair")}
    assert fair["mine"]["finding"].endswith(", of a link that was not full"), "there was nothing to be shared"
    assert {row["word"] for row in fair.values()} == {"not decided"}
    assert "other, of which the paper does not say it" in fair
    other = ("--reference", "mattos", "--reference-map", "other=xen")
    found = rows(reported(store, tmp_path / "worse", *other), "mattos-abstract-network")
    assert [row["word"] for row in found if row["conclusion"].startswith("Xen introduces")] == ["not confirmed"]


@pytest.mark.parametrize(("share", "word"), [(1, "confirmed"), (2, "not confirmed")])
def test_sharing_is_fair_or_not_where_a_link_is_full(tmp_path: Path, share: int, word: str) -> None:
    store, draw = f"sqlite:///{tmp_path / 'flows.sqlite'}", random.Random(7)
    with open_store(store) as opened:
        for block in range(1, 5):
            made = flow_record(
                [[2000] * 4, [2000 * share] * 4],
                platform="xen",
                block=block,
                flow_id=f"20260101T000000000000Z-0000{block}",
            )
            line = {"line_ratio": 0.99 * draw.gauss(1, 0.0002)}
            opened.save_experiment(FLOW, made.model_copy(update=line))
            bare = flow_record(
                [[2000] * 4, [2000] * 4], platform="host", block=block, flow_id=f"20260101T000000000000Z-1000{block}"
            )
            opened.save_experiment(FLOW, bare.model_copy(update={**line, "attestation": {"driver": "raw"}}))
    found = rows(reported(store, tmp_path / "out", "--reference", "mattos"), "mattos-abstract-network")
    (row,) = [row for row in found if row["conclusion"].endswith("is fair")]
    assert (row["about"], row["word"]) == ("xen: 2 guests that send", word)


def test_a_best_that_delivered_nothing_now_and_then_is_not_the_best(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'flows.sqlite'}"
    with open_store(store) as opened:
        for block in range(1, 9):
            for number, (platform, packets) in enumerate((("xen", 4000 + block), ("lxc", 3000 + block))):
                end = f"20260101T000000000000Z-0{number}0{block}"
                made = flow_record([[packets] * 4], platform=platform, block=block, flow_id=end)
                changes: dict[str, Any] = {"started_at": drawn_at(block, platform, 1)}
                if platform == "xen" and block > 4:
                    none = Reason(code="no_packets", detail="none", evidence=None, follows=None)
                    changes["verdict"] = made.verdict.model_copy(update={"status": "invalid", "reasons": (none,)})
                opened.save_experiment(FLOW, made.model_copy(update=changes))
    found = rows(reported(store, tmp_path / "out", "--reference", "mattos"), "mattos-abstract-network")
    (row,) = [row for row in found if row["conclusion"].startswith("Xen introduces")]
    assert (row["finding"], row["word"]) == ("compared with lxc: trials left out by no_packets", "not decided")


def senders(path: Path, packets_of: dict[str, int], *, void: str = "", line_ratio: float | None = None) -> str:
    """Of one guest each; ``void``: a platform of which no trial is valid, for a reason that is not its outcome."""
    store = f"sqlite:///{path}"
    with open_store(store) as opened:
        for block in range(1, 9):
            for number, (platform, packets) in enumerate(packets_of.items()):
                end = f"20260101T000000000000Z-0{number}0{block}"
                made = flow_record([[packets + block] * 4], platform=platform, block=block, flow_id=end)
                changes: dict[str, Any] = {"started_at": drawn_at(block, platform, 1)}
                if platform == void:
                    why = Reason(code="unseen_cpu", detail="so", evidence=None, follows=None)
                    changes["verdict"] = made.verdict.model_copy(update={"status": "suspect", "reasons": (why,)})
                if line_ratio is not None:
                    changes["line_ratio"] = line_ratio
                opened.save_experiment(FLOW, made.model_copy(update=changes))
    return store


def best(store: str, out: Path, *words: str) -> list[tuple[str, str, str]]:
    found = rows(reported(store, out, "--reference", "mattos", *words), "mattos-abstract-network")
    xens = (row for row in found if row["conclusion"].startswith("Xen introduces"))
    return [(row["about"], row["finding"], row["word"]) for row in xens]


def test_a_rival_of_which_nothing_is_valid_leaves_open_which_is_best(tmp_path: Path) -> None:
    ((_, finding, word),) = best(
        senders(tmp_path / "flows.sqlite", {"xen": 4000, "lxc": 3000, "uml": 5000}, void="uml"), tmp_path / "out"
    )
    assert word == "not decided"
    assert "uml: without valid trials: uml" in finding


def test_two_platforms_that_are_the_papers_best_are_not_beside_each_other(tmp_path: Path) -> None:
    store = senders(tmp_path / "flows.sqlite", {"old": 3500, "new": 4000, "lxc": 3000})
    found = best(store, tmp_path / "out", "--reference-map", "old=xen,new=xen")
    assert {(about, word) for about, _, word in found} == {
        ("old, from the guest", "confirmed"),
        ("new, from the guest", "confirmed"),
    }


def test_of_two_that_fill_the_link_neither_is_best(tmp_path: Path) -> None:
    store = senders(tmp_path / "flows.sqlite", {"xen": 4000, "lxc": 3900}, line_ratio=0.96)
    assert [word for *_, word in best(store, tmp_path / "out")] == ["not decided: held by the link"]


def test_senders_of_other_nights_do_not_confirm_that_xen_is_best(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'flows.sqlite'}"
    with open_store(store) as opened:
        for number, (platform, packets) in enumerate((("xen", 4000), ("lxc", 3000))):
            for block in range(1 + 5 * number, 6 + 5 * number):
                end = f"20260101T000000000000Z-{number}{block:02}"
                made = flow_record([[packets + block] * 4], platform=platform, block=block, flow_id=end)
                opened.save_experiment(FLOW, made)
    found = rows(reported(store, tmp_path / "out", "--reference", "mattos"), "mattos-abstract-network")
    assert [row["word"] for row in found if row["conclusion"].startswith("Xen introduces")] == ["not decided"]


@pytest.mark.parametrize(
    ("lost", "sent", "held"), [(1000, 1.2, "confirmed"), (0, 1.2, "not decided"), (1000, 0.8, "not decided")]
)
def test_routers_whose_sum_falls_confirm_what_is_said_of_several_where_they_were_sent_enough(
    tmp_path: Path, lost: int, sent: float, held: str
) -> None:
    store, draw = f"sqlite:///{tmp_path / 'routes.sqlite'}", random.Random(4)
    with open_store(store) as opened:
        for block in range(1, 9):
            for guests in (1, 4):
                each = round(20_000 * (1.0 if guests == 1 else 0.7 / 4) * draw.gauss(1, 0.005))
                made = route_record([each] * guests, block=block, lost_inside=[lost] * guests)
                came = (made.in_packets or 0) + lost * guests
                few = sent if guests == 4 else 2.0
                routers = tuple(
                    one.model_copy(update={"sent_pps": 20_000 / guests / 0.1 * few}) for one in made.routers
                )
                opened.save_experiment(ROUTE, made.model_copy(update={"in_packets": came, "routers": routers}))
    found = rows(reported(store, tmp_path / "out", "--reference", "mattos"), "mattos-abstract-routers")
    assert [row["word"] for row in found] == [held]
    assert "container, of which the paper does not say it: 4 routers" in found[0]["about"]
    assert found[0]["finding"].startswith("−30.")


@pytest.mark.parametrize(("mib", "word"), [(60, "confirmed"), (20, "not decided")])
def test_memory_of_guests_that_differs_confirms_that_tools_do(tmp_path: Path, boots: Any, mib: int, word: str) -> None:
    store = f"sqlite:///{tmp_path / 'boots.sqlite'}"
    with open_store(store) as opened:
        for record in boots({"lxc": 20, "uml": mib}):
            opened.save_experiment(BOOT, record)
    (row,) = rows(reported(store, tmp_path / "out", "--reference", "quetier"), "quetier-abstract-memory")
    assert (row["about"], row["word"]) == ("memory of each guest, hot start", word)
    assert row["finding"].startswith("uml against lxc: +40." if mib == 60 else "uml against lxc: ")


def test_memory_is_what_the_machine_has_left_by_who_knows_that(tmp_path: Path, boots: Any) -> None:
    """The first domain of Xen sees nothing of what its guests are given."""
    store = f"sqlite:///{tmp_path / 'boots.sqlite'}"
    with open_store(store) as opened:
        for record in boots({"lxc": 20, "xen": 64}):
            if record.requested.platform == "xen" and record.memory is not None:
                free, less = 2**34, record.memory.used_bytes or 0
                told = {
                    "used_bytes": 0,
                    "hypervisor_command": "xl info",
                    "hypervisor_free_before_bytes": free,
                    "hypervisor_free_after_bytes": free - less,
                    "hypervisor_bytes": less,
                }
                record = record.model_copy(update={"memory": record.memory.model_copy(update=told)})
            opened.save_experiment(BOOT, record)
    (row,) = rows(reported(store, tmp_path / "out", "--reference", "quetier"), "quetier-abstract-memory")
    assert row["word"] == "confirmed"
    assert row["finding"].startswith("xen against lxc: +44.")


def test_memory_of_two_blocks_decides_nothing_and_says_why(tmp_path: Path, boots: Any) -> None:
    store = f"sqlite:///{tmp_path / 'boots.sqlite'}"
    with open_store(store) as opened:
        for record in boots({"lxc": 20, "uml": 60}):
            if record.plan.block < 3:
                opened.save_experiment(BOOT, record)
    found = rows(reported(store, tmp_path / "out", "--reference", "quetier"), "quetier-abstract-memory")
    assert [(row["finding"], row["word"]) for row in found] == [("uml against lxc: too few blocks", "not decided")]


def test_memory_of_a_tool_that_did_not_start_or_not_always_decides_nothing(tmp_path: Path, boots: Any) -> None:
    def void(record: BootRecord, code: str) -> BootRecord:
        why = Reason(code=code, detail="so", evidence=None, follows=None)
        return record.model_copy(
            update={"verdict": record.verdict.model_copy(update={"status": "invalid", "reasons": (why,)})}
        )

    for name, blocks, finding in (
        ("all", 11, "xen against lxc: without valid trials: xen; xen against uml: without valid trials: xen"),
        ("some", 4, "xen against lxc: trials left out by swapped; xen against uml: trials left out by swapped"),
    ):
        store = f"sqlite:///{tmp_path / name}.sqlite"
        with open_store(store) as opened:
            for record in boots({"lxc": 20, "uml": 60, "xen": 90}):
                is_void = record.requested.platform == "xen" and record.plan.block < blocks
                opened.save_experiment(BOOT, void(record, "swapped") if is_void else record)
        (row,) = rows(reported(store, tmp_path / name, "--reference", "quetier"), "quetier-abstract-memory")
        assert row["word"] == "not decided"
        assert row["finding"].endswith(finding)


@pytest.fixture
def boots() -> Any:
    """Starts of 1, 2 and 5 guests, each of which takes so many MiB; ten blocks."""
    import json

    from support.boot_records import boot_data

    def made(mib_of: dict[str, int]) -> list[BootRecord]:
        draw, records = random.Random(6), list[BootRecord]()
        for block in range(1, 11):
            for platform, mib in mib_of.items():
                for guests in (1, 2, 5):
                    number = len(records)
                    data = boot_data([0.1 * n for n in range(1, guests + 1)])
                    data["boot_id"] = f"20261123T0909{number % 60:02}Z-{number:06x}"
                    data["started_at"] = drawn_at(block, platform, guests)
                    data["plan"] |= {"block": block, "hash": f"boot-{number}"}
                    data["requested"] |= {"platform": platform, "start": "hot", "guests": guests}
                    data["memory"] |= {"used_bytes": round(mib * 2**20 * guests * draw.gauss(1, 0.01))}
                    records.append(BootRecord.model_validate_json(json.dumps(data), strict=True))
        return records

    return made
