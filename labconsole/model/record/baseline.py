"""A baseline: the measurement by name that later ones are judged by."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
"""Of a baseline, and of an occasion on which a plan is measured."""

NAME_WORDS: Final = "letters, digits, '.', '_', '+' and '-', at most 64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """All runs of a plan on a testbed that had begun by the time ``set_at`` (RFC 3339, UTC), by whose word they count.

    ``plan_name``: with the occasion, as its runs have it. Of several occasions there is one each, all set at once.
    Moving a baseline adds others of its name.
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
        return {
            "name": self.name,
            "plan_name": self.plan_name,
            "plan_hash": self.plan_hash,
            "testbed": self.testbed,
            "testbed_fingerprint": self.testbed_fingerprint,
            "author": self.author,
            "set_at": self.set_at,
        }


def group_baselines(known: Iterable[Baseline]) -> list[list[Baseline]]:
    """The occasions of each baseline, as they were named; ``known`` is as a store has them, the last first."""
    found: dict[tuple[str, str], list[Baseline]] = {}
    for each in known:
        found.setdefault((each.name, each.set_at), []).append(each)
    return [occasions[::-1] for occasions in found.values()]
