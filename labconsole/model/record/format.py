"""The keys that format 2 of the run record added to format 1, which tell the two formats apart. Pure.

A record of format 1 has none of these keys and is rewritten without them, so that it stays byte for byte the same; a
record of format 2 has them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_STREAM = frozenset(
    {
        "direction",
        "generator_packets",
        "source_lost_packets",
        "uut_lost_packets",
        "sink_lost_packets",
        "lost_together",
        "arrivals",
        "forwarding_pps",
        "forwarding_bps",
        "extensions",
    }
)

SINCE_2: dict[str, frozenset[str]] = {
    "record": frozenset({"role", "method", "set_up", "conditions", "in_force", "extensions"}),
    "plan": frozenset(
        {
            "block",
            "attempt",
            "attempts",
            "order",
            "position",
            "set_ups",
            "repetitions",
            "set_up_trials",
            "margin_ratio",
            "claims",
            "fixed",
        }
    ),
    "total": frozenset(
        {
            "generator_packets",
            "source_lost_packets",
            "uut_lost_packets",
            "sink_lost_packets",
            "uut_loss_ratio",
            "late_packets",
            "queued_packets",
            "forwarding_pps",
            "forwarding_bps",
        }
    ),
    "stream": _STREAM,
    "capture": frozenset({"sha256"}),
    "delay": frozenset({"sampling"}),
    "reason": frozenset({"follows"}),
}
"""The keys that format 1 lacks, by kind of object."""

Place = tuple[str, str, dict[str, Any]]
"""(path, kind, the object itself)."""


def drop_later_keys(data: dict[str, Any]) -> dict[str, Any]:
    """The same object without the keys that format 1 lacks. Changes ``data``, which must be a dump of its own."""
    for _, kind, part in _places(data):
        for key in SINCE_2[kind]:
            part.pop(key, None)
    return data


def misplaced_key(data: dict[str, Any]) -> str | None:
    """A key that this record's format forbids or lacks, as a sentence, or None if all keys are correct."""
    for path, kind, part in _places(data):
        if data["format"] == 1:
            found = sorted(SINCE_2[kind] & part.keys())
            if found:
                return f"{path}{found[0]}: is not a key of format 1"
        elif missing := sorted(SINCE_2[kind] - part.keys()):
            return f"{path}{missing[0]}: Field required"
    return None


def _places(data: dict[str, Any]) -> Iterator[Place]:
    yield "", "record", data
    for key in ("plan", "total"):
        if isinstance(data.get(key), dict):
            yield f"{key}.", key, data[key]
    yield from _streams(data, "")
    background = data.get("background")
    if isinstance(background, dict):
        yield from _streams(background, "background.")
    verdict = data.get("verdict")
    if isinstance(verdict, dict):
        yield from (
            (f"verdict.reasons.{place}.", "reason", reason)
            for place, reason in enumerate(_list(verdict.get("reasons")))
        )


def _streams(owner: dict[str, Any], path: str) -> Iterator[Place]:
    for place, stream in enumerate(_list(owner.get("streams"))):
        here = f"{path}streams.{place}."
        yield here, "stream", stream
        for key in ("capture", "delay"):
            if isinstance(stream.get(key), dict):
                yield f"{here}{key}.", key, stream[key]


def _list(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list | tuple) else []
