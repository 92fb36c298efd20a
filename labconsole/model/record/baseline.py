"""A baseline: the measurement by name that later ones are judged by."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Final

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
"""Of a baseline, and of an occasion on which a plan is measured."""

NAME_WORDS: Final = "letters, digits, '.', '_', '+' and '-', at most 64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """All runs of a plan on a testbed that had begun by the time ``set_at`` (RFC 3339, UTC), by whose word they count.

    ``plan_name``: with the occasion, as its runs have it. Moving a baseline adds another one of its name.
    """

    name: str
    plan_name: str
    plan_hash: str
    testbed: str
    testbed_fingerprint: str
    author: str
    set_at: str

    def to_json(self) -> dict[str, Any]:
        """As commands tell it to machines."""
        return asdict(self)
