"""How maxima are said: where they were not reached, and by which methods they were read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from labconsole.experiments.forwarding.units import maxima
from labconsole.report.evaluation import evaluate
from labconsole.report.points import MaximumReading
from labconsole.store.importing import import_records
from labconsole.store.open import open_store
from support.report_runs import set_ups_of


@pytest.fixture
def reading(tmp_path: Path) -> MaximumReading:
    with open_store(str(tmp_path / "runs.sqlite")) as store:
        import_records(store, set_ups_of([100.0] * 3))
        (only,) = evaluate(sorted(store.list(), key=lambda run: run.run_id)).maxima
    return only


def test_conditions_in_a_platforms_name_are_no_part_of_its_settings(reading: MaximumReading) -> None:
    told_apart = reading.setting._replace(platform="raw (1 s, lab, testbed b82a0b6e)")
    (finding,) = maxima._describe_not_reached([replace(reading, setting=told_apart, at_least=True)])
    assert finding.sentence.startswith("raw (1 s, lab, testbed b82a0b6e): less than 0.1 % is lost")
    assert "concluded from it: 1000 B, 1 source (at least" in finding.sentence


def test_of_several_methods_only_the_first_begins_with_a_capital(reading: MaximumReading) -> None:
    one_load = replace(reading, choice=replace(reading.choice, method="one load: a rate, no maximum"))
    pilots = replace(reading, choice=replace(reading.choice, method="pilot's load"))
    assert maxima._describe_maximum([one_load, pilots]) == (
        "Rate at the one load that was measured, or rate at the load that the pilot chose"
    )
