"""``labconsole replay``: plans headless, resumable. docs/plans.md."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from labconsole.engine.blocks import first_block
from labconsole.engine.campaign import Campaign, Outcome
from labconsole.engine.plan_session import Dependency, asked_for, dependencies, is_asked_for, look_up
from labconsole.engine.room import room_refusal
from labconsole.engine.session import Session
from labconsole.engine.set_up_course import beside_words, block_words
from labconsole.engine.stamps import operator_name
from labconsole.engine.tour import Tour
from labconsole.errors import Aborted, ConfigError, StoreHeld
from labconsole.headless import drive, json_line, narrator, show_set_ups
from labconsole.model.inventory import Inventory
from labconsole.model.plan import Plan
from labconsole.model.plan_blocks import PILOT, undrawn_words
from labconsole.model.plan_estimate import Estimate, estimate
from labconsole.model.plan_load import load_plan
from labconsole.model.plan_order import Trial, configuration
from labconsole.model.record import RunRecord
from labconsole.replay_screen import ReplayScreen, minutes, size_words
from labconsole.replay_searches import ReplaySearches
from labconsole.replay_searches import dry_run as searches_dry_run
from labconsole.store import RunStore
from labconsole.testbed import hosts_path, load_testbed, open_session


def replay(args: argparse.Namespace) -> int:
    """Measure what is missing of every plan that was named, one after the other, holding the testbed once."""
    inventory, store = load_testbed(hosts_path(args.hosts), args.store)
    session = open_session(inventory, store)
    plans = [_first_blocks(load_plan(path, inventory, also=session.check_background), args) for path in args.plan]
    _refuse_twice(args.plan, plans)
    chosen = [_chosen(plan, args) for plan in plans]
    if args.platforms and not any(points for points in chosen):
        known = list(dict.fromkeys(name for plan in plans for name in plan.platforms))
        raise ConfigError(
            "names no platform of the plan", key="--platforms", value=",".join(args.platforms), allowed=", ".join(known)
        )
    if args.dry_run:
        for plan, only in zip(plans, chosen, strict=True):
            _dry_run(plan, only, session, as_json=args.json)
            searches_dry_run(plan, only, session, as_json=args.json)
        return 0
    if args.platforms and not args.json and any(plan.set_ups is not None for plan in plans):
        print(
            f"only {', '.join(args.platforms)}: the report compares these with other platforms by blocks that are "
            "taken in one go, and in the order that the plan draws"
        )
    # The lease keeps operators apart while one measures. This is for the rest: reading the store, commands, waiting.
    since = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    holder = f"{operator_name()} since {since} (process {os.getpid()}), {', '.join(plan.name for plan in plans)}"
    with ExitStack() as held:
        try:
            held.enter_context(store.hold(f"replay-{inventory.fingerprint()[:12]}", holder))
        except StoreHeld as exc:
            raise StoreHeld("replaying into this store on this testbed", exc.holder) from None
        return _replay(args, inventory, session, plans, chosen)


def _replay(
    args: argparse.Namespace,
    inventory: Inventory,
    session: Session[RunStore],
    plans: Sequence[Plan],
    chosen: Sequence[frozenset[int] | None],
) -> int:
    needed: list[str] = []
    for plan, only in zip(plans, chosen, strict=True):
        for point in plan.points:
            if only is None or point.index in only:
                needed += session.nodes_of(point.request)
    screen = ReplayScreen(plans, as_json=args.json)
    campaigns = [Campaign(plan, session, screen.update, only=only) for plan, only in zip(plans, chosen, strict=True)]
    tour = Tour(campaigns, session, take_over=args.take_over)
    searches = ReplaySearches(plans, chosen, session, as_json=args.json)

    def finish() -> None:
        tour.finish()
        searches.finish()

    async def work(session: Session[RunStore]) -> int:
        with screen.over(campaigns):
            outcomes = await tour.run()
        status = 0
        for campaign, outcome in zip(campaigns, outcomes, strict=True):
            if campaign.plan.grid:
                status = max(status, _tell(screen, campaign, outcome, as_json=args.json))
        if any(outcome.stopped for outcome in outcomes):
            return status
        return max(status, await searches.run(take_over=args.take_over))

    nodes = list(dict.fromkeys(needed)) or [inventory.uut]
    return drive(session, nodes, work, [narrator(args, quiet=True)], finish=finish)


def _first_blocks(plan: Plan, args: argparse.Namespace) -> Plan:
    """The plan with as many blocks as --set-ups leaves. Raises ConfigError."""
    if args.set_ups is None:
        return plan
    if plan.set_ups is None:
        raise ConfigError(f"plan {plan.name} has no blocks; give it set_ups", key="--set-ups", value=args.set_ups)
    if not 1 <= args.set_ups <= plan.set_ups:
        raise ConfigError(
            f"plan {plan.name} has no such number of blocks; raise its set_ups for more",
            key="--set-ups", value=args.set_ups, allowed=f"1 to {plan.set_ups}",
        )  # fmt: skip
    return replace(plan, set_ups=args.set_ups)


def _refuse_twice(paths: Sequence[Path], plans: Sequence[Plan]) -> None:
    """Two files with one meaning are one plan: the second would find everything stored."""
    seen: dict[object, Path] = {}
    for path, plan in zip(paths, plans, strict=True):
        meaning = (plan.hash(), plan.grid, plan.search)
        if meaning in seen:
            raise ConfigError(f"means the same as {seen[meaning]}; leave one of them out", file=str(path))
        seen[meaning] = path


def _chosen(plan: Plan, args: argparse.Namespace) -> frozenset[int] | None:
    """The points that --platforms and --points leave; None: all. Raises ConfigError."""
    if args.points is not None and len(args.plan) > 1:
        raise ConfigError("goes with one plan: every plan numbers its own points", key="--points", value=args.points)
    chosen: set[int] | None = None
    if args.points is not None:
        chosen = _numbers(args.points, len(plan.points))
    if args.platforms:
        own = {point.index for point in plan.points if point.request.platform in args.platforms}
        unknown = [name for name in args.platforms if name not in plan.platforms]
        if unknown and len(args.plan) == 1:
            raise ConfigError(
                "is no platform of the plan", key="--platforms", value=unknown[0], allowed=", ".join(plan.platforms)
            )
        chosen = own if chosen is None else chosen & own
        if not chosen and len(args.plan) == 1:
            raise ConfigError("--platforms and --points leave no point of the plan")
    if plan.set_ups is not None and args.points is not None and chosen is not None:
        _refuse_parts_of_set_ups(plan, chosen, args)
    return None if chosen is None else frozenset(chosen)


def _refuse_parts_of_set_ups(plan: Plan, chosen: set[int], args: argparse.Namespace) -> None:
    """A set-up of which some points are measured would never be whole."""
    asked = {configuration(plan.points[index].request) for index in chosen}
    whole = [point.index for point in plan.points if configuration(point.request) in asked]
    if len(whole) > len(chosen):
        lacking = ",".join(str(index) for index in whole if index not in chosen)
        raise ConfigError(
            "names some points of a set-up, and with set_ups every set-up is taken whole",
            key="--points", value=args.points, allowed=f"these also: {lacking}",
        )  # fmt: skip


def _numbers(text: str, points: int) -> set[int]:
    """``3,8-11`` as numbers. Raises ConfigError."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isascii() and first.isdecimal()) or (dash and not (last.isascii() and last.isdecimal())):
            raise ConfigError("is no list of points", key="--points", value=text, allowed="numbers such as 3,8-11")
        low, high = int(first[:9]), int((last or first)[:9])
        if not low <= high < points:
            raise ConfigError("names points that are not there", key="--points", value=part, allowed=f"0-{points - 1}")
        found.update(range(low, high + 1))
    return found


