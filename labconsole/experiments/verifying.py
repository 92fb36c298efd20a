"""How records of the kinds of experiment are computed again, found by their files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from labconsole import experiments, plugins
from labconsole.measure.recompute.discrepancy import Discrepancy
from labconsole.model.plan.outside import PACKAGE as OUTSIDE
from labconsole.model.plan.outside import load_experiment

Recompute = Callable[[Any], Sequence[Discrepancy]]


def recompute_of(kind: str) -> Recompute | None:
    """What ``RECOMPUTE`` is in ``verify.py`` of this kind's folder, or in the module of another package's; None: its
    runs are verified, or nothing.
    """
    if kind in plugins.outside(OUTSIDE):
        try:
            return getattr(load_experiment(kind), "RECOMPUTE", None)
        except plugins.PluginError:  # told by whoever asks for it
            return None
    name = f"{experiments.__name__}.{kind}.verify"
    try:
        found: Recompute | None = getattr(import_module(name), "RECOMPUTE", None)
    except ModuleNotFoundError as exc:
        if exc.name not in {name, f"{experiments.__name__}.{kind}"}:
            raise
        return None
    return found
