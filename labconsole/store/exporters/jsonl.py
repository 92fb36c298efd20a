"""JSON lines with everything: what ``runs import`` takes back."""

from __future__ import annotations

import json
from collections.abc import Iterator

from labconsole.model.record.kinds import record_kinds
from labconsole.model.record.note import exported
from labconsole.store.exporting import ChosenRuns

BINARY = False


def parts(runs: ChosenRuns) -> Iterator[str]:
    """A line per run, with its note, then one per experiment with a trial among them. Oldest first."""
    notes = runs.store.notes()
    only = None if runs.chosen is None else {run.run_id for run in runs.chosen}
    for record in runs.store.iterate(unreadable=runs.unreadable):
        if only is None or record.run_id in only:
            yield json.dumps(exported(record, notes.get(record.run_id))) + "\n"
    for kind in record_kinds().values():
        for made in reversed(runs.store.experiments(kind)):
            if only is None or not only.isdisjoint(kind.run_ids(made)):
                yield json.dumps({kind.name: made.to_json()}) + "\n"
    for problem in runs.store.unknown_experiments():
        runs.unreadable(problem)
