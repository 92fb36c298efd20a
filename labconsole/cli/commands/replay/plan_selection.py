"""Restricts plans to the parts that the options of a replay select."""

from __future__ import annotations

import argparse
from dataclasses import replace

from labconsole.errors import ConfigError
from labconsole.model.plan.order import configuration
from labconsole.model.plan.plan import Plan, build_occasion_plan


def apply_kernel_options(plan: Plan, args: argparse.Namespace) -> Plan:
    """The plan with the command line's kernel options in place of its own."""
    given = {"drop_reasons": args.drop_reasons, "packet_times": args.packet_times}
    return replace(plan, **{name: value for name, value in given.items() if value is not None})


def apply_options(plan: Plan, args: argparse.Namespace) -> Plan:
    """The plan with the options that apply to all of it. Raises ConfigError."""
    if args.occasion is not None:
        plan = build_occasion_plan(plan, args.occasion)
    if not args.telemetry:
        return apply_kernel_options(limit_blocks(plan, args), args)
    refused = {"--set-ups": args.set_ups, "--drop-reasons": args.drop_reasons, "--retake": args.retake or None}
    for key, value in refused.items():
        if value is not None:
            raise ConfigError(
                "cannot be combined with --telemetry, which measures each point once and always records reasons",
                key=key,
                value=value,
            )
    return apply_kernel_options(plan.for_telemetry(), args)


def limit_blocks(plan: Plan, args: argparse.Namespace) -> Plan:
    """The plan with the number of blocks that --set-ups leaves. Raises ConfigError."""
    if args.set_ups is None:
        return plan
    if plan.guests is not None:
        _refuse_other_than(args.set_ups, plan.guests.set_ups, plan.name)
        return replace(plan, guests=replace(plan.guests, set_ups=args.set_ups))
    if plan.set_ups is None:
        raise ConfigError(f"plan {plan.name} has no blocks; give it set_ups", key="--set-ups", value=args.set_ups)
    _refuse_other_than(args.set_ups, plan.set_ups, plan.name)
    return replace(plan, set_ups=args.set_ups)


def _refuse_other_than(requested: int, there: int, name: str) -> None:
    if not 1 <= requested <= there:
        raise ConfigError(
            f"plan {name} has no such number of blocks; raise its set_ups for more",
            key="--set-ups",
            value=requested,
            allowed=f"1 to {there}",
        )


def parse_points(plan: Plan, args: argparse.Namespace) -> frozenset[int] | None:
    """The points that --platforms and --points select, or None for all. Raises ConfigError."""
    if args.points is not None and len(args.plan) > 1:
        raise ConfigError(
            "only valid with one plan: every plan numbers its own points", key="--points", value=args.points
        )
    chosen: set[int] | None = None
    if args.points is not None and plan.guests is not None:
        raise ConfigError(
            f"selects points of traffic, of which a plan of {plan.guests.kind}s has none; use --platforms",
            key="--points",
            value=args.points,
        )
    if args.points is not None:
        chosen = _numbers(args.points, len(plan.points))
    if args.platforms:
        own = {point.index for point in plan.points if point.request.platform in args.platforms}
        unknown = [name for name in args.platforms if name not in plan.platforms]
        if unknown and len(args.plan) == 1:
            raise ConfigError(
                "is not a platform of this plan", key="--platforms", value=unknown[0], allowed=", ".join(plan.platforms)
            )
        chosen = own if chosen is None else chosen & own
        if not chosen and len(args.plan) == 1:
            raise ConfigError("--platforms and --points select no point of the plan")
    if plan.set_ups is not None and args.points is not None and chosen is not None:
        _refuse_parts_of_set_ups(plan, chosen, args)
    return None if chosen is None else frozenset(chosen)


def _refuse_parts_of_set_ups(plan: Plan, chosen: set[int], args: argparse.Namespace) -> None:
    """Refuse to measure only some points of a set-up, which would never be whole."""
    configurations = {configuration(plan.points[index].request) for index in chosen}
    whole = [point.index for point in plan.points if configuration(point.request) in configurations]
    if len(whole) > len(chosen):
        lacking = ",".join(str(index) for index in whole if index not in chosen)
        raise ConfigError(
            "selects only some points of a set-up; with set_ups, every set-up is measured whole",
            key="--points",
            value=args.points,
            allowed=f"also {lacking}",
        )


def _numbers(text: str, points: int) -> set[int]:
    """Parse ``3,8-11`` as numbers. Raises ConfigError."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isascii() and first.isdecimal()) or (dash and not (last.isascii() and last.isdecimal())):
            raise ConfigError(
                "is not a list of points", key="--points", value=text, allowed="numbers and ranges such as 3,8-11"
            )
        low, high = int(first[:9]), int((last or first)[:9])
        if not low <= high < points:
            raise ConfigError("the plan has no such points", key="--points", value=part, allowed=f"0-{points - 1}")
        found.update(range(low, high + 1))
    return found
