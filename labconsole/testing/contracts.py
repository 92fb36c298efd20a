"""The promises of drivers, exporters and report units, each as an assertion with a sentence."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pydantic import BaseModel

from labconsole.contracts.driver import DriverInfo, StreamWiring
from labconsole.contracts.report import ReportUnit
from labconsole.errors import ConfigError
from labconsole.experiments.units import report_units
from labconsole.model.record.summary import RunSummary
from labconsole.report.loading import load_report
from labconsole.report.request import ReportRequest
from labconsole.store.exporting import ChosenRuns
from labconsole.store.open import open_store

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
