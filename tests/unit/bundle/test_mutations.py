"""Any number of a consistent store, changed: verify finds it, or it is one that nothing else in a record repeats.

docs/data-format.md names those, in the section on what verify holds against each other.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from labconsole.bundle.examination import Examination
from labconsole.errors import StoreError
from labconsole.store.records import parse_record
from support.consistent_runs import consistent
from support.numbers_within import numbers

DOCS = (Path(__file__).parents[3] / "docs" / "data-format.md").read_text()
RAW = {
    "point": r"plan\.point",  # where it becomes one that no other run has
    "seed": r"plan\.seed",
    "position": r"plan\.position",
    "warm_ups": r"plan\.warm_ups",
    "attempt": r"plan\.attempt",
    "attempts": r"plan\.attempts",
    "set_ups": r"plan\.set_ups",
    "repetitions": r"plan\.repetitions",
    "set_up_trials": r"plan\.set_up_trials",
    "burst_packets": r".*streams\.\d+\.burst_packets",
    "sequence": r".*streams\.\d+\.sequence\..*",
    "delay": r".*streams\.\d+\.delay\.(packets|pair_every_packets|clock_bound_ns|one_way_ns\.mean|ipdv_ns\..*)",
    "window_s": r".*streams\.\d+\.arrivals\.window_s",
    "resolution_s": r".*streams\.\d+\.arrivals\.resolution_s",
    "setup_s": r"set_up\.setup_s",
    "trial": r"set_up\.trial",
    "in_force": r"in_force\..*",
    "timeline": r"timeline\..*",
    "environment": r"environment\..*",
    "influences": r"influences\..*",
    "background.achieved": r"background\.achieved\.window_s",
    "background.reference": r"background\.reference\.(runs|frame_size_bytes|sources)",
    "captured_packets": r"streams\.0\.capture\.captured_packets",  # of a capture that is not complete
    "target_bps": r"requested\.target_bps",  # by less than the delay, a whole number of ns, tells
    "evidence": r"verdict\.reasons\.\d+\.evidence\.drops\..*",
}
"""By the word under which the page names it, the paths of what can only be wrong when it becomes impossible."""

CHANGES = (
    lambda value: value + 1,
    lambda value: value - 1,
    lambda value: value * 2 + 3,
    lambda value: type(value)(value * 0.9),
    lambda value: -value - 1,
    lambda value: type(value)(0),
)


def differences(runs: list[dict[str, Any]]) -> list[str]:
    found: list[str] = []
    examination = Examination(lambda run_id, wrong: found.append(f"{run_id} {wrong.where}"))
    for data in runs:
        try:
            examination.take(parse_record(data, "made up"))
        except StoreError as exc:
            return [str(exc)]
    examination.end([])
    return found


@pytest.mark.parametrize("run_id", ["block-1-raw", "block-2-kvm", "beside", "missed", "two", "lost-node"])
def test_a_changed_number_is_found_or_named_as_raw(run_id: str) -> None:
    source = random.Random(run_id)
    place = next(place for place, each in enumerate(consistent()) if each["run_id"] == run_id)
    leaves = [(path, value) for path, value in numbers(consistent()[place]) if path != ("format",)]
    silent = []
    for path, value in leaves:
        changed = source.choice(CHANGES)(value)
        name = ".".join(str(step) for step in path)
        if changed == value or any(re.fullmatch(pattern, name) for pattern in RAW.values()):
            continue
        runs = consistent()
        held: Any = runs[place]
        for step in path[:-1]:
            held = held[step]
        held[path[-1]] = changed
        if not differences(runs):
            silent.append(f"{name}: {value} to {changed}")
    assert silent == []


def test_what_nothing_repeats_is_named_by_the_documentation() -> None:
    told = DOCS.partition("No other part of a record repeats these numbers")[2].partition("## Format 1")[0]
    assert told
    assert [word for word in RAW if f"`{word}`" not in told] == []
