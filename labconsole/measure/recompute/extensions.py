"""Extensions of records, read as verify reads them: what cannot be read is told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.model.strict_model import StrictModel

Told = TypeVar("Told", bound=StrictModel)
Refused = TypeVar("Refused", bound=StrictModel)


def has_version(told: Any, version: int) -> bool:
    """Whether this version can judge it."""
    return isinstance(told, dict) and told.get("version") == version


def readable(
    where: str, told: Mapping[str, Any], kind: type[Told], refused: type[Refused]
) -> tuple[Told | None, list[Discrepancy]]:
    """What it tells, None where that is why nothing is told; and why it cannot be read."""
    try:
        if "refused" not in told:
            return kind.model_validate(told), []
        refused.model_validate(told)
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return None, [against(f"{where}.{place}", f"cannot be read: {first['msg']}")]
    return None, []
