"""Reads extensions of records for verify, and reports those that cannot be read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from labconsole.measure.recompute.discrepancy import Discrepancy, against
from labconsole.model.strict_model import StrictModel

Content = TypeVar("Content", bound=StrictModel)
Refused = TypeVar("Refused", bound=StrictModel)


def has_version(extension: Any, version: int) -> bool:
    """Whether this version can judge it."""
    return isinstance(extension, dict) and extension.get("version") == version


def readable(
    where: str, extension: Mapping[str, Any], kind: type[Content], refused: type[Refused]
) -> tuple[Content | None, list[Discrepancy]]:
    """The extension's content, or None if it only states a refusal; and the problems with reading it."""
    try:
        if "refused" not in extension:
            return kind.model_validate(extension), []
        refused.model_validate(extension)
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return None, [against(f"{where}.{place}", f"cannot be read: {first['msg']}")]
    return None, []
