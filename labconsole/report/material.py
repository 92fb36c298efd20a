"""The input of a report's units. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labconsole.contracts.report import ReportUnit
from labconsole.model.record.kind import ExperimentRecord
from labconsole.model.record.search import SearchRecord
from labconsole.model.record.summary import RunSummary
from labconsole.report.digest import Digest
from labconsole.report.evaluation import Evaluation
from labconsole.report.planned_trials import PlannedTrials
from labconsole.report.reference import PaperTables
from labconsole.report.sample import RunCoverage, RunSample


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """``kept``: the selected runs. ``evaluation``: the results of those that enter, platforms kept apart.

    ``digest``: facts in their records beyond the columns of a list. ``coverage``: of points of plans only;
    ``planned_trials``: of those of other kinds. ``search_runs``: the runs that searches consist of, by id. ``paper``:
    the paper whose tables are requested for comparison; ``paper_names``: own platforms to the paper's. ``experiments``:
    records of other kinds, by the kind's name.
    """

    kept: RunSample
    digest: Digest
    evaluation: Evaluation
    coverage: tuple[RunCoverage, ...] = ()
    planned_trials: tuple[PlannedTrials, ...] = ()
    searches: tuple[SearchRecord, ...] = ()
    search_runs: Mapping[str, RunSummary] = field(default_factory=dict)
    paper: PaperTables | None = None
    paper_names: Mapping[str, str] = field(default_factory=dict)
    experiments: Mapping[str, Sequence[ExperimentRecord]] = field(default_factory=dict)

    def of(self, kind: str) -> Sequence[ExperimentRecord]:
        """The records of a kind other than runs and searches."""
        return self.experiments.get(kind, ())

    @property
    def given_margin_ratio(self) -> float | None:
        """The margin from the command, or None to use the one that plans declare."""
        family = self.evaluation.claims
        return family.margin_ratio if family.declared == "option" else None

    @property
    def emulated(self) -> bool:
        """Whether anything was measured on an emulated testbed."""
        return self.digest.emulated or any(
            getattr(record, "emulated", False) for records in self.experiments.values() for record in records
        )


Unit = ReportUnit[Material]
