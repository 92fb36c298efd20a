"""Contradictions made by hand, one at a time, in a search of the golden set of format 2, with the runs that it took."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from labconsole.model.record.search import SEARCH
from labconsole.store.experiments import parse_experiment
from labconsole.store.open import open_store
from labconsole.store.records import parse_record
from support.contradictory_runs import set_to

GOLDEN = Path(__file__).parents[1] / "golden" / "format-2" / "runs.jsonl.gz"


def ended_early(data: dict[str, Any]) -> None:
    """As soon as it had begun."""
    data["finished_at"] = data["started_at"]


SEARCHES: list[tuple[str, Callable[[dict[str, Any]], None], str]] = [
    ("a search over before it began", set_to("finished_at", "2026-11-22T10:00:00.000Z"), "finished_at"),
    ("a search that ended at no time", set_to("finished_at", "later"), "finished_at"),
    ("a trial taken after its search", ended_early, "trials["),
    ("trials of another testbed", set_to("testbed_fingerprint", "0" * 16), "trials[0].run_id"),
    ("trials of another platform", set_to("requested.platform", "esxi"), "trials[0].run_id"),
    ("one trial twice", set_to("trials", lambda held: [held[0], *held]), "trials[1].run_id"),
    ("a trial that is not here", set_to("trials.0.run_id", "20200101T000000Z-ffffff"), "trials[0].run_id"),
    ("counts that are not those of the run", set_to("trials.0.measured_packets", 7), "trials[0].measured_packets"),
    ("a lower bound above the upper one", set_to("goals.0.lower_bound_pps", 10**9), "goals[0].lower_bound_pps"),
    ("a goal twice", set_to("goals", lambda held: [held[0], *held]), "goals[1].goal"),
    ("loads above the line rate", set_to("lowest_load_pps", 1e11), "lowest_load_pps"),
    ("a search that is done, and why it ended early", set_to("failure", "it broke"), "failure"),
]
"""(name, change, where verify has to see it)."""


@cache
def _golden() -> tuple[list[str], str]:
    """The runs of the first search, and the search, as lines."""
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    search = next(line["search"] for line in lines if "search" in line)
    taken = {trial["run_id"] for trial in search["trials"]}
    return [json.dumps(line) for line in lines if line.get("run_id") in taken], json.dumps(search)


def searched() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The runs of a search, and the search."""
    runs, search = _golden()
    return [json.loads(run) for run in runs], json.loads(search)


def stored_search(path: Path, runs: list[dict[str, Any]], search: dict[str, Any]) -> None:
    """A store of these."""
    with open_store(str(path)) as store:
        for run in runs:
            store.save(parse_record(run, "golden"))
        store.save_experiment(SEARCH, parse_experiment(SEARCH, search, "golden"))
