"""Conditions that must be equal, besides the design point, before runs count as repetitions of each other. Pure; for
every format.

Unknown is a value of its own: runs with an unknown condition pool with each other and with no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labconsole.model.record.run import Conditions, RunRecord

MOST_LENGTH = 200
"""Longest version text that a node may report."""


def derive_conditions(record: RunRecord) -> Conditions:
    """The conditions of the record, or those that its environment shows for format 1."""
    if record.conditions is not None:
        return record.conditions
    stream = record.streams[0] if record.streams else None
    uut = next((hop.node for hop in stream.ledger if hop.hop == "uut_in"), None) if stream is not None else None
    return read_conditions(record.environment, uut)


def read_conditions(environment: Mapping[str, Any], uut: str | None) -> Conditions:
    """Read the conditions from a record's environment. ``uut``: the UUT's name among the nodes, or None if unknown."""
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


def format_hypervisor(conditions: Conditions) -> str | None:
    """The platform's driver, with the versions of its hypervisor and of the guests' images."""
    if conditions.hypervisor is None or not conditions.hypervisor_version:
        return conditions.hypervisor
    return f"{conditions.hypervisor} {conditions.hypervisor_version}"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return value[:MOST_LENGTH] if isinstance(value, str) else None
