"""Lists the trials that a replay would measure: time, storage and dependencies."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from labconsole.cli.output import print_json_line, print_lines
from labconsole.cli.session_runner import show_set_ups
from labconsole.cli.text.replay import format_h_mm_ss, format_size
from labconsole.engine.execution.blocks import describe_background, first_block, format_block, room_refusal
from labconsole.engine.execution.pending import Dependency, count_requested, dependencies, is_requested, load_plan_state
from labconsole.engine.testbed import Testbed
from labconsole.model.plan.estimate import Estimate, estimate
from labconsole.model.plan.order import PILOT, Trial, configuration, describe_fixed_order
from labconsole.model.plan.plan import Plan
from labconsole.store.writing import RunStore
from labconsole.units import counted, format_count


def dry_run_trials(plan: Plan, only: frozenset[int] | None, session: Testbed[RunStore], *, as_json: bool) -> None:
    """List the trials in their order, with their duration and dependencies."""
    if not plan.grid:
        return
    state = load_plan_state(plan, session, only)
    todo = state.left
    refusal = state.refusal or room_refusal(plan, todo, session.inventory, session.boots_s)
    if refusal is not None:
        raise refusal
    estimated = estimate(plan, session.inventory, session.boots_s, todo)
    _list_trials(plan, todo, as_json=as_json)
    trials = count_requested(plan, only)
    kept = sum(is_requested(plan, trial, only) for trial in state.done)
    needs = dependencies(plan, todo, session, state.pilot)
    show_set_ups((plan.every_point[index].request for index, _ in todo), session.inventory, as_json=as_json)
    if as_json:
        print_json_line(_plan_json(plan, trials, kept, len(todo), estimated, needs))
        return
    commands = [f"{key}: {shlex.join(each.run)}" for key in ("pre", "post") for each in getattr(plan, key)]
    undrawn = describe_fixed_order(plan.set_ups, plan.order)
    for line in [*plan.rules, *commands, *(need.words for need in needs), *([undrawn] if undrawn else ())]:
        print_lines(f"{plan.name}: {line}")
    extra = f", {counted(estimated.warm_ups, 'warm-up')}" if estimated.warm_ups else ""
    if plan.set_ups is not None:
        print_lines(f"{plan.name}: {_format_blocks(plan, todo, session)}")
    print_lines(
        f"{plan.name}: {format_count(len(todo))} of {counted(trials, 'trial')} to measure "
        f"({format_count(kept)} already stored), "
        f"{estimated.per_trial_s:.1f} s each, {counted(estimated.platform_switches, 'set-up')}{extra}, "
        f"about {format_h_mm_ss(estimated.total_s)} in all; {format_size(estimated.store_bytes)} in the store, "
        f"up to {format_size(estimated.capture_bytes)} on a sink while a trial runs"
    )


def _list_trials(plan: Plan, todo: Sequence[Trial], *, as_json: bool) -> None:
    """List every trial in order; for a plan in blocks under its set-up."""
    above: object = None
    for index, number in todo:
        request = plan.every_point[index].request
        block, repetition = plan.place_of((index, number))
        if as_json:
            print_json_line({"event": "trial", "plan": plan.name, **_trial_json(plan, index, number)})
            continue
        if block is not None and above != (block, configuration(request)):
            above = (block, configuration(request))
            where = format_block(block, plan.set_ups)
            print_lines(f"{where}: {request.platform} {describe_background(request.background)}")
        print_lines(f"{index:>5}  #{repetition:<3} {request.words()}")


def _format_blocks(plan: Plan, todo: Sequence[Trial], session: Testbed[RunStore]) -> str:
    """The division of time between the pilot and the blocks."""
    pilot = [trial for trial in todo if trial[1] == PILOT]
    parts = [f"{plan.set_ups} blocks of {plan.repetitions} repetition{'s' if plan.repetitions > 1 else ''}"]
    for name, trials in (("pilot", pilot), ("next block", first_block(plan, [each for each in todo if each[1]]))):
        if trials:
            took = format_h_mm_ss(estimate(plan, session.inventory, session.boots_s, trials).total_s)
            parts.append(f"{name}: {len(trials)} trials, about {took}")
    return "; ".join(parts)


def _trial_json(plan: Plan, index: int, number: int) -> dict[str, Any]:
    request = plan.every_point[index].request
    block, repetition = plan.place_of((index, number))
    return {
        "point": index,
        "repetition": repetition,
        "block": block,
        "platform": request.platform,
        "frame_size_bytes": request.frame.bytes,
        "sources": request.sources,
        "target_bps": request.target,
        "background": request.background,
        "duration_s": request.duration_s,
    }


def _plan_json(
    plan: Plan, trials: int, kept: int, left: int, estimated: Estimate, needs: Sequence[Dependency]
) -> dict[str, Any]:
    return {
        "event": "plan",
        "plan": plan.name,
        "hash": plan.hash(),
        "order": plan.order,
        "warning": describe_fixed_order(plan.set_ups, plan.order),
        "points": len(plan.points),
        "trials": trials,
        "stored": kept,
        "remaining": left,
        "set_ups": estimated.platform_switches,
        "blocks": plan.set_ups,
        "pilot": len(plan.pilot),
        "warm_ups": estimated.warm_ups,
        "per_trial_s": estimated.per_trial_s,
        "total_s": estimated.total_s,
        "store_bytes": estimated.store_bytes,
        "capture_bytes": estimated.capture_bytes,
        "needs": [
            {
                "platform": need.platform,
                "points": list(need.points),
                "given_by": list(need.given_by),
                "stored_run_id": None if need.reference is None else need.reference.run_id,
                "missing": need.missing,
            }
            for need in needs
        ],
    }
