"""A plan in blocks as it is carried out: its pilot, whole set-ups, what breaks one, resume, growth, time to stop."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labconsole.cli.commands.replay.execution import _tell
from labconsole.contracts.ports import StoredTrial
from labconsole.engine.execution.blocks import Pilot, stored_blocks
from labconsole.engine.execution.execution import PlanExecution
from labconsole.engine.execution.pending import load_plan_state
from labconsole.engine.execution.progress import ExecutionStatus, Progress, TrialState
from labconsole.engine.trial.platform import BREAKING
from labconsole.errors import AgentError, ConfigError, NodeLost
from labconsole.model.plan.execution_options import INVALID_CODES
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import Plan
from support.execution_script import Script, execute, left_to_take, plan_of, run
from support.fake_session import make_inventory

PAIR = """\
plan: pair
platforms: [raw, container]
frame_sizes: [64]
targets: [10Mbit]
duration_s: 1
set_ups: 2
repetitions: 2
order: as-listed
settle_s: 0
max_redo: 1
"""
FORWARDING = """\
plan: beside
platforms: [raw, container]
frame_sizes: [64]
targets: [10Mbit, 20Mbit, max]
backgrounds: [none, idle, forwarding-50]
duration_s: 1
set_ups: 2
settle_s: 0
max_redo: 1
"""
SETTLED = [(block, point, r) for block in (1, 2) for point in (0, 1) for r in (1, 2)]


def valid(trial, request) -> str:
    return "valid"


def written(text: str, directory: Path) -> Path:
    path = directory / "p.yaml"
    path.write_text(text)
    return path


def by_set_up(script: Script) -> dict[str | None, list[tuple[int | None, int, int]]]:
    """The places that every setting-up holds."""
    found: dict[str | None, list[tuple[int | None, int, int]]] = {}
    for trial in script.held:
        if trial.block:
            found.setdefault(trial.set_up, []).append((trial.block, trial.point, trial.repetition))
    return found


def request_of_ref(text: str, directory):
    plan = plan_of(text, directory)
    return lambda ref: plan.every_point[ref.point].request


def entered(plan: Plan, script: Script) -> set[tuple[int | None, int, int]]:
    """The places that count, the pilot's too."""
    return {(t.block, t.point, t.repetition) for t in stored_blocks(plan, script.held).done}


def test_every_platform_of_a_block_is_set_up_anew_and_records_say_where_they_belong(tmp_path):
    async def body():
        script, plan = Script(valid), plan_of(PAIR, tmp_path)
        outcome = await execute(PlanExecution(plan, script), script)
        assert (outcome.taken, outcome.complete, script.asked) == (8, True, SETTLED)
        assert by_set_up(script) == {
            f"set-up-{number}": SETTLED[2 * number - 2 : 2 * number] for number in (1, 2, 3, 4)
        }
        assert [(r.block, r.repetition, r.position) for r in script.refs] == [
            (block, r, n) for n, (block, _, r) in enumerate(SETTLED, 1)
        ]
        assert {(r.set_ups, r.repetitions, r.set_up_trials, r.attempt, r.attempts, r.order) for r in script.refs} == {
            (2, 2, 2, 1, 2, "as-listed")
        }
        assert set(script.roles) == {"measured"}

    run(body)


def test_the_same_platform_twice_in_a_row_is_set_up_twice(tmp_path):
    async def body():
        script = Script(valid)
        await execute(PlanExecution(plan_of(PAIR.replace("[raw, container]", "[raw]"), tmp_path), script), script)
        assert list(by_set_up(script)) == ["set-up-1", "set-up-2"]

    run(body)


SHAPES = PAIR.replace("[raw, container]", "[container]") + "sources: [1, 3]\nbackgrounds: [idle]\n"


def test_points_that_need_different_second_guests_are_refused_in_one_set_up(tmp_path):
    with pytest.raises(ConfigError) as refused:
        plan_of(SHAPES, tmp_path)
    assert (refused.value.key, refused.value.value) == ("sources[1]", 3)
    assert (
        "container with background idle to be set up again within one set-up, because the second guest would be connected differently (point 0 with "
        "1 source: with stream s3, point 1 with 3 sources: without a stream of its own)" in str(refused.value)
    )
    assert "put the others in a separate plan" in str(refused.value)
    plan_of(SHAPES.replace("set_ups: 2\n", ""), tmp_path)
    plan_of(SHAPES.replace("[idle]", "[none]"), tmp_path)


def test_points_that_leave_the_second_guest_its_stream_share_a_set_up(tmp_path):
    async def body():
        script = Script(valid)
        outcome = await execute(PlanExecution(plan_of(SHAPES.replace("[1, 3]", "[1, 2]"), tmp_path), script), script)
        assert (outcome.complete, outcome.taken, script.set_ups) == (True, 8, 2)

    run(body)


def test_a_set_up_of_which_the_shape_changes_breaks_off(tmp_path):
    """What check_plan() keeps from happening."""

    async def body():
        plan = load_plan(written(SHAPES, tmp_path)).resolved(make_inventory())
        script = Script(valid)
        outcome = await execute(PlanExecution(plan, script), script)
        assert "the platform had to be set up again in between" in outcome.refused[0][0]

    run(body)


