"""The promises of drivers, exporters, report units, kinds of experiment and generators, each as an assertion."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from labconsole.contracts.driver import DriverInfo, StreamWiring
from labconsole.contracts.report import ReportUnit
from labconsole.errors import ConfigError
from labconsole.experiments.units import report_units
from labconsole.model.generator import NODE_FUNCTIONS, generator_of
from labconsole.model.generator_names import BUILT_IN
from labconsole.model.inventory import Inventory
from labconsole.model.plan.plan import Plan
from labconsole.model.plan.plugins import checked_experiment
from labconsole.model.record.kind import RecordKind
from labconsole.model.record.summary import RunSummary
from labconsole.nodes import archive
from labconsole.plugins import PluginError
from labconsole.report.loading import load_report
from labconsole.report.request import ReportRequest
from labconsole.store.exporting import ChosenRuns
from labconsole.store.open import open_store

# -- drivers, exporters and report units -------------------------------------------------------------------------------
# The promises of drivers, exporters and report units, each as an assertion with a sentence.

WIRING: Final = StreamWiring(
    name="s1",
    uut_in="eth1",
    uut_in_mac="02:00:00:00:00:01",
    uut_out="eth2",
    uut_out_mac="02:00:00:00:00:02",
    sink_mac="02:00:00:00:00:03",
    source_ip="198.18.1.1",
    sink_ip="198.19.1.1",
)
UNKNOWN_OPTION: Final = "an_option_that_nobody_has"


def check_driver(module: ModuleType, name: str, options: Mapping[str, Any] | None = None) -> None:
    """Check a platform driver: its ``DRIVER``, with ``driver: NAME`` and these ``options`` in hosts.yaml."""
    made = getattr(module, "DRIVER", None)
    assert callable(made), f"{module.__name__} has no class DRIVER"
    about = getattr(made, "about", None)
    assert isinstance(about, DriverInfo), "DRIVER.about is not a DriverInfo"
    assert about.name == name, f"DRIVER.about.name is {about.name!r}, and hosts.yaml would have {name!r}"
    assert about.summary and about.tried, "DRIVER.about has an empty summary or tried"
    assert issubclass(about.Options, BaseModel), "DRIVER.about.Options is not a pydantic model"
    assert about.Options.model_config.get("extra") == "forbid", "Options accepts unknown options"
    driver = made("platform", dict(options or {}))
    try:
        made("platform", {**(options or {}), UNKNOWN_OPTION: 1})
    except ConfigError as exc:
        assert UNKNOWN_OPTION in str(exc), "the error about an unknown option does not name it"
    else:
        raise AssertionError("an unknown option is not refused by a ConfigError")
    for method in ("prepare", "restore"):
        assert inspect.iscoroutinefunction(getattr(driver, method, None)), f"{method} is not a coroutine"
    for background in ("none", "idle", "light", "forwarding-50"):
        said = driver.refusal(background)
        assert said is None or isinstance(said, str), f"refusal({background!r}) is neither None nor a sentence"
    lines = driver.commands([WIRING])
    assert isinstance(lines, list) and all(isinstance(line, str) for line in lines), "commands() is not a list of lines"


def check_exporter(module: ModuleType, store: str | Path) -> None:
    """Check an exporter on all runs of a store, on one and on none."""
    binary = getattr(module, "BINARY", None)
    assert isinstance(binary, bool), f"{module.__name__} has no BINARY that is True or False"
    kind = bytes if binary else str
    with open_store(str(store), write=False) as opened:
        runs = opened.list()
        assert runs, f"{store} has no run to test it with"
        for chosen in (None, runs[:1], _none(runs)):
            parts = list(module.parts(ChosenRuns(opened, chosen, lambda problem: None)))
            wrong = next((part for part in parts if not isinstance(part, kind)), None)
            assert wrong is None, f"parts() gave {type(wrong).__name__}, and BINARY is {binary}"


def _none(runs: list[RunSummary]) -> list[RunSummary]:
    return runs[:0]


def check_units(module: ModuleType, store: str | Path) -> None:
    """Check report units in a report on everything in a store."""
    units = getattr(module, "UNITS", None)
    assert isinstance(units, tuple) and units, f"{module.__name__} has no tuple UNITS"
    assert all(isinstance(unit, ReportUnit) for unit in units), "UNITS contains something other than ReportUnit"
    ours = report_units(outside=False)
    taken = {unit.name for unit in ours}
    for unit in units:
        assert unit.name not in taken, f"a unit {unit.name} already exists"
        taken.add(unit.name)
    with open_store(str(store), write=False) as opened:
        theirs = [replace(unit, plugin=module.__name__) for unit in units]
        made = load_report(
            ReportRequest(), opened, [*ours, *theirs], place=str(store), on_unreadable=lambda problem: None
        )
    assert not made.failures, made.failures[0]


# -- kinds of experiment -----------------------------------------------------------------------------------------------
# The promises of a kind of experiment, each as an assertion with a sentence.


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


# -- generators --------------------------------------------------------------------------------------------------------
# The promises of a traffic generator, each as an assertion with a sentence.

_IMPORT: Final = """
import sys
sys.path.insert(0, sys.argv[1])
from importlib import import_module
module = import_module(sys.argv[2])
missing = [name for name in sys.argv[3:] if not callable(getattr(module, name, None))]
sys.exit("lacks " + ", ".join(missing) if missing else 0)
"""


def check_generator(module: ModuleType, name: str, *, python: str = sys.executable) -> None:
    """Check a traffic generator: its ``GENERATOR``, and its node code, imported as a node does.

    The import sees only the standard library of ``python`` and the agent's archive; give it a Python 3.9 if there is
    one. To test what the generator sends, measure with it.
    """
    assert name not in BUILT_IN, f"a generator {name} already exists"
    try:
        made = generator_of(module, name)
    except PluginError as exc:
        raise AssertionError(str(exc)) from None
    assert made.about.summary, "GENERATOR says nothing in summary"
    with tempfile.TemporaryDirectory() as place:
        agent = Path(place) / "agent.pyz"
        agent.write_bytes(archive.build_agent({name: made}))
        words = [str(agent), f"{archive.GENERATORS}.{name}", *NODE_FUNCTIONS]
        done = subprocess.run([python, "-I", "-S", "-c", _IMPORT, *words], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
    assert done.returncode == 0, f"{made.about.node} cannot be imported on a node: {last[0]}"
