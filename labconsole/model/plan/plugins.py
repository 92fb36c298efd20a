"""Kinds of experiment of other packages: what a plan asks of them, under ``experiments``, checked by their own factors.

A plug-in's module has ``EXPERIMENT``, called with the store, ``FACTORS``, a model of what a plan may say, and perhaps
``RECOMPUTE``, by which its records are verified. Its record and its units plug in by themselves. docs/plugins.md.
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
from labconsole.model.validation_message import describe_problem

PACKAGE = "experiments"

Refuse = Callable[[tuple[str | int, ...], str, object, str | None], ConfigError]


def load_experiment(name: str) -> ModuleType:
    """The module of a kind of another package. Raises PluginError, which names it and says what is wrong."""
    if name not in plugins.find_external_names(PACKAGE):
        raise plugins.UnknownPlugin(name, plugins.find_external_names(PACKAGE))
    return checked_experiment(plugins.load(PACKAGE, name), name)


def checked_experiment(module: ModuleType, name: str) -> ModuleType:
    """The same module, if it has what a kind needs. Raises PluginError."""
    factors = getattr(module, "FACTORS", None)
    if not callable(getattr(module, "EXPERIMENT", None)):
        raise plugins.PluginError(f"plug-in {name} cannot be used: it has no EXPERIMENT that can be called")
    if not isinstance(factors, type) or not issubclass(factors, BaseModel):
        raise plugins.PluginError(f"plug-in {name} cannot be used: its FACTORS is not a pydantic model")
    if factors.model_config.get("extra") != "forbid" or not factors.model_config.get("frozen"):
        raise plugins.PluginError(f"plug-in {name} cannot be used: its FACTORS takes unknown keys, or can be changed")
    return module


def load_plugin_factors(written: Mapping[str, Mapping[str, Any]], refuse: Refuse) -> tuple[tuple[str, BaseModel], ...]:
    """What a plan's file asks for, kind by kind, as each kind's own factors. Raises what ``refuse`` makes of a problem.

    What nobody has here is left out while stored plans are read, whose kinds may be elsewhere.
    """
    found: list[tuple[str, BaseModel]] = []
    for name, said in written.items():
        try:
            found.append((name, load_experiment(name).FACTORS.model_validate(said)))
        except plugins.UnknownPlugin as exc:
            if not taken_from_elsewhere():
                words = "is a kind of experiment that no installed package has"
                raise refuse(("experiments", name), words, name, ", ".join(exc.known) or "(none)") from None
        except plugins.PluginError as exc:
            raise refuse(("experiments", name), str(exc), None, None) from None
        except ValidationError as exc:
            problem = exc.errors(include_url=False)[0]
            message, allowed = describe_problem(problem)
            value = None if isinstance(problem["input"], dict | list) else problem["input"]
            raise refuse(("experiments", name, *problem["loc"]), message, value, allowed) from None
    return tuple(found)


def find_factors(plan: Plan, kind: str) -> BaseModel | None:
    """What a plan asks of this kind; None: nothing."""
    return dict(plan.experiments).get(kind)