def test_the_pilot_fixes_load_and_reference_for_every_block(tmp_path):
    async def body():
        script, plan = Script(valid), plan_of(FORWARDING, tmp_path)
        script.rates = {point: 1000.0 + 10 * (point % 3) for point in range(18)} | {4: 5000.0, 3: 4000.0, 15: 200.0}
        outcome = await execute(PlanExecution(plan, script), script)
        assert (outcome.complete, outcome.taken) == (True, plan.trials)
        pilot = len(plan.pilot)
        assert script.roles == ["pilot"] * pilot + ["measured"] * (plan.trials - pilot)
        fixed = {ref.point: ref.fixed for ref in script.refs[pilot:]}
        assert {point: f.maximum_target_bps for point, f in fixed.items()} == {
            point: 20_000_000 if point in (3, 4, 5) else "max" for point in range(18)
        }
        # Points 3 to 5: raw beside idle, of which point 4 forwarded most; 12 to 14: container beside idle.
        assert {point: f.reference_pps for point, f in fixed.items() if f.reference_pps} == {
            **dict.fromkeys((6, 7, 8), 5000.0),
            **dict.fromkeys((15, 16, 17), 1020.0),
        }
        asked = dict(zip([(r.block, r.point) for r in script.refs], script.references, strict=True))
        assert {reference.measured_pps for (_, point), reference in asked.items() if point in (6, 7, 8)} == {5000.0}
        runs = {t.point: t.run_id for t in script.held if t.block == 0}
        assert set(fixed[7].run_ids) == {runs[point] for point in (3, 4, 5, 6, 7, 8)}
        assert all(ref.fixed.maximum_target_bps is None for ref in script.refs[:pilot])

    run(body)


def test_what_is_stored_later_does_not_move_what_the_pilot_fixed(tmp_path):
    async def body():
        script, plan = Script(valid), plan_of(FORWARDING, tmp_path)
        await execute(PlanExecution(plan, script), script)
        before = load_plan_state(plan, script).pilot.fixed(7)
        script.held.append(
            StoredTrial(4, 1, "run99999", "valid", 0.0, 0, "other", None, 1, 2, 9e9)  # another store's pilot, merged
        )
        assert load_plan_state(plan, script).pilot.fixed(7) == before
        longer = plan_of(FORWARDING.replace("set_ups: 2", "set_ups: 3"), tmp_path)
        script.asked.clear()
        assert (await execute(PlanExecution(longer, script), script)).taken == 18
        assert {block for block, _, _ in script.asked} == {3}
        assert script.refs[-1].fixed.run_ids == script.refs[20].fixed.run_ids or script.refs[-1].point != 20

    run(body)


LOADS = PAIR.replace("[raw, container]", "[raw]").replace("[10Mbit]", "[10Mbit, 20Mbit]").replace("redo: 1", "redo: 2")


def test_a_pilot_trial_that_gave_no_run_once_and_stays_invalid_is_given_up_for_good(tmp_path):
    async def body():
        script, plan = Script(), plan_of(LOADS, tmp_path)
        script.rates = {0: 900.0, 1: 2000.0}
        script.will_end("valid", AgentError("uut", "no"), "invalid", "invalid", *["valid"] * 8)
        await execute(PlanExecution(plan, script), script)
        assert [(r.point, r.attempt, r.attempts) for r in script.refs[:4]] == [
            (0, 1, 3),
            (1, 1, 3),
            (1, 1, 2),
            (1, 2, 2),
        ]
        assert {r.fixed.maximum_target_bps for r in script.refs if r.block} == {10**7}
        assert left_to_take(plan, script.held) == []
        longer = plan_of(LOADS.replace("set_ups: 2", "set_ups: 3"), tmp_path)
        script.will_end(*["valid"] * 4)
        assert (await execute(PlanExecution(longer, script), script)).taken == 4
        assert {r.fixed.maximum_target_bps for r in script.refs if r.block} == {10**7}

    run(body)


def test_what_stored_blocks_say_was_fixed_stays_fixed_beside_another_pilot(tmp_path):
    async def body():
        script, plan = Script(valid), plan_of(FORWARDING, tmp_path)
        await execute(PlanExecution(plan, script), script)
        before = [load_plan_state(plan, script).pilot.fixed(point) for point in range(18)]
        asked = load_plan_state(plan, script).pilot.reference(7)
        earlier = [StoredTrial(p, 1, f"a{p}", "valid", 0.0, 0, "other", None, 1, 2, 9e9 - p) for p in range(18)]
        script.held += earlier  # another store's pilot, merged, taken before ours
        pilot = load_plan_state(plan, script).pilot
        assert [pilot.fixed(point) for point in range(18)] == before
        assert pilot.reference(7) == asked
        script.held = [trial for trial in script.held if trial.block] + earlier
        assert load_plan_state(plan, script).pilot.reference(7).measured_pps == asked.measured_pps, (
            "the pilot's own are gone"
        )

    run(body)


