"""Runs as a pandas table: one row per run, and which of them enter a mean.

Nothing invalid enters a mean; what is left out is counted by reason, because a report has to say so. Nor does a mean
mix testbeds or generators: where a report has several, they tell platforms of one name apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields

import pandas as pd

from labconsole.measure.design_points import RATES, STANDING
from labconsole.store.summary import RunSummary

APART = ("generator", "testbed")
"""What makes runs of one platform no repetitions of each other. Runs of different duration are: the page lists them."""

_CATEGORIES = (
    "testbed", "testbed_fingerprint", "generator", "platform", "background", "plan_name", "plan_hash", "verdict",
)  # fmt: skip


def runs_frame(summaries: Iterable[RunSummary]) -> pd.DataFrame:
    """One row per run, columns as in RunSummary, oldest first. ``target_bps`` is None for the target max."""
    names = [field.name for field in fields(RunSummary)]
    columns: dict[str, list[object]] = {name: [] for name in names}
    for summary in summaries:
        for name in names:
            columns[name].append(getattr(summary, name))
    columns["target_bps"] = [None if value == "max" else value for value in columns["target_bps"]]
    frame = pd.DataFrame(columns)
    frame["target_bps"] = frame["target_bps"].astype("Int64")
    for name in _CATEGORIES:
        frame[name] = frame[name].astype("category")
    return frame.sort_values(["started_at", "run_id"], kind="stable", ignore_index=True)


@dataclass(frozen=True, slots=True)
class Sample:
    """The runs that enter the means, and how many were left out and why (verdict reason codes, most frequent first)."""

    runs: pd.DataFrame
    excluded: pd.DataFrame
    excluded_by_reason: tuple[tuple[str, int], ...]
    suspect: int


def sample(frame: pd.DataFrame) -> Sample:
    """The runs that enter a design point: the rule of measure/design_points.py, for a whole table at once."""
    keep = frame["verdict"].isin(STANDING) & frame[list(RATES)].notna().all(axis=1)
    excluded = frame[~keep]
    reasons = Counter(code for codes in excluded["reason_codes"] for code in codes or ("no_rate",))
    kept = frame[keep]
    return Sample(
        runs=kept,
        excluded=excluded,
        excluded_by_reason=tuple(reasons.most_common()),
        suspect=int((kept["verdict"] == "suspect").sum()),
    )


def told_apart(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with the generator or testbed in their platform's name, as far as there is more than one of them."""
    differing = [name for name in APART if runs[name].nunique() > 1]
    if not differing:
        return runs
    words = runs[differing[0]].astype(str)
    for name in differing[1:]:
        words = words + ", " + runs[name].astype(str)
    return runs.assign(platform=runs["platform"].astype(str) + " (" + words + ")")
