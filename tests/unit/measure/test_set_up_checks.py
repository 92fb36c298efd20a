"""Trials of one set-up beside each other: what they have in common is kept once."""

from __future__ import annotations

import gc
import weakref
from datetime import UTC, datetime
from typing import Any

from labconsole.measure.recompute.cross_record_checks import SetUpChecks, SetUpTrial


class Attestation(dict[str, Any]):
    """A dictionary that can be referred to weakly."""


def trial(number: int) -> SetUpTrial:
    begun, ended = (datetime(2026, 11, 29, number, minute, tzinfo=UTC) for minute in (0, 30))
    return SetUpTrial(
        record_id=f"r{number}",
        set_up="s1",
        trial=number,
        begun=begun,
        ended=ended,
        testbed=None,
        place=None,
        attempt=1,
        enters=True,
        final=True,
    )


def test_the_facts_of_later_trials_are_compared_and_not_kept() -> None:
    checks, kept = SetUpChecks(), []
    for number in (1, 2, 3):
        attestation = Attestation(driver="lxc" if number < 3 else "xl")
        kept.append(weakref.ref(attestation))
        found = list(checks.add(trial(number), {"attestation": attestation}))
        assert [each.where for each in found] == (["set_up.id"] if number == 3 else [])
    del attestation
    gc.collect()
    assert [each() is not None for each in kept] == [True, False, False]
    assert list(checks.ending()) == []