def test_a_forwarding_share_without_an_idle_point_has_one_in_the_pilot_alone(tmp_path):
    async def body():
        text = FORWARDING.replace("none, idle, ", "").replace("[10Mbit, 20Mbit, max]", "[max]")
        script, plan = Script(valid), plan_of(text, tmp_path)
        script.rates = {2: 3000.0, 3: 700.0}
        outcome = await execute(PlanExecution(plan, script), script)
        assert outcome.complete
        assert {trial[1] for trial in script.asked[:2]} == {2, 3}, "the pilot's own points come after the plan's two"
        assert {(r.point, r.fixed.reference_pps) for r in script.refs if r.block} == {(0, 3000.0), (1, 700.0)}

    run(body)


def test_a_reference_that_the_pilot_did_not_find_refuses_what_is_a_share_of_it_and_nothing_else(tmp_path):
    async def body():
        idle_of_raw = {3, 4, 5}
        script = Script(lambda trial, request: "invalid" if trial[0] == 0 and trial[1] in idle_of_raw else "valid")
        plan = plan_of(FORWARDING, tmp_path)
        outcome = await execute(PlanExecution(plan, script), script)
        words = " ".join(why for why, _ in outcome.refused)
        assert "no maximum of raw with an idle guest, which forwarding-50 is a share of" in words
        assert "the pilot has no usable trial at 64 B with 1 source" in words
        assert {point for block, point, _ in script.asked if block} == set(range(18)) - set(range(3, 9))

    run(body)


def pilots_of(script: Script) -> list[int]:
    """The points that the pilot took, an attempt each; from here on anew."""
    found = [point for block, point, _ in script.asked if block == 0]
    script.asked.clear()
    return found


def test_the_next_replay_tries_a_reference_again_that_was_given_up_at_max_beside_loads_that_stand(tmp_path):
    """Point 5 is raw beside idle at max, 6 to 8 forward a share of what it gives."""

    async def body():
        cable = "out"
        script = Script(lambda trial, request: "invalid" if trial[:2] == (0, 5) and cable == "out" else "valid")
        script.rates, plan = {3: 1500.0, 4: 2500.0, 5: 4000.0}, plan_of(FORWARDING, tmp_path)
        outcome = await execute(PlanExecution(plan, script), script)
        assert "no maximum of raw with an idle guest" in " ".join(why for why, _ in outcome.refused)
        assert pilots_of(script).count(5) == 2, "as often as max_redo says, and not for ever"
        outcome = await execute(PlanExecution(plan, script), script)
        assert (pilots_of(script), outcome.taken, outcome.complete) == ([5, 5], 1, False)
        cable = "in"
        outcome = await execute(PlanExecution(plan, script), script)
        assert (sorted(pilots_of(script)), outcome.complete, outcome.taken) == ([5, 6, 7, 8], True, 4 + 2 * 3)
        assert {(r.point, r.fixed.reference_pps) for r in script.refs if r.block and r.point in (6, 7, 8)} == {
            (point, 4000.0) for point in (6, 7, 8)
        }
        assert {r.fixed.maximum_target_bps for r in script.refs if r.block and r.point in (3, 4, 5)} == {20_000_000}
        assert left_to_take(plan, script.held) == []

    run(body)


@pytest.mark.parametrize("seed", range(6))
def test_a_reference_is_measured_at_max_whatever_a_lower_load_loses_before(tmp_path, seed):
    """Whether 20 Mbit/s (point 4), which no block takes, is in the pilot depends on the seed, and moves nothing."""

    async def body():
        text = FORWARDING + f"seed: {seed}\nstop: {{raising: {{loss_ratio: 0.5}}}}\n"
        script, plan = Script(valid), plan_of(text, tmp_path)
        script.losses, script.rates = {(3, 1): 0.9}, {3: 100.0, 4: 9000.0, 5: 5000.0}
        execution = PlanExecution(plan, script)
        outcome = await execute(execution, script)
        assert (outcome.complete, outcome.refused) == (True, [])
        assert outcome.taken + outcome.left_out == execution.total
        assert {point for block, point, _ in script.asked if block} == set(range(18)) - {4, 5}
        assert pilots_of(script).count(5) == 1
        assert {r.fixed.reference_pps for r in script.refs if r.block and r.point in (6, 7, 8)} == {5000.0}
        behind = {run for r in script.refs if r.block and r.point in (6, 7, 8) for run in r.fixed.run_ids}
        assert {t.point for t in script.held if t.run_id in behind} == {3, 5, 6, 7, 8}
        assert left_to_take(plan, script.held) == []

    run(body)


