"""Curves over saved runs: which runs make a point, which points a line, and what is told to be left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labconsole.measure.curves import CurveData, CurveSpec
from labconsole.model.design_point import FrameSize
from labconsole.model.record.run import PlanRef, Total, Verdict
from labconsole.model.record.summary import RunSummary
from labconsole.store.records import record_text
from labconsole.store.sql.schema import build_row
from support.store_samples import sample_record


def run(
    number: int = 0, measured: float | None = 100.0, offered: float = 100.0, status: str = "valid", **factors
) -> RunSummary:
    """A summary as the store makes it."""
    loss = None if measured is None else 1 - measured / offered
    record = sample_record(
        number,
        total=Total(
            offered_packets=1000,
            offered_pps=offered,
            offered_bps=offered * 704,
            measured_packets=None,
            measured_pps=measured,
            measured_bps=None if measured is None else measured * 704,
            loss_packets=None,
            loss_ratio=loss,
            forwarding_pps=measured,
            forwarding_bps=None if measured is None else measured * 704,
        ),
        verdict=Verdict(status=status),  # type: ignore[arg-type]
        **factors,
    )
    row = build_row(record, record_text(record), has_series=False)
    del row["record"]
    row["reason_codes"] = ()
    row["target_bps"] = "max" if row["target_bps"] is None else row["target_bps"]
    return RunSummary(**row)


def test_repetitions_make_a_point_with_an_interval_and_targets_make_a_line():
    runs = [run(measured=m, offered=100) for m in (90, 92, 94)]
    runs += [run(measured=m, offered=200, target_bps=200_000_000) for m in (150, 151)]
    made = CurveData(runs).curves(CurveSpec())
    (line,) = made.curves
    assert line.label == "raw 64 B"
    assert [(p.x, p.y.trials, p.y.mean) for p in line.points] == [(100, 3, 92), (200, 2, 150.5)]
    assert line.points[0].y.ci_low == pytest.approx(92 - 4.303 * 2 / 3**0.5, abs=0.01)
    assert line.points[1].y.ci_low is None  # two values carry none
    assert (made.runs, made.left_out, made.unknown, made.pooled) == (5, {}, 0, {})


def test_what_does_not_stand_is_left_out_and_counted():
    made = CurveData([run(), run(status="suspect"), run(status="invalid"), run(measured=None)]).curves(CurveSpec())
    assert made.curves[0].points[0].y.trials == 2
    assert (made.runs, made.suspect, made.left_out, made.unknown) == (2, 1, {"invalid": 1}, 1)


def test_trials_of_a_search_enter_only_where_there_is_nothing_else():
    trial = PlanRef(name="p", hash="search-0123456789abcdef", point=0, repetition=1, seed=1)
    searched = [run(n, measured=500 + n, offered=1000, target_bps=10**6 + n, plan=trial) for n in range(3)]
    assert len(CurveData(searched).curves(CurveSpec()).curves[0].points) == 3
    made = CurveData([*searched, run(9, measured=90)]).curves(CurveSpec(y="maximum"))
    assert [p.y.mean for p in made.curves[0].points] == [90]
    assert (made.runs, made.left_out) == (1, {"trials of searches": 3})


def test_lines_are_made_by_the_chosen_factors_and_what_else_varies_is_told():
    data = CurveData(
        [
            run(),
            run(frame_size_bytes=500),
            run(platform="kvm"),
            run(platform="kvm", background="light", frame_size_bytes=1000),
        ]
    )
    by_both = data.curves(CurveSpec())
    assert [c.label for c in by_both.curves] == ["kvm 64 B", "kvm 1000 B", "raw 64 B", "raw 500 B"]
    assert by_both.pooled == {"background": ("light", "none")}
    by_platform = data.curves(CurveSpec(lines_by=("platform",)))
    assert [(c.label, len(c.points)) for c in by_platform.curves] == [("kvm", 2), ("raw", 2)]
    assert by_platform.pooled == {"size": ("64 B", "500 B", "1000 B"), "background": ("light", "none")}


def test_the_maximum_is_that_of_the_best_target_at_each_number_of_sources():
    runs = []
    for sources in (1, 2, 3):
        for target, measured in ((10**8, 100), (2 * 10**8, 180), ("max", 150)):
            runs += [
                run(measured=measured * sources + n, offered=1000, sources=sources, target_bps=target)
                for n in (0, 1, 2)
            ]
    made = CurveData(runs).curves(CurveSpec(y="maximum"))
    assert made.spec.effective_x == "sources"
    (line,) = made.curves
    assert [(p.x, p.y.mean, p.design.target_bps) for p in line.points] == [
        (1, 181, 2 * 10**8),
        (2, 361, 2 * 10**8),
        (3, 541, 2 * 10**8),
    ]
    over_size = CurveData(runs).curves(CurveSpec(y="maximum", x="size"))
    assert [c.label for c in over_size.curves] == ["raw"]
    assert over_size.pooled == {"sources": ("1 source", "2 sources", "3 sources")}


def test_what_differs_in_its_conditions_is_a_line_of_its_own_and_named_by_what_differs():
    made = CurveData([run(measured=90), run(measured=92), run(measured=50, duration_s=60.0)]).curves(CurveSpec())
    assert [(c.label, c.points[0].y.trials) for c in made.curves] == [("raw 64 B (5 s)", 2), ("raw 64 B (60 s)", 1)]


def test_pilots_and_what_says_nothing_of_the_platform_are_left_out_by_name():
    lost = run(1)
    lost = replace(lost, verdict="suspect", reason_codes=("lost_at_sink",))
    made = CurveData([run(), lost, replace(run(2), role="pilot"), replace(run(3), forwarding_pps=None)]).curves(
        CurveSpec()
    )
    assert made.runs == 1
    assert (sum(made.left_out.values()), made.unknown) == (2, 1)
    assert "packets were lost at the sink, beyond tolerance" in made.left_out


def of_set_up(name: str, measured: list[float], *, at: int, status: str = "valid") -> list[RunSummary]:
    runs = [run(at + place, measured=value, status=status) for place, value in enumerate(measured)]
    return [
        replace(each, set_up=name, block=1, plan_hash="p", started_at=f"2026-11-21T02:45:{at + place:02}.000Z")
        for place, each in enumerate(runs)
    ]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_set_up_that_was_taken_again_does_not_enter_beside_the_one_taken_for_it(turn: int):
    """One run at 50 of the set-up that broke off, three at 100 of the next one: the point shows 100 and not 87.5."""
    runs = [*of_set_up("a", [50], at=1), *of_set_up("b", [100, 100, 100], at=5)]
    made = CurveData(runs[::turn]).curves(CurveSpec())
    (point,) = made.curves[0].points
    assert (point.y.mean, point.y.trials, made.runs) == (100, 3, 3)
    assert made.left_out == {"set-up interrupted": 1}


def test_a_set_up_beside_it_of_another_block_or_platform_is_no_later_one():
    other = [replace(each, block=2) for each in of_set_up("b", [90], at=5)]
    beside = [replace(each, platform="kvm") for each in of_set_up("c", [70], at=7)]
    made = CurveData([*of_set_up("a", [80], at=1), *other, *beside]).curves(CurveSpec())
    assert (made.runs, made.left_out) == (3, {})


def test_a_set_up_was_taken_again_also_where_its_first_trial_is_invalid():
    runs = [*of_set_up("a", [50], at=1), *of_set_up("b", [90], at=5, status="invalid")]
    made = CurveData(runs).curves(CurveSpec())
    assert (made.runs, made.left_out) == (0, {"set-up interrupted": 1, "invalid": 1})


def test_over_a_factor_every_target_has_its_own_line_and_max_is_the_last():
    data = CurveData([run(sources=s, target_bps=t) for s in (1, 2) for t in (10**9, "max", 10**8)])
    made = data.curves(CurveSpec(x="sources", y="loss"))
    assert [c.label for c in made.curves] == ["raw 64 B at 100Mbit", "raw 64 B at 1Gbit", "raw 64 B at max"]
    assert all([p.x for p in c.points] == [1, 2] for c in made.curves)


def test_a_delay_of_1_ns_is_one_target_at_all_sizes():
    runs = [run(frame_size_bytes=size, target_bps=FrameSize(size, False).shortest_delay_bps) for size in (64, 500)]
    curves = CurveData(runs).curves(CurveSpec(x="size", lines_by=("platform",)))
    assert [(curve.label, len(curve.points)) for curve in curves.curves] == [("raw at 1ns", 2)]


def test_bandwidths_and_loss_can_be_drawn():
    data = CurveData([run(measured=90, offered=100)])
    point = data.curves(CurveSpec(unit="bit/s", x="measured", y="offered")).curves[0].points[0]
    assert (point.x, point.y.mean) == (90 * 704, 100 * 704)
    assert data.curves(CurveSpec(y="loss")).curves[0].points[0].y.mean == pytest.approx(0.1)


def test_runs_can_be_added_as_they_come():
    data = CurveData([run(measured=90)])
    assert data.curves(CurveSpec()).curves[0].points[0].y.trials == 1
    data.add([run(measured=92), run(measured=94), run(status="invalid")])
    made = data.curves(CurveSpec())
    assert (made.curves[0].points[0].y.trials, made.curves[0].points[0].y.mean) == (3, 92)
    assert made.left_out == {"invalid": 1}


def test_of_nothing_there_is_nothing():
    made = CurveData().curves(CurveSpec())
    assert (made.curves, made.runs, made.left_out) == ((), 0, {})
