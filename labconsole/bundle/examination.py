"""All runs of a store or a bundle examined, one after the other: each by itself, then all beside each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields

from labconsole.experiments.search.verify import Counts, counts_of, recompute_search
from labconsole.experiments.verifying import recompute_of
from labconsole.measure.recompute.discrepancy import Discrepancy
from labconsole.measure.recompute.record import examine, unjudged
from labconsole.measure.recompute.runs_together import Together
from labconsole.model.plan.search import HASH_PREFIX
from labconsole.model.record.kind import ExperimentRecord
from labconsole.model.record.kinds import record_kinds
from labconsole.model.record.run import RunRecord
from labconsole.model.record.search import SearchRecord
from labconsole.model.record.summary import RunSummary
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.store.sql.schema import SINCE_4, row_of

Found = Callable[[str, Discrepancy], None]
"""Told of a run or a search, by its id, what is wrong."""


class Examination:
    """Of all runs of a store or a bundle, one after the other. ``unjudged``: in words, of how many runs."""

    def __init__(self, found: Found) -> None:
        self.runs = 0
        self.unjudged: Counter[str] = Counter()
        self._found = found
        self._together = Together()
        self._searched: dict[str, Counts] = {}

    def take(self, record: RunRecord) -> None:
        """One more record."""
        self.runs += 1
        for wrong in examine(record, WEIGHT):
            self._found(record.run_id, wrong)
        for run_id, wrong in self._together.add(record):
            self._found(run_id, wrong)
        self.unjudged.update(unjudged(record))
        if record.plan is not None and record.plan.hash.startswith(HASH_PREFIX):
            self._searched[record.run_id] = counts_of(record)

    def end(
        self, searches: Iterable[SearchRecord], others: Mapping[str, Iterable[ExperimentRecord]] | None = None
    ) -> None:
        """What shows when all runs are known; then the searches that they were taken for, and the records of other
        kinds, by the kind's name.
        """
        for run_id, wrong in self._together.ending():
            self._found(run_id, wrong)
        if self._together.elsewhere:
            self.unjudged["statements that rest on stored runs which are not here"] = self._together.elsewhere
        for search in searches:
            for wrong in recompute_search(search, self._searched):
                self._found(search.search_id, wrong)
        for name, records in (others or {}).items():
            kind, recompute = record_kinds()[name], recompute_of(name)
            if recompute is None:
                continue
            for record in records:
                for wrong in recompute(record):
                    self._found(kind.columns(record).id, wrong)


def columns(summary: RunSummary, record: RunRecord) -> Iterator[Discrepancy]:
    """Lists, filters and reports go by what the table repeats of a record: it has to be that."""
    row = row_of(record, "", has_series=summary.has_series)
    row["reason_codes"] = tuple(code for code in row["reason_codes"].split(",") if code)
    row["target_bps"] = "max" if row["target_bps"] is None else row["target_bps"]
    for each in fields(summary):
        stored = getattr(summary, each.name)
        if each.name == "note" or (summary.format is None and each.name in SINCE_4):
            continue
        if stored != row[each.name]:
            says = f"the table says {_word(stored)}, the record {_word(row[each.name])}"
            yield Discrepancy(where=f"column {each.name}", stored=_word(stored), says=says)


def _word(value: object) -> str:
    return "unknown" if value is None else str(value)[:200]
