"""The searches of a replay: what is left of them, made after the grids, and told as the rest is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from labconsole.cli.output import json_line, plain_lines
from labconsole.cli.text.replay import minutes, now
from labconsole.cli.text.runs import run_row
from labconsole.cli.text.searches import search_lines
from labconsole.engine.testbed import Testbed
from labconsole.errors import Aborted
from labconsole.experiments.search.execution import (
    Halt,
    SearchOutcome,
    SearchProgress,
    check_searches,
    estimate_searches,
    remaining_searches,
    run_searches,
    wanted_searches,
)
from labconsole.experiments.search.procedure import Wanted
from labconsole.model.plan.plan import Plan
from labconsole.model.record.run import RunRecord
from labconsole.store.writing import RunStore

Chosen = frozenset[int] | None
"""The points of a plan that were asked for; None: all."""


class ReplaySearches:
    """The searches of all plans of a replay. ``finish`` lets the running trial end and begins no other."""

    def __init__(
        self, plans: Sequence[Plan], chosen: Sequence[Chosen], session: Testbed[RunStore], *, as_json: bool
    ) -> None:
        self._session, self._as_json = session, as_json
        self._plans = [(plan, only) for plan, only in zip(plans, chosen, strict=True) if plan.search is not None]
        self._told = False
        self._halt: Halt | None = None
        for plan, _ in self._plans:
            check_searches(plan, session.inventory)

    def finish(self) -> None:
        """Let the running trial end and begin no other."""
        self._told = True
        if self._halt is not None:
            self._halt.finish()

    async def run(self, *, take_over: bool) -> int:
        """Make what is left; returns the exit status. Raises LabError for what no search would fare better with."""
        status = 0
        for plan, only in self._plans:
            self._halt = Halt(plan.stop)
            if self._told:
                self._halt.finish()
            outcome = await run_searches(
                plan, self._session, only=only, halt=self._halt, take_over=take_over,
                on_trial=lambda record, plan=plan: self._trial(plan, record),  # type: ignore[misc]
                on_search=lambda progress, plan=plan: self._search(plan, progress),  # type: ignore[misc]
            )  # fmt: skip
            status = max(status, self._outcome(plan, outcome))
            if outcome.stopped:
                break
        return status

    def _trial(self, plan: Plan, record: RunRecord) -> None:
        if self._as_json:
            json_line({"event": "search_trial", "at": now(), "plan": plan.name, "run": record.to_json()})
        else:
            sys.stderr.write(run_row(record) + "\n")

    def _search(self, plan: Plan, progress: SearchProgress) -> None:
        head = {"at": now(), "plan": plan.name, "search_number": progress.number, "searches": progress.total}
        if progress.record is not None:
            if self._as_json:
                json_line({"event": "search_finished", **head, "search": progress.record.to_json()})
            else:
                plain_lines(*search_lines(progress.record))
        elif self._as_json:
            json_line({"event": "search_started", **head, "requested": _configuration(progress)})
        else:
            words = progress.configuration.describe()
            sys.stderr.write(f"{plan.name}: search {progress.number} of {progress.total}: {words}\n")

    def _outcome(self, plan: Plan, outcome: SearchOutcome) -> int:
        status = Aborted.exit_code if outcome.stopped else 0 if outcome.complete else 1
        if self._as_json:
            json_line(
                {
                    "event": "searches_finished",
                    "at": now(),
                    "plan": plan.name,
                    "made": len(outcome.made),
                    "failed": [record.search_id for record in outcome.failed],
                    "skipped": outcome.skipped,
                    "trials": outcome.trials,
                    "refused": outcome.refused,
                    "stopped": outcome.stopped,
                    "ended_by": outcome.ended_by or None,
                    "exit_status": status,
                }
            )
            return status
        word = "stopped" if outcome.stopped else f"ended because {outcome.ended_by}" if outcome.ended_by else "done"
        failed = f", {len(outcome.failed)} of them not to their end" if outcome.failed else ""
        plain_lines(
            f"{plan.name}: searches {word}; {len(outcome.made)} made{failed} by {outcome.trials} trials, "
            f"{outcome.skipped} stored before"
        )
        for why in outcome.refused:
            plain_lines(f"  not searched: {why}")
        return status


def _configuration(progress: SearchProgress) -> dict[str, Any]:
    point = progress.configuration.request
    return {
        "platform": point.platform, **point.frame.columns(), "sources": point.sources, "background": point.background,
    }  # fmt: skip


def searches_dry_run(plan: Plan, only: Chosen, session: Testbed[RunStore], *, as_json: bool) -> None:
    """What would be searched, and how long that takes on units that behave."""
    if plan.search is None:
        return
    check_searches(plan, session.inventory)
    every = wanted_searches(plan, only)
    todo: list[Wanted] = remaining_searches(plan, session, only)
    reckoned = estimate_searches(todo, session.inventory, session.boots_s)
    for wanted in todo:
        if as_json:
            progress = SearchProgress(0, len(todo), wanted.configuration, None)
            json_line(
                {
                    "event": "search",
                    "plan": plan.name,
                    "hash": wanted.hash,
                    "goals": list(wanted.search.goals),
                    "repetition": wanted.configuration.repetition,
                    **_configuration(progress),
                }
            )
        else:
            plain_lines(f"search {wanted.configuration.describe()}: {', '.join(wanted.search.goals)}")
    if as_json:
        json_line(
            {
                "event": "searches",
                "plan": plan.name,
                "searches": len(every),
                "stored": len(every) - len(todo),
                "remaining": len(todo),
                "trials": reckoned.trials,
                "total_s": reckoned.total_s,
            }
        )
        return
    plain_lines(
        f"{plan.name}: {len(todo)} of {len(every)} searches to make ({len(every) - len(todo)} stored already), "
        f"{reckoned.trials} trials or more, about {minutes(reckoned.total_s)} on platforms that behave"
    )
