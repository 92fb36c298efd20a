"""A second statement of the bound between a stream's clocks, from the record's environment. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.measure.recompute.extensions import has_version, readable
from labconsole.model.record.capture_stamps import EXTENSION as STAMPS
from labconsole.model.record.capture_stamps import VERSION as STAMPS_VERSION
from labconsole.model.record.clocks import EXTENSION, STATED, VERSION, ClockAgreement
from labconsole.model.record.run import RunRecord, StreamRecord


def known(extension: Any) -> bool:
    """Whether this version can judge it."""
    return has_version(extension, VERSION)


def known_stamps(extension: Any) -> bool:
    """Whether this version can judge them."""
    return has_version(extension, STAMPS_VERSION)


def least_bound_ns(stream: StreamRecord, record: RunRecord) -> int | None:
    """The least bound between the clocks of a stream's ends, or None if the environment does not show it.

    It is the offsets' distance plus both errors, or the stated sum if that is less and not disproved; 0 under one
    kernel.
    """
    found = _ends(stream, record)
    if len(found) != 2:
        return None
    boots = [_part(node, "facts").get("boot_id") for node in found]
    if boots[0] is not None and boots[0] == boots[1]:
        return 0
    stated, apart = _stated_ns(found), _apart_ns(found)
    if apart is None:
        return stated
    least, most = apart
    return most if stated is None or stated < least else min(stated, most)


def stamps_bound_ns(stream: StreamRecord) -> int | None:
    """The bound between the clock that stamped the capture and the sink's, 0 for the sink's own, or None if unknown."""
    stamps = stream.extensions.get(STAMPS)
    if stamps is None or not known_stamps(stamps):
        return 0
    bound = stamps.get("clock_bound_ns")
    return bound if type(bound) is int else None


def contradicting_clocks(where: str, stream: StreamRecord, record: RunRecord) -> Iterator[Discrepancy]:
    """Contradictions between the extension and the environment."""
    extension = stream.extensions.get(EXTENSION)
    if extension is None or not known(extension):
        return
    clocks, problems = readable(where, extension, ClockAgreement, ClockAgreement)
    yield from problems
    found = _ends(stream, record)
    if clocks is None or len(found) != 2:
        return
    bound, stated, apart = least_bound_ns(stream, record), _stated_ns(found), _apart_ns(found)
    if clocks.bound_ns != bound:
        yield against(f"{where}.bound_ns", f"is {clocks.bound_ns}, and by the environment {bound}", clocks.bound_ns)
    if clocks.stated_ns != stated:
        yield against(f"{where}.stated_ns", f"is {clocks.stated_ns}, and by the environment {stated}", clocks.stated_ns)
    if bound and clocks.contradicted != (stated is not None and apart is not None and apart[0] > stated):
        yield against(f"{where}.contradicted", "does not agree with the environment")


def _ends(stream: StreamRecord, record: RunRecord) -> list[dict[str, Any]]:
    names = [next((hop.node for hop in stream.ledger if hop.hop == name), None) for name in ("source_nic", "sink_nic")]
    nodes = record.environment.get("nodes")
    found = [nodes.get(name) for name in names] if isinstance(nodes, dict) else []
    return [node for node in found if isinstance(node, dict)]


def _apart_ns(ends: list[dict[str, Any]]) -> tuple[int, int] | None:
    """The least and greatest difference of the two clocks, by their comparison with the console's, or None."""
    keys = ("clock_offset_ns", "clock_error_ns")
    offsets, errors = ([value for node in ends if type(value := node.get(key)) is int] for key in keys)
    if len(offsets) < len(ends) or len(errors) < len(ends):
        return None
    distance, error = abs(offsets[1] - offsets[0]), sum(errors)
    return distance - error, distance + error


def _stated_ns(ends: list[dict[str, Any]]) -> int | None:
    """The sum of the errors stated for both, or None.

    None if one of them has no statement, both are 0, references differ, or one claims to be the reference itself.
    """
    said = [_part(node, STATED) for node in ends]
    errors = [error for each in said if type(error := each.get("error_ns")) is int]
    named = [each for each in said if each.get("reference") is not None]
    if named and all(each.get("is_reference") is True for each in named):
        return None
    references = {str(each["reference"]) for each in named}
    return None if len(references) > 1 or len(errors) < len(ends) else sum(errors) or None


def _part(node: dict[str, Any], key: str) -> dict[str, Any]:
    found = node.get(key)
    return found if isinstance(found, dict) else {}