@pytest.mark.parametrize("code", ["lost_at_source", "lost_at_sink", "instrument_limited"])
def test_the_pilot_reads_no_maximum_from_a_run_that_says_nothing_of_its_platform(tmp_path, code):
    async def body():
        text = PAIR.replace("[10Mbit]", "[10Mbit, 20Mbit, max]")
        script, plan = Script(valid), plan_of(text, tmp_path)
        script.rates = {0: 900.0, 1: 2000.0, 2: 7000.0, 3: 900.0, 4: 2000.0, 5: 7000.0}
        script.doubts = {(0, 2): code, (0, 4): "clock_stepped"}
        outcome = await execute(PlanExecution(plan, script), script)
        assert outcome.complete
        assert {(r.point < 3, r.fixed.maximum_target_bps) for r in script.refs if r.block} == {
            (True, 20_000_000),
            (False, "max"),
        }
        behind = {run for r in script.refs if r.block and r.point < 3 for run in r.fixed.run_ids}
        assert {t.point for t in script.held if t.run_id in behind} == {0, 1}
        assert left_to_take(plan, script.held) == []

    run(body)


def test_a_setting_of_which_no_pilot_run_says_anything_is_measured_without_a_fixed_load(tmp_path):
    async def body():
        script, plan = Script(valid), plan_of(PAIR.replace("[10Mbit]", "[10Mbit, max]"), tmp_path)
        script.doubts = {(0, 0): "instrument_limited", (0, 1): "instrument_limited"}
        assert (await execute(PlanExecution(plan, script), script)).complete
        assert {r.fixed.maximum_target_bps for r in script.refs if r.block and r.point < 2} == {None}

    run(body)


def test_a_reference_beyond_the_instrument_is_none_and_tried_again(tmp_path):
    async def body():
        script, plan = Script(valid), plan_of(FORWARDING, tmp_path)
        script.rates, script.doubts = {3: 1500.0, 4: 2500.0, 5: 4000.0}, {(0, 5): "lost_at_sink"}
        execution = PlanExecution(plan, script)
        outcome = await execute(execution, script)
        assert "a share of; at max packets were lost at the sink" in " ".join(why for why, _ in outcome.refused)
        assert pilots_of(script).count(5) == 1
        script.doubts = {}
        again = PlanExecution(plan, script)
        outcome = await execute(again, script)
        assert (sorted(pilots_of(script)), outcome.complete, outcome.left_out) == ([5, 6, 7, 8], True, 0)
        assert outcome.skipped + outcome.taken == again.total
        assert {r.fixed.reference_pps for r in script.refs if r.block and r.point in (6, 7, 8)} == {4000.0}
        assert left_to_take(plan, script.held) == []

    run(body)


def test_without_forwarding_points_asked_for_no_reference_is_tried_again(tmp_path):
    async def body():
        script, plan = Script(valid), plan_of(FORWARDING, tmp_path)
        script.doubts, idle = {(0, 5): "instrument_limited"}, frozenset({3, 4, 5})
        outcome = await execute(PlanExecution(plan, script, only=idle), script)
        assert (pilots_of(script).count(5), outcome.complete) == (1, True)
        assert left_to_take(plan, script.held, idle) == []
        again = await execute(PlanExecution(plan, script, only=idle), script)
        assert (again.taken, again.left_out, again.complete, pilots_of(script)) == (0, 0, True, [])
        assert (5, 0) in left_to_take(plan, script.held, frozenset({6})), "a share of it is asked for"

    run(body)


def test_what_the_sink_loses_leaves_no_load_of_the_platform_out(tmp_path):
    async def body():
        loads = PAIR.replace("[raw, container]", "[raw]").replace("[10Mbit]", "[10Mbit, 20Mbit, 30Mbit]")
        script, plan = Script(valid), plan_of(loads + "stop: {raising: {loss_ratio: 0.1}}\n", tmp_path)
        script.losses, script.uut_losses = {(0, 1): 0.4, (1, 1): 0.4}, {(0, 1): 0.01, (1, 1): 0.39}
        await execute(PlanExecution(plan, script), script)
        assert {point for block, point, _ in script.asked if block} == {0, 1}

    run(body)


@pytest.mark.parametrize(
    ("loss", "at_uut", "codes", "lost"),
    [
        (0.3, 0.1, (), 0.1),
        (0.3, None, (), 0.3),
        (0.3, None, ("lost_at_sink",), None),
        (0.3, 0.1, ("lost_at_sink",), 0.1),
        (0.0, 0.1, (), 0.0),  # its port's counter lags; all arrived
        (None, 0.1, (), 0.1),
        (None, None, (), None),
    ],
)
def test_what_a_platform_lost_is_what_neither_source_nor_sink_did(loss, at_uut, codes, lost):
    trial = StoredTrial(0, 1, "a", "suspect", loss, uut_loss_ratio=at_uut, reason_codes=codes)
    assert trial.lost_ratio == lost