def _dry_run(plan: Plan, only: frozenset[int] | None, session: Session[RunStore], *, as_json: bool) -> None:
    """What would be taken, in which order, how long it takes, and what depends on what."""
    if not plan.grid:
        return
    state = look_up(plan, session, only)
    todo = state.left
    refusal = state.refusal or room_refusal(plan, todo, session.inventory)
    if refusal is not None:
        raise refusal
    reckoned = estimate(plan, session.inventory, todo)
    _list_trials(plan, todo, as_json=as_json)
    trials = asked_for(plan, only)
    kept = sum(is_asked_for(plan, trial, only) for trial in state.done)
    needs = dependencies(plan, todo, session, state.pilot)
    show_set_ups((plan.every_point[index].request for index, _ in todo), session.inventory, as_json=as_json)
    if as_json:
        json_line(_plan_json(plan, trials, kept, len(todo), reckoned, needs))
        return
    commands = [f"{key}: {shlex.join(each.run)}" for key in ("pre", "post") for each in getattr(plan, key)]
    undrawn = undrawn_words(plan.set_ups, plan.order)
    for line in [*plan.rules, *commands, *(need.words for need in needs), *([undrawn] if undrawn else ())]:
        sys.stdout.write(f"{plan.name}: {line}\n")
    extra = f", {reckoned.warm_ups} warm-ups" if reckoned.warm_ups else ""
    if plan.set_ups is not None:
        sys.stdout.write(f"{plan.name}: {_blocks_words(plan, todo, session.inventory)}\n")
    sys.stdout.write(
        f"{plan.name}: {len(todo)} of {trials} trials to take ({kept} stored already), "
        f"{reckoned.per_trial_s:.1f} s each, {reckoned.platform_switches} set-ups{extra}, "
        f"about {minutes(reckoned.total_s)} in all; {size_words(reckoned.store_bytes)} in the store, "
        f"up to {size_words(reckoned.capture_bytes)} on a sink while a trial runs\n"
    )


