"""The command search: the highest load that meets a loss goal, with its bounds and every trial that led there."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace

from labconsole.engine.load_search import search_load
from labconsole.engine.session import Session
from labconsole.errors import ConfigError
from labconsole.headless import drive, request_from
from labconsole.measure.search import Goal, GoalResult, SearchResult, parse_goal
from labconsole.model.record import RunRecord
from labconsole.model.request import TrialRequest
from labconsole.store import RunStore
from labconsole.testbed import hosts_path, load_testbed, open_session
from labconsole.text_report import DASH, run_row
from labconsole.units import format_count, format_rate_bps, pps_to_bps

LIMITS = {
    "uut": "the unit under test lost packets above it",
    "generator": "the generator could not send more: this is not the platform's limit",
    "instrument": "a source's or a sink's NIC lost packets: this is not the platform's limit",
    "line_rate": "it meets the goal at line rate",
    "below_minimum": "not even the lowest load meets the goal",
}


def search(args: argparse.Namespace) -> int:
    """``labconsole search``: 0 when every goal has a lower bound, 1 when one has none."""
    inventory, store = load_testbed(hosts_path(args.hosts), args.store)
    request = request_from(args, inventory)
    goals = [_adjusted(parse_goal(text), args) for text in dict.fromkeys(args.goals)]
    session = open_session(inventory, store)

    def on_trial(record: RunRecord) -> None:
        sys.stderr.write(run_row(record) + "\n")
        if args.json:
            _line(record.to_json())

    async def work(session: Session[RunStore]) -> int:
        result = await search_load(session, request, goals, on_trial=on_trial, take_over=args.take_over)
        _tell(result, request, as_json=args.json)
        return 1 if any(goal.lower_bound_pps is None for goal in result.goals) else 0

    return drive(session, session.nodes_of(request), work, [])


def _adjusted(goal: Goal, args: argparse.Namespace) -> Goal:
    """The goal with what the command line changes of it. A changed goal is named so: it is no preset any more."""
    changed = {
        "trial_duration_s": args.trial_duration,
        "duration_sum_s": args.duration_sum,
        "relative_width": args.width,
    }
    given = {name: value for name, value in changed.items() if value is not None}
    for name, value in given.items():
        if not 0 < value < (1 if name == "relative_width" else 86400):
            key = {
                "trial_duration_s": "--trial-duration",
                "duration_sum_s": "--duration-sum",
                "relative_width": "--width",
            }
            raise ConfigError("is out of range", key=key[name], value=value, allowed="more than 0; a width below 1")
    if not given:
        return goal
    adjusted = replace(goal, name=f"{goal.name} (adjusted)", **given)
    if adjusted.duration_sum_s < adjusted.trial_duration_s:
        raise ConfigError(
            "is shorter than one trial", key="--duration-sum", value=adjusted.duration_sum_s,
            allowed=f"{adjusted.trial_duration_s:g} or more",
        )  # fmt: skip
    return adjusted


def _tell(result: SearchResult, request: TrialRequest, *, as_json: bool) -> None:
    if as_json:
        _line(
            {
                "search": asdict(request),
                "goals": [asdict(goal) for goal in result.goals],
                "trials": [asdict(trial) for trial in result.trials],
            }
        )
        return
    sys.stdout.write(f"{len(result.trials)} trials; loads are per source, bandwidth on the wire\n")
    for goal in result.goals:
        sys.stdout.write(_goal_line(goal, request) + "\n")


def _goal_line(found: GoalResult, request: TrialRequest) -> str:
    def load(pps: float | None) -> str:
        if pps is None:
            return DASH
        bps = pps_to_bps(pps, request.frame_size_bytes, includes_fcs=request.frame_size_includes_fcs)
        return f"{format_count(round(pps))} pps ({format_rate_bps(bps)})"

    return (
        f"  {found.goal.name}: lower bound {load(found.lower_bound_pps)}, upper bound {load(found.upper_bound_pps)}, "
        f"conditional throughput {load(found.conditional_throughput_pps)}; {LIMITS[found.limited_by]}"
    )


def _line(data: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(data) + "\n")
    sys.stdout.flush()
