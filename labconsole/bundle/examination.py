"""Examines all records of a store or a bundle in turn: each by itself, then all of them against one another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

from labconsole.experiments.kinds import find_recompute, find_unjudged
from labconsole.experiments.search.verify import Counts, RunHead, counts_of, find_implausible, head_of, recompute_search
from labconsole.measure.recompute.cross_record_checks import CrossRecordChecks
from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.measure.recompute.record import examine, unjudged
from labconsole.model.plan.search import HASH_PREFIX
from labconsole.model.record.kind import ExperimentColumns, GuestTrialRecord, RecordKind
from labconsole.model.record.run import RunRecord
from labconsole.model.record.search import SearchRecord
from labconsole.model.record.summary import RunSummary
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.store.records import utc_text
from labconsole.store.sql.schema import SINCE_4, build_row

OnDiscrepancy = Callable[[str, Discrepancy], None]
"""Called with a record's id and what is wrong with it."""


class Examination:
    """Examines all records of a store or a bundle in turn.

    ``unjudged``: descriptions of what could not be judged, each with its number of records.
    """

    def __init__(self, found: OnDiscrepancy) -> None:
        self.runs = 0
        self.unjudged: Counter[str] = Counter()
        self._found = found
        self._together = CrossRecordChecks()
        self._searched: dict[str, Counts] = {}
        self._heads: dict[str, RunHead] = {}

    def take(self, record: RunRecord) -> None:
        """Examine one more run."""
        self.runs += 1
        for wrong in examine(record, WEIGHT):
            self._found(record.run_id, wrong)
        for run_id, wrong in self._together.add(record):
            self._found(run_id, wrong)
        self.unjudged.update(unjudged(record))
        if record.plan is not None and record.plan.hash.startswith(HASH_PREFIX):
            self._searched[record.run_id] = counts_of(record)
            self._heads[record.run_id] = head_of(record)

    def end(self, searches: Iterable[SearchRecord]) -> None:
        """Check what needs all records; then check the searches that the runs were measured for."""
        for record_id, wrong in self._together.ending():
            self._found(record_id, wrong)
        if self._together.elsewhere:
            self.unjudged["statements that rest on stored runs which are not here"] = self._together.elsewhere
        for search in searches:
            with self._computing(search.search_id):
                for wrong in (*recompute_search(search, self._searched), *find_implausible(search, self._heads)):
                    self._found(search.search_id, wrong)

    def take_other(self, kind: RecordKind[Any], record: Any) -> None:
        """Examine one more record that is neither a run nor a search."""
        record_id, recompute, describe_unjudged = (
            kind.columns(record).id,
            find_recompute(kind.name),
            find_unjudged(kind.name),
        )
        if recompute is None:
            self.unjudged[f"the contents of {kind.plural}, for which no installed package has a check"] += 1
            return
        with self._computing(record_id):
            for wrong in recompute(record):
                self._found(record_id, wrong)
            if describe_unjudged is not None:
                self.unjudged.update(describe_unjudged(record))
        if isinstance(record, GuestTrialRecord):
            for other_id, wrong in self._together.add_trial(kind, record):
                self._found(other_id, wrong)

    @contextmanager
    def _computing(self, record_id: str) -> Iterator[None]:
        """Report numbers that no measurement has and that stop the arithmetic. ``examine`` does so itself."""
        try:
            yield
        except (ArithmeticError, ValueError) as exc:
            self._found(record_id, against("record", f"its numbers cannot be computed with: {exc}"))


def columns(summary: RunSummary, record: RunRecord) -> Iterator[Discrepancy]:
    """Differences between a run's record and its columns in the table, which lists, filters and reports rely on."""
    row = build_row(record, "", has_series=summary.has_series)
    row["reason_codes"] = tuple(code for code in row["reason_codes"].split(",") if code)
    row["target_bps"] = "max" if row["target_bps"] is None else row["target_bps"]
    for each in fields(summary):
        stored = getattr(summary, each.name)
        if each.name == "note" or (summary.format is None and each.name in SINCE_4):
            continue
        if stored != row[each.name]:
            says = f"the table says {_word(stored)}, the record {_word(row[each.name])}"
            yield Discrepancy(where=f"column {each.name}", stored=_word(stored), says=says)


def experiment_columns(kind: RecordKind[Any], listed: ExperimentColumns, record: Any) -> Iterator[Discrepancy]:
    """Differences between an experiment's record and its columns in the table."""
    repeats = kind.columns(record)
    repeats = replace(repeats, started_at=utc_text(repeats.started_at, kind.name))
    for each in fields(ExperimentColumns):
        stored, repeated = getattr(listed, each.name), getattr(repeats, each.name)
        if stored != repeated:
            says = f"the table says {_word(stored)}, the record {_word(repeated)}"
            yield Discrepancy(where=f"column {each.name}", stored=_word(stored), says=says)


def _word(value: object) -> str:
    return "unknown" if value is None else str(value)[:200]
