"""The kinds of experiment that plans can ask for beside their grids, found by their files, and by other packages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from labconsole import experiments, plugins
from labconsole.contracts.experiment import Experiment, Stage, Step, StepRecord
from labconsole.errors import ConfigError, LabError
from labconsole.model.inventory import Inventory
from labconsole.model.plan.outside import PACKAGE, asked_of, load_experiment
from labconsole.model.plan.plan import Plan

log = logging.getLogger("labconsole.experiments")
T = TypeVar("T")


def kinds(store: Any) -> tuple[Experiment, ...]:
    """Of each folder with a file ``steps.py``, its ``EXPERIMENT(store)``, in the order of the alphabet; then those of
    other packages. One that cannot be used is left out, and told where a plan asks for it.

    ``store`` keeps what they measure.
    """
    places = [path.parent.name for folder in experiments.__path__ for path in Path(folder).glob("*/steps.py")]
    modules = [import_module(f"{experiments.__name__}.{name}.steps") for name in sorted(places)]
    found: list[Experiment] = [module.EXPERIMENT(store) for module in modules]
    for name in plugins.outside(PACKAGE):
        try:
            found.append(OutsideExperiment(name, load_experiment(name).EXPERIMENT(store)))
        except Exception as exc:  # whatever a stranger's code does, it must not take the others along
            log.warning("%s", exc if isinstance(exc, plugins.PluginError) else _failed(name, exc))
    return tuple(found)


def _failed(name: str, exc: Exception) -> ConfigError:
    return ConfigError(f"plug-in {name} failed: {type(exc).__name__}: {exc}")


class OutsideExperiment:
    """A kind of another package: asked only about plans that ask for it, and what it raises is said as its own."""

    def __init__(self, name: str, inner: Experiment) -> None:
        self._name, self._inner = name, inner

    def _asked(self, question: Callable[[], T]) -> T:
        try:
            return question()
        except LabError:
            raise
        except Exception as exc:
            raise _failed(self._name, exc) from exc

    def steps(self, plan: Plan, only: frozenset[int] | None = None, salt: str = "") -> Sequence[Step]:
        """None of a plan that does not ask for it."""
        return () if asked_of(plan, self._name) is None else self._asked(lambda: self._inner.steps(plan, only, salt))

    def stored(self, steps: Sequence[Any], testbed_fingerprint: str) -> Mapping[str, StepRecord]:
        """As the kind says."""
        return self._asked(lambda: self._inner.stored(steps, testbed_fingerprint)) if steps else {}

    def earlier(self, testbed_fingerprint: str) -> Sequence[tuple[Step, StepRecord]]:
        """As the kind says; nothing where it fails, so that others are shown."""
        try:
            return self._asked(lambda: self._inner.earlier(testbed_fingerprint))
        except LabError as exc:
            log.warning("%s", exc)
            return ()

    def refuse(self, steps: Sequence[Any], plan: Plan, inventory: Inventory, stage: Stage) -> Mapping[str, ConfigError]:
        """As the kind says."""
        return self._asked(lambda: self._inner.refuse(steps, plan, inventory, stage)) if steps else {}