def _list_trials(plan: Plan, todo: Sequence[Trial], *, as_json: bool) -> None:
    """Every trial in its order; of a plan in blocks under the set-up that it is taken in."""
    above: object = None
    for index, number in todo:
        request = plan.every_point[index].request
        block, repetition = plan.place_of((index, number))
        if as_json:
            json_line({"event": "trial", "plan": plan.name, **_trial_json(plan, index, number)})
            continue
        if block is not None and above != (block, configuration(request)):
            above = (block, configuration(request))
            where = block_words(block, plan.set_ups)
            sys.stdout.write(f"{where}: {request.platform} {beside_words(request.background)}\n")
        sys.stdout.write(f"{index:>5}  #{repetition:<3} {request.describe()}\n")


def _blocks_words(plan: Plan, todo: Sequence[Trial], inventory: Inventory) -> str:
    """How the time divides into the pilot and the blocks."""
    pilot = [trial for trial in todo if trial[1] == PILOT]
    parts = [f"{plan.set_ups} blocks of {plan.repetitions} repetition{'s' if plan.repetitions > 1 else ''}"]
    for name, trials in (("pilot", pilot), ("next block", first_block(plan, [each for each in todo if each[1]]))):
        if trials:
            took = minutes(estimate(plan, inventory, trials).total_s)
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
        "frame_size_bytes": request.frame_size_bytes,
        "sources": request.sources,
        "target_bps": request.target_bps,
        "background": request.background,
        "duration_s": request.duration_s,
    }


def _plan_json(
    plan: Plan, trials: int, kept: int, left: int, reckoned: Estimate, needs: Sequence[Dependency]
) -> dict[str, Any]:
    return {
        "event": "plan",
        "plan": plan.name,
        "hash": plan.hash(),
        "order": plan.order,
        "warning": undrawn_words(plan.set_ups, plan.order),
        "points": len(plan.points),
        "trials": trials,
        "stored": kept,
        "remaining": left,
        "set_ups": reckoned.platform_switches,
        "blocks": plan.set_ups,
        "pilot": len(plan.pilot),
        "warm_ups": reckoned.warm_ups,
        "per_trial_s": reckoned.per_trial_s,
        "total_s": reckoned.total_s,
        "store_bytes": reckoned.store_bytes,
        "capture_bytes": reckoned.capture_bytes,
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


def _tell(screen: ReplayScreen, campaign: Campaign, outcome: Outcome, *, as_json: bool) -> int:
    """How one plan ended, and the exit status that goes with it."""
    status = Aborted.exit_code if outcome.stopped else 0 if outcome.complete else 1
    if as_json:
        screen.finished(campaign, status)
        return status
    counts = ", ".join(f"{count} {word}" for word, count in sorted(outcome.verdicts.items())) or "nothing to do"
    word = "stopped" if outcome.stopped else f"ended because {outcome.ended_by}" if outcome.ended_by else "done"
    more = f", {outcome.left_out} left out" if outcome.left_out else ""
    more += f", {outcome.warm_ups} warm-ups thrown away" if outcome.warm_ups else ""
    sys.stdout.write(
        f"{campaign.plan.name}: {word}; {outcome.taken} taken ({counts}), {outcome.skipped} stored before, "
        f"{outcome.redone} redone{more}\n"
    )
    for why, trials in outcome.refused:
        sys.stdout.write(f"  not measured{f' ({trials} trials)' if trials else ''}: {why}\n")
    if outcome.to_retake:
        sys.stdout.write(
            f"  of a set-up that broke off: {outcome.to_retake} of the trials taken, which will be taken again\n"
        )
    if outcome.invalid_before:
        sys.stdout.write(
            f"  {outcome.invalid_before} stored trials stayed invalid, and their set-ups are gone: raise set_ups\n"
        )
    for record in outcome.invalid:
        sys.stdout.write(f"  invalid: {_why(record)}\n")
    return status


def _why(record: RunRecord) -> str:
    return f"{record.run_id}: " + "; ".join(reason.detail for reason in record.verdict.reasons)