@pytest.mark.parametrize(
    ("lost_of_all", "lost_at_uut", "offered", "lost"),
    [
        (3000, -20, 100_000, -20),  # its own frames: spanning tree, LLDP, ARP
        (3000, -21, 100_000, None),
        (3000, -2000, 100_000, None),
        (-2000, None, 100_000, None),
        (-2000, 500, 100_000, 500),  # what came to the sink beside the rest is no bound of what the unit lost
        (0, -100, 1_000_000, -100),
        (0, -101, 1_000_000, None),
        (0, 100_001, 100_000, None),
        (3000, -1, None, None),
    ],
)
def test_frames_of_its_own_leave_open_what_a_platform_lost(lost_of_all, lost_at_uut, offered, lost):
    of = offered or 100_000
    at_uut = None if lost_at_uut is None else lost_at_uut / of
    trial = StoredTrial(0, 1, "a", "valid", lost_of_all / of, uut_loss_ratio=at_uut, offered_packets=offered)
    assert trial.lost_ratio == (None if lost is None else lost / of)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_runs_of_a_pilots_trial_the_first_counts_in_whichever_order_they_are_noted(order, tmp_path):
    loads = PAIR.replace("[10Mbit]", "[10Mbit, 20Mbit]") + "stop: {raising: {loss_ratio: 0.1}}\n"
    plan = plan_of(loads, tmp_path)
    runs = (
        StoredTrial(0, 1, "first", "suspect", 0.5, 0, rate_pps=1e4, reason_codes=("lost_at_sink",)),
        StoredTrial(0, 1, "second", "valid", 0.5, 0, rate_pps=1e4, uut_loss_ratio=0.5),
    )
    assert (runs[0].lost_ratio, runs[1].lost_ratio) == (None, 0.5)
    pilot = Pilot(plan)
    for index in order:
        pilot.note(runs[index])
    assert pilot.left_out((1, 1)) is None


def test_a_trial_with_frames_of_its_own_is_no_lossless_one(tmp_path):
    async def body():
        loads = PAIR.replace("[raw, container]", "[raw]").replace("[10Mbit]", "[10Mbit, 20Mbit, 30Mbit]")
        script, plan = Script(valid), plan_of(loads + "stop: {lowering: {lossless: 1}}\n", tmp_path)
        script.losses = {(point, 1): 0.02 for point in (0, 1, 2)}
        script.uut_losses = {(0, 1): 0.02, (1, 1): 0.02, (2, 1): -0.05}
        await execute(PlanExecution(plan, script), script)
        assert {point for block, point, _ in script.asked if block} == {0, 1, 2}
        assert left_to_take(plan, script.held) == []

    run(body)


def test_what_the_pilot_leaves_out_no_block_takes_and_set_ups_know_their_size(tmp_path):
    async def body():
        text = (
            PAIR.replace("[10Mbit]", "[10Mbit, 20Mbit, 30Mbit]")
            + "stop: {raising: {loss_ratio: 0.1, repetitions: 3}}\n"
        )
        script, plan = Script(valid), plan_of(text, tmp_path)
        script.losses = {(1, 1): 0.2}  # raw loses at 20 Mbit/s
        outcome = await execute(PlanExecution(plan, script), script)
        assert outcome.complete
        assert (0, 2, 1) not in script.asked
        assert {point for block, point, _ in script.asked if block} == {0, 1, 3, 4, 5}
        assert {(r.point < 3, r.set_up_trials) for r in script.refs if r.block} == {(True, 4), (False, 6)}
        assert {r.fixed.maximum_target_bps for r in script.refs if r.block} <= {10**7, 2 * 10**7}
        assert left_to_take(plan, script.held) == []
        again = PlanExecution(plan, script)
        assert ((await execute(again, script)).taken, again.outcome.left_out) == (0, 1 + 2 * 2)

    run(body)


def test_an_invalid_trial_is_taken_again_in_the_same_set_up(tmp_path):
    async def body():
        script = Script()
        script.will_end("invalid", *["valid"] * 8)
        outcome = await execute(PlanExecution(plan_of(PAIR, tmp_path), script), script)
        assert (outcome.taken, outcome.redone) == (8, 1)
        assert [r.attempt for r in script.refs[:3]] == [1, 2, 1]
        assert {t.set_up for t in script.held if (t.block, t.point) == (1, 0)} == {"set-up-1"}

    run(body)


def test_a_trial_that_stays_invalid_costs_its_place_and_not_the_set_up(tmp_path):
    async def body():
        script, plan = Script(), plan_of(PAIR, tmp_path)
        script.will_end("invalid", "invalid", *["valid"] * 7)
        execution = PlanExecution(plan, script)
        outcome = await execute(execution, script)
        assert (outcome.taken, len(outcome.invalid), script.set_ups) == (8, 1, 4)
        assert execution.grid[0, 1].state is TrialState.INVALID
        again = PlanExecution(plan, script)
        outcome = await execute(again, script)
        assert (outcome.taken, outcome.invalid_before, outcome.complete) == (0, 1, False)
        assert [trial for trial, _ in again.grid.failing()] == [(0, 1)]

    run(body)


def test_a_platform_in_doubt_breaks_its_set_up_which_is_taken_again_whole(tmp_path):
    async def body():
        script, plan = Script(), plan_of(PAIR, tmp_path)
        told: list[Progress] = []
        script.will_end("valid", "broken", *["valid"] * 8)
        execution = PlanExecution(plan, script, told.append)
        outcome = await execute(execution, script)
        assert script.asked == [SETTLED[0], SETTLED[1], *SETTLED]
        assert (outcome.taken, outcome.complete, dict(outcome.verdicts)) == (8, True, {"valid": 8})
        assert [t.set_up for t in stored_blocks(plan, script.held).done][:2] == ["set-up-2", "set-up-2"]
        assert [p.broke for p in told if p.broke] == ["the cable"]
        assert execution.grid[0, 1].redone == 1

    run(body)


