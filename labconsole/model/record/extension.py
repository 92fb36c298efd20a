"""Reading an extension of a record as what this version knows by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from labconsole.model.strict_model import StrictModel

Told = TypeVar("Told", bound=StrictModel)


def read_extension(extensions: Mapping[str, Any], name: str, kind: type[Told]) -> Told | None:
    """None: it is not told, by another version, or broken, which verify tells."""
    told = extensions.get(name)
    try:
        return None if told is None else kind.model_validate(told)
    except ValidationError:
        return None
