"""How far the wall clocks of two nodes may be apart, measured and by statements, and which of both holds. Pure."""

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
    """Of a stream's two nodes, by the record's ``environment.nodes``; None: it does not tell of that node."""
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
    """Whether something is stated of the clock of any of these nodes."""
    return any(node is not None and STATED in node for node in nodes)


def statement(node: Mapping[str, Any]) -> ClockStatement | None:
    """What a node's part of the environment states of its clock; None: nothing that this version understands."""
    try:
        return None if STATED not in node else ClockStatement.model_validate(node[STATED])
    except ValidationError:
        return None


def _stated(names: Ends, nodes: tuple[Mapping[str, Any], Mapping[str, Any]]) -> tuple[int | None, str | None]:
    """(the sum of what is stated of both, why it does not count)."""
    total_ns, references, follows = 0, {}, False
    for name, node in zip(names, nodes, strict=True):
        said = statement(node)
        if said is None or said.error_ns is None:
            why = "nothing is stated of it" if said is None else said.refused or "nothing is told"
            return None, f"the clock of {name}: {why}"
        total_ns += said.error_ns
        if said.reference is not None:
            references[name] = said.reference
            follows = follows or not said.is_reference
    if total_ns == 0:
        return None, "both are stated to be exact, which no two clocks are"
    if len(set(references.values())) > 1:
        return None, "their references differ: " + ", ".join(f"{name} {what}" for name, what in references.items())
    if references and not follows:
        own = next(iter(references))
        return None, f"{own} is the reference by its own word only: the other node does not say that it follows it"
    return total_ns, None


def clock_sentence(stream: StreamRecord) -> str | None:
    """How far a stream's clocks agree and by whose word, where anything was stated of them."""
    told = read_extension(stream.extensions, EXTENSION, ClockAgreement)
    if told is None:
        return None
    if told.bound_by == "one kernel":
        return "source and sink have one clock"
    also = "" if told.unused is None else f"; what is stated does not count: {' '.join(told.unused.split())}"
    if told.bound_ns is None:
        return f"how far the clocks agree is not known{also}"
    others = {"stated": ("measured", told.measured_ns), "measured": ("stated", told.stated_ns)}
    what, other_ns = others[told.bound_by or "measured"]
    beside = "" if other_ns is None or told.unused else f" ({what}: to {other_ns} ns)"
    words = "as is stated of them" if told.bound_by == "stated" else "as labconsole measured"
    return f"the clocks agree to {told.bound_ns} ns, {words}{beside}{also}"