def test_the_last_attempt_that_breaks_the_last_trial_leaves_a_whole_set_up(tmp_path):
    async def body():
        script, plan = Script(), plan_of(PAIR.replace("max_redo: 1", "max_redo: 0"), tmp_path)
        script.will_end("valid", "broken", *["valid"] * 6)
        outcome = await execute(PlanExecution(plan, script), script)
        assert (script.asked, outcome.taken, len(outcome.invalid)) == (SETTLED, 8, 1)
        assert left_to_take(plan, script.held) == []

    run(body)


def test_a_set_up_that_breaks_every_time_is_refused_and_the_others_are_taken(tmp_path):
    async def body():
        script, plan = Script(), plan_of(PAIR, tmp_path)
        script.will_end(*["broken"] * 2, *["valid"] * 6)
        outcome = await execute(PlanExecution(plan, script), script)
        assert outcome.refused == [("block 1: raw alone: the cable; it was interrupted 2 times", 2)]
        assert (outcome.taken, {t[:2] for t in script.asked[2:]}) == (6, {(1, 1), (2, 0), (2, 1)})
        script.will_end("valid", "valid")
        assert (await execute(PlanExecution(plan, script), script)).taken == 2

    run(body)


def test_a_platform_that_never_stands_is_left_out_of_every_block(tmp_path):
    async def body():
        script = Script(lambda t, r: AgentError("uut", "does not boot") if r.platform == "raw" else "valid")
        outcome = await execute(PlanExecution(plan_of(PAIR, tmp_path), script), script)
        assert (outcome.taken, [trials for _, trials in outcome.refused]) == (4, [4])
        assert script.asked[:3] == [(1, 0, 1), (1, 0, 1), (1, 1, 1)]

    run(body)


def test_a_lost_node_takes_the_set_up_with_it(tmp_path):
    async def body():
        script, plan = Script(), plan_of(PAIR, tmp_path)
        script.will_end("valid", NodeLost("snk1", "the cable", operation="x"), *["valid"] * 8)
        outcome = await execute(PlanExecution(plan, script), script)
        assert (outcome.taken, script.batches, script.asked) == (8, 2, [*SETTLED[:2], *SETTLED])

    run(body)


def test_a_node_that_is_still_lost_when_the_set_up_comes_again_costs_one_try(tmp_path):
    async def body():
        script, plan = Script(), plan_of(PAIR, tmp_path)
        script.will_end("valid", "broken", NodeLost("snk1", "the cable", operation="x"), *["valid"] * 8)
        outcome = await execute(PlanExecution(plan, script), script)
        assert (outcome.taken, outcome.refused, script.batches) == (8, [], 2)

    run(body)


def test_nothing_forwards_beside_the_pilot_at_a_share_of_something_else(tmp_path):
    async def body():
        script = Script(lambda trial, request: "invalid" if request.background == "idle" else "valid")
        await execute(PlanExecution(plan_of(FORWARDING, tmp_path), script), script)
        assert not any(r.background == "forwarding-50" for r in map(request_of_ref(FORWARDING, tmp_path), script.refs))

    run(body)


def test_attempts_are_counted_in_plans_without_blocks_too(tmp_path):
    async def body():
        script = Script()
        script.will_end("invalid", AgentError("uut", "no"), "invalid", *["valid"] * 6)
        await execute(
            PlanExecution(
                plan_of(PAIR.replace("set_ups: 2\n", "").replace("max_redo: 1", "max_redo: 2"), tmp_path), script
            ),
            script,
        )
        # An attempt that gave no run is none: the attempts of a place count on without a gap.
        assert [(r.point, r.repetition, r.attempt) for r in script.refs[:4]] == [
            (0, 1, 1),
            (0, 1, 1 + 1),
            (0, 1, 1 + 1),
            (0, 2, 1),
        ]

    run(body)


def test_warm_ups_are_taken_in_the_set_up_that_they_are_for(tmp_path):
    async def body():
        script = Script(valid)
        outcome = await execute(PlanExecution(plan_of(PAIR + "warm_up: {duration_s: 0.2}\n", tmp_path), script), script)
        assert (outcome.warm_ups, script.set_ups, script.warm_ups) == (4, 4, [1] * 8)

    run(body)


def test_runs_without_a_block_fill_none_and_runs_of_blocks_fill_no_plan_without(tmp_path):
    old = [StoredTrial(p, r, f"old{p}{r}", "valid") for p in (0, 1) for r in (1, 2)]
    plan, plain = plan_of(PAIR, tmp_path), plan_of(PAIR.replace("set_ups: 2\n", ""), tmp_path)
    assert len(left_to_take(plan, old)) == 8
    assert left_to_take(plain, old) == []
    blocked = [StoredTrial(p, r, f"new{p}{r}", "valid", 0.0, 1, f"s{p}", 2, 1, 2, 1.0) for p in (0, 1) for r in (1, 2)]
    assert len(left_to_take(plain, blocked)) == 4
    assert left_to_take(plan, blocked) == [(0, 3), (0, 4), (1, 3), (1, 4)]
    assert len(left_to_take(plan, blocked[1:])) == 6, "a set-up that lacks a trial is none"


