"""Experiments of other packages: a plan's entries under ``experiments``, validated by their own factors.

A plug-in's module has ``EXPERIMENT``, called with the store, ``FACTORS``, a model of its entry in a plan, and
optionally ``RECOMPUTE``, which verifies its records. Its record and its report units are plug-ins of their own.
docs/plugins.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from pydantic import BaseModel, ValidationError

from labconsole import plugins
from labconsole.errors import ConfigError
from labconsole.model.generator import taken_from_elsewhere
from labconsole.model.plan.plan import Plan
from labconsole.model.strict_model import describe_problem

PACKAGE = "experiments"

Refuse = Callable[[tuple[str | int, ...], str, object, str | None], ConfigError]


def load_experiment(name: str) -> ModuleType:
    """Load another package's kind of experiment. Raises PluginError, which names it and the problem."""
    if name not in plugins.find_external_names(PACKAGE):
        raise plugins.UnknownPlugin(name, plugins.find_external_names(PACKAGE))
    return checked_experiment(plugins.load(PACKAGE, name), name)


def checked_experiment(module: ModuleType, name: str) -> ModuleType:
    """Return the module if it has everything a kind needs. Raises PluginError."""
    factors = getattr(module, "FACTORS", None)
    if not callable(getattr(module, "EXPERIMENT", None)):
        raise plugins.PluginError(f"plug-in {name} cannot be used: it has no EXPERIMENT that can be called")
    if not isinstance(factors, type) or not issubclass(factors, BaseModel):
        raise plugins.PluginError(f"plug-in {name} cannot be used: its FACTORS is not a pydantic model")
    if factors.model_config.get("extra") != "forbid" or not factors.model_config.get("frozen"):
        raise plugins.PluginError(f"plug-in {name} cannot be used: its FACTORS takes unknown keys, or can be changed")
    return module


def load_plugin_factors(written: Mapping[str, Mapping[str, Any]], refuse: Refuse) -> tuple[tuple[str, BaseModel], ...]:
    """The requested experiments of a plan's file, each with its kind's own factors. Problems are raised through
    ``refuse``.

    Kinds that are not installed are left out while stored plans are read: they may exist elsewhere.
    """
    found: list[tuple[str, BaseModel]] = []
    for name, said in written.items():
        try:
            found.append((name, load_experiment(name).FACTORS.model_validate(said)))
        except plugins.UnknownPlugin as exc:
            if not taken_from_elsewhere():
                problem_text = "is a kind of experiment that no installed package has"
                raise refuse(("experiments", name), problem_text, name, ", ".join(exc.known) or "(none)") from None
        except plugins.PluginError as exc:
            raise refuse(("experiments", name), str(exc), None, None) from None
        except ValidationError as exc:
            problem = exc.errors(include_url=False)[0]
            message, allowed = describe_problem(problem)
            value = None if isinstance(problem["input"], dict | list) else problem["input"]
            raise refuse(("experiments", name, *problem["loc"]), message, value, allowed) from None
    return tuple(found)


def find_factors(plan: Plan, kind: str) -> BaseModel | None:
    """A plan's factors for this kind, or None."""
    return dict(plan.experiments).get(kind)
