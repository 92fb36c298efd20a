"""All targets, by their names."""

from __future__ import annotations

from fuzz.files import FILE_TARGETS
from fuzz.target import Target
from fuzz.words import WORD_TARGETS

TARGETS: dict[str, Target] = {target.name: target for target in (*FILE_TARGETS, *WORD_TARGETS)}
