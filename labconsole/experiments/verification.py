"""How records of the kinds of experiment are recomputed and judged again, found by their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from labconsole import plugins
from labconsole.measure.recompute.discrepancy import Discrepancy
from labconsole.model.plan.plugins import PACKAGE as OUTSIDE
from labconsole.model.plan.plugins import load_experiment

Recompute = Callable[[Any], Sequence[Discrepancy]]
Unjudged = Callable[[Any], Iterable[str]]


def find_recompute(kind: str) -> Recompute | None:
    """Return ``RECOMPUTE`` in ``verify.py`` of this kind's folder, or in the plug-in's module.

    None means that its runs are verified instead, or nothing.
    """
    found: Recompute | None = getattr(_module(kind), "RECOMPUTE", None)
    return found


def find_unjudged(kind: str) -> Unjudged | None:
    """Return ``UNJUDGED`` from there, which names what of a record cannot be judged again, or None if there is none."""
    found: Unjudged | None = getattr(_module(kind), "UNJUDGED", None)
    return found


def _module(kind: str) -> Any:
    """Return the module that says how a kind is verified, or None."""
    if kind in plugins.find_external_names(OUTSIDE):
        try:
            return load_experiment(kind)
        except plugins.PluginError:  # the callers report it
            return None
    return plugins.load_kind_file(kind, "verify") if kind in plugins.find_kinds("verify") else None
