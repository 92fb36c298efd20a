"""The kinds of experiment that plans can request in addition to their grids, found by file, and plug-ins' kinds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from labconsole import plugins
from labconsole.contracts.experiment import Bench, Experiment, Stage, Step, StepRecord
from labconsole.contracts.measured import MeasuredKind
from labconsole.contracts.picture import StepPicture
from labconsole.errors import ConfigError, LabError
from labconsole.measure.recompute.discrepancy import Discrepancy
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.model.plan.plan import Plan
from labconsole.model.plan.plugins import PACKAGE, find_factors, load_experiment

log = logging.getLogger("labconsole.experiments")
T = TypeVar("T")

Recompute = Callable[[Any], Sequence[Discrepancy]]
Unjudged = Callable[[Any], Iterable[str]]


def kinds(store: Any) -> tuple[Experiment, ...]:
    """Return the kinds: ``EXPERIMENT(store)`` of each folder with ``steps.py``, alphabetically, then those of plug-ins.

    A plug-in's kind that cannot be used is left out; a plan that requests it reports the error. ``store`` keeps what
    the kinds measure.
    """
    found: list[Experiment] = [module.EXPERIMENT(store) for module in plugins.load_kind_files("steps").values()]
    for name in plugins.find_external_names(PACKAGE):
        try:
            found.append(PluginExperiment(name, load_experiment(name).EXPERIMENT(store)))
        except Exception as exc:  # a plug-in's error of any type must not affect the other kinds
            log.warning("%s", exc if isinstance(exc, plugins.PluginError) else _failed(name, exc))
    return tuple(found)


def load_measured_kinds() -> tuple[MeasuredKind, ...]:
    """Return what the kinds measure, for comparisons: ``MEASURED`` of each folder with ``measured.py``."""
    return tuple(module.MEASURED for module in plugins.load_kind_files("measured").values())


def find_recompute(kind: str) -> Recompute | None:
    """Return ``RECOMPUTE`` in ``verify.py`` of this kind's folder, or in the plug-in's module.

    None means that its runs are verified instead, or nothing.
    """
    found: Recompute | None = getattr(_verify_module(kind), "RECOMPUTE", None)
    return found


def find_unjudged(kind: str) -> Unjudged | None:
    """Return ``UNJUDGED`` from there, which names what of a record cannot be judged again, or None if there is none."""
    found: Unjudged | None = getattr(_verify_module(kind), "UNJUDGED", None)
    return found


def _verify_module(kind: str) -> Any:
    """Return the module that says how a kind is verified, or None."""
    if kind in plugins.find_external_names(PACKAGE):
        try:
            return load_experiment(kind)
        except plugins.PluginError:  # the callers report it
            return None
    return plugins.load_kind_file(kind, "verify") if kind in plugins.find_kinds("verify") else None


def find_plugin_hashes(plan: Plan, store: Any) -> list[str]:
    """Return the hashes of the records of a plan's steps of plug-in kinds. Raises LabError."""
    if not plan.experiments:
        return []
    own = [kind for kind in kinds(store) if isinstance(kind, PluginExperiment)]
    return [step.hash for kind in own for step in kind.steps(plan)]


def _failed(name: str, exc: Exception) -> ConfigError:
    return ConfigError(f"plug-in {name} failed: {type(exc).__name__}: {exc}")


def _call_plugin(name: str, question: Callable[[], T]) -> T:
    """Return a plug-in's answer. Raises LabError for any exception of the plug-in."""
    try:
        return question()
    except LabError:
        raise
    except Exception as exc:
        raise _failed(name, exc) from exc


class PluginStep:
    """A step of a plug-in's kind. Its exceptions end this step, but neither the plan nor the program that shows it."""

    def __init__(self, name: str, inner: Step) -> None:
        self._name, self.inner = name, inner
        self.request: DesignPoint = _call_plugin(name, lambda: inner.request)
        if not isinstance(self.request, DesignPoint):  # the key by which the platform is set up for it
            raise ConfigError(f"plug-in {name} failed: a step of it has no design point")
        self.hash: str = _call_plugin(name, lambda: inner.hash)

    def describe(self) -> str:
        """Return the step's description, or its error."""
        try:
            return _call_plugin(self._name, self.inner.describe)
        except LabError as exc:
            return str(exc)

    def durations_s(self, inventory: Inventory) -> Sequence[float]:
        """Return the step's durations."""
        return _call_plugin(self._name, lambda: [float(each) for each in self.inner.durations_s(inventory)])

    def format_factors(self) -> dict[str, str]:
        """Return what distinguishes the step from others, by table heading; empty if the plug-in does not say."""
        find = getattr(self.inner, "format_factors", None)
        if find is None:
            return {}
        try:
            return _call_plugin(self._name, lambda: {str(key): str(value) for key, value in find().items()})
        except LabError as exc:
            log.warning("%s", exc)
            return {}

    async def take(self, bench: Bench) -> StepRecord:
        """Run the step."""
        try:
            return await self.inner.take(bench)
        except LabError:
            raise
        except Exception as exc:
            raise _failed(self._name, exc) from exc

    def picture(self, record: StepRecord) -> StepPicture:
        """Return the step's picture, or its error."""
        try:
            return _call_plugin(self._name, lambda: self.inner.picture(record))
        except LabError as exc:
            return StepPicture(found=(str(exc),))


class PluginExperiment:
    """A plug-in's kind of experiment. It is used only for plans that request it, and errors name it."""

    def __init__(self, name: str, inner: Experiment) -> None:
        self._name, self._inner = name, inner

    def steps(self, plan: Plan, only: frozenset[int] | None = None, salt: str = "") -> Sequence[Step]:
        """Return the kind's steps; none for a plan that does not request it."""
        if find_factors(plan, self._name) is None:
            return ()
        steps = _call_plugin(self._name, lambda: list(self._inner.steps(plan, only, salt)))
        return [PluginStep(self._name, each) for each in steps]

    def stored(self, steps: Sequence[Any], testbed_fingerprint: str) -> Mapping[str, StepRecord]:
        """Return the kind's stored records."""
        own = [each.inner for each in steps]
        return _call_plugin(self._name, lambda: self._inner.stored(own, testbed_fingerprint)) if own else {}

    def earlier(self, testbed_fingerprint: str) -> Sequence[tuple[Step, StepRecord]]:
        """Return the kind's earlier records, or nothing where it fails, so that others are shown."""
        try:
            found = _call_plugin(self._name, lambda: list(self._inner.earlier(testbed_fingerprint)))
            return [(PluginStep(self._name, step), record) for step, record in found]
        except LabError as exc:
            log.warning("%s", exc)
            return ()

    def refuse(self, steps: Sequence[Any], plan: Plan, inventory: Inventory, stage: Stage) -> Mapping[str, ConfigError]:
        """Return the steps that the kind refuses."""
        own = [each.inner for each in steps]
        return _call_plugin(self._name, lambda: self._inner.refuse(own, plan, inventory, stage)) if own else {}
