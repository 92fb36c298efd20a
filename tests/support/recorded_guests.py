"""Trials of guests that were really taken on a lab, of every kind, as recordings/guests.jsonl.gz keeps them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from support.consistent_guests import Stored

RECORDED = Path(__file__).parents[1] / "recordings" / "guests.jsonl.gz"


def recorded_guests() -> dict[str, Stored]:
    """By their ids."""
    with gzip.open(RECORDED, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return {line["record"][f"{line['kind']}_id"]: (line["kind"], line["record"]) for line in lines}
