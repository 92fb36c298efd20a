"""What a record keeps of nodes and platform as they were found: free in its keys, fixed in the shape of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

Attestation = dict[str, Any]
"""What a platform said of its guests while they were running."""


def _check_shape(environment: dict[str, Any]) -> dict[str, Any]:
    """Raises ValueError for a part that every reader takes for an object and that is something else."""
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
"""What surrounded a trial (nodes, platform, calibration), in the words of those who said it, kept as they came."""
