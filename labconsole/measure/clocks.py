"""Bounds between the wall clocks of two nodes, measured and stated, and which of them applies. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from labconsole.measure.timing import clock_bound_ns, clocks_apart_ns
from labconsole.model.record.clocks import EXTENSION, STATED, ClockAgreement, ClockStatement
from labconsole.model.record.extension import read_extension
from labconsole.model.record.run import StreamRecord

Ends = tuple[str, str]


def agreement(names: Ends, source: dict[str, Any] | None, sink: dict[str, Any] | None) -> ClockAgreement:
    """The agreement of a stream's two nodes, by the record's ``environment.nodes``; None for a node missing there."""
    if source is None or sink is None:
        return ClockAgreement(bound_ns=None, bound_by=None, measured_ns=None, stated_ns=None)
    measured_ns = clock_bound_ns(source, sink)
    stated_ns, unused = _stated(names, (source, sink))
    if measured_ns == 0:
        return ClockAgreement(bound_ns=0, bound_by="one kernel", measured_ns=0, stated_ns=stated_ns)
    distance_ns, wrong_ns = clocks_apart_ns(source, sink) or (0, 0)
    apart_ns = distance_ns - wrong_ns
    contradicted = stated_ns is not None and apart_ns > stated_ns
    if contradicted:
        unused = (
            f"the clocks of {names[0]} and {names[1]} are stated to agree to {stated_ns} ns, and labconsole measured "
            f"that they are at least {apart_ns} ns apart"
        )
    holds = stated_ns is not None and not contradicted and (measured_ns is None or stated_ns < measured_ns)
    bound_ns = stated_ns if holds else measured_ns
    return ClockAgreement(
        bound_ns=bound_ns,
        bound_by="stated" if holds else None if bound_ns is None else "measured",
        measured_ns=measured_ns,
        stated_ns=stated_ns,
        unused=unused,
        contradicted=contradicted,
    )


def is_stated(*nodes: Mapping[str, Any] | None) -> bool:
    """Whether anything is stated about the clock of any of these nodes."""
    return any(node is not None and STATED in node for node in nodes)


def statement(node: Mapping[str, Any]) -> ClockStatement | None:
    """The statement about a node's clock in the environment, or None if there is none that this version understands."""
    try:
        return None if STATED not in node else ClockStatement.model_validate(node[STATED])
    except ValidationError:
        return None


def _stated(names: Ends, nodes: tuple[Mapping[str, Any], Mapping[str, Any]]) -> tuple[int | None, str | None]:
    """(the sum of the errors stated for both nodes, why it does not count)."""
    total_ns, references, follows = 0, {}, False
    for name, node in zip(names, nodes, strict=True):
        said = statement(node)
        if said is None or said.error_ns is None:
            why = "its error is not stated" if said is None else said.refused or "no error was reported"
            return None, f"the clock of {name}: {why}"
        total_ns += said.error_ns
        if said.reference is not None:
            references[name] = said.reference
            follows = follows or not said.is_reference
    if total_ns == 0:
        return None, "both are stated to be exact, which two clocks never are"
    if len(set(references.values())) > 1:
        return None, "their references differ: " + ", ".join(f"{name} {what}" for name, what in references.items())
    if references and not follows:
        own = next(iter(references))
        return None, f"{own} claims to be the reference, but the other node does not report that it follows it"
    return total_ns, None


def clock_sentence(stream: StreamRecord) -> str | None:
    """The agreement of a stream's clocks and its origin, or None if nothing was stated about them."""
    clocks = read_extension(stream.extensions, EXTENSION, ClockAgreement)
    if clocks is None:
        return None
    if clocks.bound_by == "one kernel":
        return "source and sink have one clock"
    also = "" if clocks.unused is None else f"; what is stated does not count: {' '.join(clocks.unused.split())}"
    if clocks.bound_ns is None:
        return f"how far the clocks agree is not known{also}"
    others = {"stated": ("measured", clocks.measured_ns), "measured": ("stated", clocks.stated_ns)}
    what, other_ns = others[clocks.bound_by or "measured"]
    alternative = "" if other_ns is None or clocks.unused else f" ({what}: to {other_ns} ns)"
    origin = "as is stated of them" if clocks.bound_by == "stated" else "as labconsole measured"
    return f"the clocks agree to {clocks.bound_ns} ns, {origin}{alternative}{also}"
