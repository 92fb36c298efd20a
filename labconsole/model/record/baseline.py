"""A baseline: a named measurement that later ones are compared with."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
"""Valid names of baselines and of occasions."""

ALLOWED_NAMES: Final = "letters, digits, '.', '_', '+' and '-', at most 64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """All runs of a plan on a testbed that began by ``set_at`` (RFC 3339, UTC), when ``author`` set it.

    ``plan_name`` includes the occasion, as in the runs. Several occasions have one baseline each, all set at once.
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
    """The occasions of each baseline, in the order named; ``known`` has the newest first, as stores return them."""
    found: dict[tuple[str, str], list[Baseline]] = {}
    for each in known:
        found.setdefault((each.name, each.set_at), []).append(each)
    return [occasions[::-1] for occasions in found.values()]