def test_a_set_up_of_runs_from_two_settings_up_is_not_whole(tmp_path):
    plan = plan_of(PAIR, tmp_path)
    two = [StoredTrial(0, r, f"new{r}", "valid", 0.0, 1, f"s{r}", 2, 1, 2, 1.0) for r in (1, 2)]
    assert len(left_to_take(plan, two)) == 8


def test_an_invalid_attempt_that_was_not_the_last_leaves_a_set_up_open(tmp_path):
    plan = plan_of(PAIR, tmp_path)
    for attempt, left in ((1, 8), (2, 6)):
        held = [
            StoredTrial(0, 1, "a", "valid", 0.0, 1, "s", 2, 1, 2, 1.0),
            StoredTrial(0, 2, "b", "invalid", None, 1, "s", 2, attempt, 2, None),
        ]
        assert len(left_to_take(plan, held)) == left


def test_more_repetitions_than_done_blocks_have_are_refused_before_anything_is_touched(tmp_path):
    async def body():
        script = Script(valid)
        await execute(PlanExecution(plan_of(PAIR, tmp_path), script), script)
        more = PlanExecution(plan_of(PAIR.replace("repetitions: 2", "repetitions: 3"), tmp_path), script)
        with pytest.raises(ConfigError, match=r"than blocks 1, 2 had.*gone: raise set_ups instead"):
            await execute(more, script)
        assert (script.batches, more.status) == (1, ExecutionStatus.FAILED)
        fewer = PlanExecution(plan_of(PAIR.replace("repetitions: 2", "repetitions: 1"), tmp_path), script)
        assert (await execute(fewer, script)).taken == 0

    run(body)


@pytest.mark.parametrize("only", [frozenset({1}), frozenset({0})])
def test_one_platform_can_be_taken_alone_and_its_blocks_are_filled_later(tmp_path, only):
    async def body():
        script, plan = Script(valid), plan_of(PAIR.replace("[10Mbit]", "[10Mbit]"), tmp_path)
        execution = PlanExecution(plan, script, only=only)
        outcome = await execute(execution, script)
        assert (outcome.taken, execution.total, {point for _, point, _ in script.asked}) == (4, 4, set(only))
        assert (await execute(PlanExecution(plan, script), script)).taken == 4
        assert entered(plan, script) == set(SETTLED)

    run(body)


def test_a_chosen_platform_brings_the_pilot_that_it_needs_and_no_other(tmp_path):
    async def body():
        script, plan = Script(valid), plan_of(FORWARDING, tmp_path)
        only = frozenset(range(6, 9))  # raw beside forwarding-50
        execution = PlanExecution(plan, script, only=only)
        await execute(execution, script)
        assert sorted(point for block, point, _ in script.asked if block == 0) == list(range(3, 9))
        assert execution.total == 6 + 2 * 3

    run(body)


@pytest.mark.parametrize(
    "stop", ["{after_s: 3}", f"{{at: {datetime.now() - timedelta(days=1):%Y-%m-%d %H:%M}}}"], ids=["after_s", "at"]
)
def test_a_plan_of_which_not_one_block_fits_is_refused_before_anything_is_touched(tmp_path, stop):
    async def body():
        script = Script(valid)
        execution = PlanExecution(plan_of(PAIR + f"stop: {stop}\n", tmp_path), script)
        with pytest.raises(ConfigError, match=r"its next block takes about 0:00:\d\d .*stop later, or make a block"):
            await execute(execution, script)
        assert (script.batches, execution.refusal is not None) == (0, True)

    run(body)


def test_a_plan_that_has_time_for_one_block_begins(tmp_path):
    async def body():
        script = Script(valid)
        await execute(PlanExecution(plan_of(PAIR + "stop: {after_s: 60}\n", tmp_path), script), script)
        assert len(script.held) == 8

    run(body)


@pytest.mark.parametrize(("last", "again"), [((1, 0, 1), 1), ((1, 0, 2), 0), ((2, 1, 1), 1), ((2, 1, 2), 0)])
def test_an_end_inside_a_set_up_tells_how_many_trials_will_be_taken_again(tmp_path, capsys, last, again):
    async def body():
        def answer(trial, request):
            if trial == last:
                execution.finish()
            return "valid"

        script, plan = Script(answer), plan_of(PAIR, tmp_path)
        execution = PlanExecution(plan, script)
        outcome = await execute(execution, script)
        assert outcome.to_retake == again
        assert len(left_to_take(plan, script.held)) == 8 - outcome.taken + again
        _tell(None, execution, outcome, as_json=False)
        words = f"of an interrupted set-up: {again} of the measured trials, which will be repeated"
        assert (words in capsys.readouterr().out) is bool(again)

    run(body)


