"""What the units of a report are given. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from labconsole.contracts.report import ReportUnit
from labconsole.model.record.search import SearchRecord
from labconsole.report.digest import Digest
from labconsole.report.evaluation import Evaluation
from labconsole.report.reference import PaperTables
from labconsole.report.sample import Coverage, KeptRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """``kept``: the runs that are meant; ``evaluation``: what follows from those that enter, platforms told apart.

    ``digest``: what their records say beyond the columns of a list. ``coverage``: of points of plans only. ``paper``:
    whose tables are asked for beside one's own, ``paper_names``: one's own platforms to the paper's.
    """

    kept: KeptRuns
    digest: Digest
    evaluation: Evaluation
    coverage: tuple[Coverage, ...] = ()
    searches: tuple[SearchRecord, ...] = ()
    paper: PaperTables | None = None
    paper_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def emulated(self) -> bool:
        """Whether any of the runs was taken on machines made of software."""
        return self.digest.emulated


Unit = ReportUnit[Material]
