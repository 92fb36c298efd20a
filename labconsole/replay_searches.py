"""The searches of a replay: what is left of them, made after the grids, and told as the rest is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from labconsole.engine.load_search import Wanted
from labconsole.engine.search_campaign import (
    Halt,
    SearchOutcome,
    SearchProgress,
    check_searches,
    estimate_searches,
    remaining_searches,
    run_searches,
    wanted_searches,
)
from labconsole.engine.session import Session
from labconsole.errors import Aborted
from labconsole.headless import json_line
from labconsole.model.plan import Plan
from labconsole.model.record import RunRecord
from labconsole.replay_screen import minutes, now
from labconsole.search_text import search_lines
from labconsole.store import RunStore
from labconsole.terminal import harmless
from labconsole.text_report import run_row

Chosen = frozenset[int] | None
"""The points of a plan that were asked for; None: all."""


class ReplaySearches:
    """The searches of all plans of a replay. ``finish`` lets the running trial end and begins no other."""

    def __init__(
        self, plans: Sequence[Plan], chosen: Sequence[Chosen], session: Session[RunStore], *, as_json: bool
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
            sys.stderr.write(harmless(run_row(record)) + "\n")

    def _search(self, plan: Plan, progress: SearchProgress) -> None:
        head = {"at": now(), "plan": plan.name, "search_number": progress.number, "searches": progress.total}
        if progress.record is not None:
            if self._as_json:
                json_line({"event": "search_finished", **head, "search": progress.record.to_json()})
            else:
                sys.stdout.write(harmless("\n".join(search_lines(progress.record))) + "\n")
                sys.stdout.flush()
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
        sys.stdout.write(
            f"{plan.name}: searches {word}; {len(outcome.made)} made{failed} by {outcome.trials} trials, "
            f"{outcome.skipped} stored before\n"
        )
        for why in outcome.refused:
            sys.stdout.write(f"  not searched: {harmless(why)}\n")
        return status


def _configuration(progress: SearchProgress) -> dict[str, Any]:
    request = progress.configuration.request
    names = ("platform", "frame_size_bytes", "frame_size_includes_fcs", "sources", "background")
    return {name: getattr(request, name) for name in names}


def dry_run(plan: Plan, only: Chosen, session: Session[RunStore], *, as_json: bool) -> None:
    """What would be searched, and how long that takes on units that behave."""
    if plan.search is None:
        return
    check_searches(plan, session.inventory)
    every = wanted_searches(plan, only)
    todo: list[Wanted] = remaining_searches(plan, session, only)
    reckoned = estimate_searches(todo, session.inventory)
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
            sys.stdout.write(f"search {wanted.configuration.describe()}: {', '.join(wanted.search.goals)}\n")
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
    sys.stdout.write(
        f"{plan.name}: {len(todo)} of {len(every)} searches to make ({len(every) - len(todo)} stored already), "
        f"{reckoned.trials} trials or more, about {minutes(reckoned.total_s)} on platforms that behave\n"
    )
