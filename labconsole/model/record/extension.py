"""Reads known extensions of a record by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from labconsole.model.strict_model import StrictModel

Extension = TypeVar("Extension", bound=StrictModel)


def read_extension(extensions: Mapping[str, Any], name: str, kind: type[Extension]) -> Extension | None:
    """The extension, or None if it is absent, of another version, or broken, which verify reports."""
    found = extensions.get(name)
    try:
        return None if found is None else kind.model_validate(found)
    except ValidationError:
        return None
