"""JSON lines with complete records, which ``runs import`` reads."""

from __future__ import annotations

import json
from collections.abc import Iterator

from labconsole.model.record.annotations import exported, plan_notes
from labconsole.model.record.kind import record_kinds
from labconsole.store.exporting import ChosenRuns

BINARY = False


def parts(runs: ChosenRuns) -> Iterator[str]:
    """Yield one line per run, with its note, and one per experiment that has a trial among them, oldest first.

    Then yield one line per note on their plans.
    """
    notes = runs.store.notes()
    only = None if runs.chosen is None else {run.run_id for run in runs.chosen}
    plans: set[tuple[str, str]] = set()
    for record in runs.store.iterate(unreadable=runs.unreadable):
        if only is None or record.run_id in only:
            if record.plan is not None:
                plans.add((record.plan.hash, record.testbed_fingerprint))
            yield json.dumps(exported(record, notes.get(record.run_id))) + "\n"
    for kind in record_kinds().values():
        for made in reversed(runs.store.experiments(kind)):
            if only is None or not only.isdisjoint(kind.run_ids(made)):
                yield json.dumps({kind.name: made.to_json()}) + "\n"
    for each in plan_notes(notes):
        if only is None or (each.plan_hash, each.testbed_fingerprint) in plans:
            yield json.dumps(each.to_json()) + "\n"
    for problem in runs.store.unknown_experiments():
        runs.unreadable(problem)
