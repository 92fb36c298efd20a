"""What has to be equal, beside the design point, before runs are repetitions of each other. Pure; for every format.

Unknown is a value of its own: runs of which it is not known pool with each other and with no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labconsole.model.record.run import Conditions, RunRecord

MOST_LENGTH = 200
"""Of a version as a node tells it."""


def derive_conditions(record: RunRecord) -> Conditions:
    """As the record says, or as its environment shows where it is of format 1."""
    if record.conditions is not None:
        return record.conditions
    stream = record.streams[0] if record.streams else None
    uut = next((hop.node for hop in stream.ledger if hop.hop == "uut_in"), None) if stream is not None else None
    return read_conditions(record.environment, uut)


def read_conditions(environment: Mapping[str, Any], uut: str | None) -> Conditions:
    """From the environment of a record. ``uut``: the unit under test's name among the nodes; None: not known."""
    facts = _mapping(_mapping(_mapping(environment.get("nodes")).get(uut or "")).get("facts"))
    platform = _mapping(environment.get("platform"))
    versions = platform.get("versions")
    if isinstance(versions, Mapping):
        version: str | None = ", ".join(f"{name} {value}" for name, value in sorted(versions.items()))
    else:
        version = _text(platform.get("version"))
    return Conditions(
        uut_kernel=_text(facts.get("kernel")),
        hypervisor=_text(platform.get("driver")),
        hypervisor_version=version[:MOST_LENGTH] if version else None,
        uut_boot_id=_text(facts.get("boot_id")),
    )


def format_hypervisor(held: Conditions) -> str | None:
    """The platform's driver, and the versions of what runs the guests and of what they start from."""
    if held.hypervisor is None or not held.hypervisor_version:
        return held.hypervisor
    return f"{held.hypervisor} {held.hypervisor_version}"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return value[:MOST_LENGTH] if isinstance(value, str) else None