def test_a_resumed_plan_says_how_many_stored_trials_do_not_count(tmp_path, capsys):
    async def body():
        plan = plan_of(PAIR, tmp_path)

        def end_after_the_first(trial, request):
            first.finish()
            return "valid"

        script = Script(end_after_the_first)
        first = PlanExecution(plan, script)
        assert (await execute(first, script)).taken == 1
        later = Script(valid)
        later.held = script.held
        again = PlanExecution(plan, later)
        outcome = await execute(again, later)
        assert (outcome.taken, outcome.skipped, outcome.redone, outcome.broken_before) == (8, 0, 0, 1)
        _tell(None, again, outcome, as_json=False)
        assert "not counted: 1 of the trials stored before, whose set-up was interrupted" in capsys.readouterr().out

    run(body)


def test_trials_are_announced_with_their_repetition_within_the_block(tmp_path):
    async def body():
        script, plan = Script(valid), plan_of(PAIR, tmp_path)
        await execute(PlanExecution(plan, script), script)
        assert set(script.numbers) == {(1, 2), (2, 2)}

    run(body)


def test_what_breaks_a_set_up_are_reasons_that_make_a_run_invalid():
    assert set(INVALID_CODES) > BREAKING


BLOCKED = [
    PAIR,
    PAIR.replace("as-listed", "blocked-random").replace("[64]", "[64, 500]") + "warm_up: true\n",
    FORWARDING,
    PAIR.replace("[10Mbit]", "[30Mbit, 20Mbit, 10Mbit]") + "stop: {lowering: {lossless: 2}}\n",
    FORWARDING.replace("[10Mbit, 20Mbit, max]", "[10Mbit, 20Mbit]") + "stop: {raising: {loss_ratio: 0.4}}\n",
    FORWARDING + "stop: {raising: {loss_ratio: 0.4}, lowering: {lossless: 1}}\n",
]


@settings(max_examples=80, deadline=None)
@given(shape=st.sampled_from(BLOCKED), seed=st.integers(0, 2**32), only=st.booleans())
def test_blocks_interrupted_anywhere_and_resumed_give_what_unbroken_ones_give(tmp_path_factory, shape, seed, only):
    """Killed, finished, node lost, trials invalid, set-ups broken: the same places, each set-up of one setting-up."""
    # So many attempts that none stays invalid: what the pilot gives up for good is not in an unbroken one.
    plan = plan_of(shape.replace("max_redo: 1", "max_redo: 9"), tmp_path_factory.mktemp("plan"))
    dice = random.Random(seed)
    losses = {(p.index, r): dice.choice([0.0, 0.0, 0.05, 0.5]) for p in plan.every_point for r in (1, 2)}
    rates = {p.index: dice.uniform(1000, 2000) for p in plan.every_point}
    chosen = dice.choice(plan.platforms)
    points = frozenset(p.index for p in plan.points if p.request.platform == chosen) if only else None

    def script_of(answer) -> Script:
        script = Script(answer)
        script.losses, script.rates = losses, rates
        return script

    async def unbroken() -> Script:
        script = script_of(valid)
        await execute(PlanExecution(plan, script, only=points), script)
        return script

    async def broken() -> Script:
        def answer(trial, request):
            chance = dice.random()
            if chance < 0.02:
                raise asyncio.CancelledError  # as kill -9 leaves it: nothing is said to anybody
            if chance < 0.04:
                execution.finish()
            elif chance < 0.06:
                return NodeLost("snk1", "the cable", operation="x")
            elif chance < 0.08:
                return AgentError("uut", "no")
            elif chance < 0.12:
                return "broken"
            elif chance < 0.16:
                return "invalid"
            return dice.choice(["valid", "suspect"])

        script = script_of(answer)
        for _ in range(1000):
            if not left_to_take(plan, script.held, points):
                break
            execution = PlanExecution(plan, script, only=points)
            with suppress(asyncio.CancelledError, NodeLost, AgentError):
                await execute(execution, script)
            assert execution.status in (ExecutionStatus.DONE, ExecutionStatus.STOPPED, ExecutionStatus.FAILED)
        return script

    whole, pieces = asyncio.run(unbroken()), asyncio.run(broken())
    assert entered(plan, pieces) == entered(plan, whole)
    done = stored_blocks(plan, pieces.held).done
    assert len({(t.block, t.point, t.repetition) for t in done}) == len(done), "no trial counts twice"
    ids: dict[tuple[int, tuple[str, str]], set[str | None]] = {}
    for trial in done:
        key = plan.set_up_of((trial.point, plan.number_of(trial.point, trial.block, trial.repetition)))
        if key is not None:
            ids.setdefault(key, set()).add(trial.set_up)
    assert all(len(found) == 1 for found in ids.values())
    assert len(set.union(*ids.values())) == len(ids), "no setting-up serves two"
    for point in range(len(plan.points)):
        ours, theirs = (load_plan_state(plan, script).pilot.fixed(point) for script in (whole, pieces))
        assert (ours.maximum_target_bps, ours.reference_pps) == (theirs.maximum_target_bps, theirs.reference_pps)
