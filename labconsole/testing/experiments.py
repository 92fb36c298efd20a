"""The promises of a kind of experiment, each as an assertion with a sentence."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from pydantic import BaseModel, ValidationError

from labconsole.model.inventory import Inventory
from labconsole.model.plan.plan import Plan
from labconsole.model.plan.plugins import checked_experiment
from labconsole.model.record.kind import RecordKind
from labconsole.plugins import PluginError
from labconsole.store.open import open_store
from labconsole.testing.contracts import UNKNOWN_OPTION


def check_experiment(
    module: ModuleType, name: str, plan: Plan, factors: Mapping[str, Any], inventory: Inventory, kind: RecordKind[Any]
) -> None:
    """Check a kind of experiment: the steps that it makes of these ``factors``, compared with a plan without them.

    ``plan`` and ``inventory`` are as ``load_plan`` and ``load_inventory`` read them; ``kind`` is that of its records.
    """
    try:
        checked_experiment(module, name)
    except PluginError as exc:
        raise AssertionError(str(exc)) from None
    model: type[BaseModel] = module.FACTORS
    try:
        model.model_validate({**factors, UNKNOWN_OPTION: 1})
    except ValidationError:
        pass
    else:
        raise AssertionError("FACTORS accepts an unknown key")
    assert kind.name == name, f"its records are of kind {kind.name!r}, and the plan's key is {name!r}"
    asked = (name, model.model_validate(dict(factors)))
    with_it = replace(plan.resolved(inventory), experiments=(asked,))
    with tempfile.TemporaryDirectory() as place, open_store(f"{place}/runs.sqlite") as store:
        made = module.EXPERIMENT(store)
        steps, again, salted = (made.steps(with_it, None, salt) for salt in ("", "", "occasion"))
        assert steps, "it builds no step from these factors"
        hashes = [step.hash for step in steps]
        assert len(set(hashes)) == len(hashes), "two steps have the same hash"
        assert [step.hash for step in again] == hashes, "a step's hash differs from call to call"
        assert not {step.hash for step in salted} & set(hashes), "a salt does not change the hashes of steps"
        for step in steps:
            assert step.request.platform in inventory.platforms, f"{step.request.platform} is not a platform"
            words, durations_s = step.describe(), step.durations_s(inventory)
            assert isinstance(words, str) and words and "\n" not in words, "describe() is not one line"
            assert durations_s and all(each > 0 for each in durations_s), (
                "durations_s() gives no duration of its trials"
            )
        assert not made.stored(steps, inventory.fingerprint()), "it finds stored steps in an empty store"
        assert not made.earlier(inventory.fingerprint()), "it finds earlier steps in an empty store"
    recompute = getattr(module, "RECOMPUTE", None)
    assert recompute is None or callable(recompute), "RECOMPUTE cannot be called"
