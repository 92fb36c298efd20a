"""A record's environment: nodes and platform as observed, with free keys and a fixed structure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

Attestation = dict[str, Any]
"""A platform's report on its running guests."""


def _check_shape(environment: dict[str, Any]) -> dict[str, Any]:
    """Raises ValueError for a part that readers expect to be an object and is not."""
    _require_mapping(environment.get("platform"), "platform")
    nodes = environment.get("nodes")
    _require_mapping(nodes, "nodes")
    for name, node in (nodes or {}).items():
        _require_mapping(node, f"nodes.{name}")
        for part in ("facts", "settings"):
            _require_mapping((node or {}).get(part), f"nodes.{name}.{part}")
    return environment


def _require_mapping(value: object, place: str) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise ValueError(f"{place} must be an object or null, not {type(value).__name__}")


Environment = Annotated[dict[str, Any], AfterValidator(_check_shape)]
"""The circumstances of a trial (nodes, platform, calibration), kept as reported."""
