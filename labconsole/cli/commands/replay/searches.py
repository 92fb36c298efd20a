"""The searches of a replay: their progress and outcome, for people or machines, and a dry run."""

from __future__ import annotations

from typing import Any

from labconsole.cli.output import print_json_line, print_lines, print_progress
from labconsole.cli.remaining_steps import Chosen, describe_ending, exit_status, find_remaining_steps
from labconsole.cli.text.replay import format_h_mm_ss, utc_timestamp
from labconsole.cli.text.runs import run_row
from labconsole.cli.text.searches import search_lines
from labconsole.engine.execution.progress import Outcome, StepProgress
from labconsole.engine.testbed import Testbed
from labconsole.experiments.search.steps import LoadSearches
from labconsole.model.design_point import DesignPoint
from labconsole.model.plan.plan import Plan
from labconsole.model.record.search import SearchRecord
from labconsole.store.writing import RunStore


def narrate_search(progress: StepProgress, *, as_json: bool) -> None:
    """Report that a search begins, that one of its trials has ended, or that it has ended."""
    plan, record = progress.plan, progress.record
    if progress.last is not None:
        if as_json:
            print_json_line(
                {"event": "search_trial", "at": utc_timestamp(), "plan": plan.name, "run": progress.last.to_json()}
            )
        else:
            print_progress(run_row(progress.last))
        return
    head = {"at": utc_timestamp(), "plan": plan.name, "search_number": progress.number, "searches": progress.total}
    if isinstance(record, SearchRecord):
        if as_json:
            print_json_line({"event": "search_finished", **head, "search": record.to_json()})
        else:
            print_lines(*search_lines(record))
    elif progress.warm_up:
        if not as_json:
            request = progress.step.request
            print_progress(f"warm-up of {request.platform}, background {request.background}: thrown away")
    elif as_json:
        print_json_line({"event": "search_started", **head, "requested": _configuration(progress.step.request)})
    else:
        description = progress.step.describe()
        print_progress(f"{plan.name}: search {progress.number} of {progress.total}: {description}")


def narrate_search_outcome(plan: Plan, outcome: Outcome, *, as_json: bool) -> int:
    """Report how a plan's searches ended and return the exit status."""
    steps = outcome.steps
    failed = [record for record in steps.failed if isinstance(record, SearchRecord)]
    status = exit_status(outcome)
    if as_json:
        print_json_line(
            {
                "event": "searches_finished",
                "at": utc_timestamp(),
                "plan": plan.name,
                "made": len(steps.made),
                "failed": [record.search_id for record in failed],
                "skipped": steps.skipped,
                "trials": steps.trials,
                "redone": steps.redone,
                "refused": steps.refused,
                "stopped": outcome.cut_short,
                "ended_by": outcome.ended_by or None,
                "exit_status": status,
            }
        )
        return status
    unfinished = f", {len(failed)} of them not to their end" if failed else ""
    print_lines(
        f"{plan.name}: searches {describe_ending(outcome)}; {len(steps.made)} made{unfinished} by {steps.trials} "
        f"trials, {steps.skipped} stored before{f', {steps.redone} redone' if steps.redone else ''}"
    )
    for why in steps.refused:
        print_lines(f"  not searched: {why}")
    return status


def _configuration(point: DesignPoint) -> dict[str, Any]:
    return {
        "platform": point.platform,
        **point.frame.columns(),
        "sources": point.sources,
        "background": point.background,
    }


def dry_run_searches(plan: Plan, only: Chosen, session: Testbed[RunStore], *, as_json: bool) -> None:
    """Print the searches that would run, and their duration on well-behaved units."""
    if plan.search is None:
        return
    left = find_remaining_steps(LoadSearches(session.store), plan, only, session)
    for wanted in left.steps:
        if as_json:
            print_json_line(
                {
                    "event": "search",
                    "plan": plan.name,
                    "hash": wanted.hash,
                    "goals": list(wanted.search.goals),
                    "repetition": wanted.configuration.repetition,
                    **_configuration(wanted.request),
                }
            )
        else:
            print_lines(f"search {wanted.configuration.describe()}: {', '.join(wanted.search.goals)}")
    if as_json:
        print_json_line(
            {
                "event": "searches",
                "plan": plan.name,
                "searches": left.asked,
                "stored": left.stored,
                "remaining": len(left.steps),
                "trials": left.reckoned.trials,
                "total_s": left.reckoned.total_s,
            }
        )
        return
    print_lines(
        f"{plan.name}: {len(left.steps)} of {left.asked} {'search' if left.asked == 1 else 'searches'} to make "
        f"({left.stored} stored already), "
        f"{left.reckoned.trials} trials or more, about {format_h_mm_ss(left.reckoned.total_s)} on platforms that behave"
    )
