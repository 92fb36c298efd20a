"""One reason per cause: the same code at several places is one reason, and consequences appear below their cause.

Pure. Only this module decides which code may be a consequence of which others.
"""

from __future__ import annotations

from collections.abc import Iterable

from labconsole.model.record.run import Reason, Verdict
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.verdict.reasons import each_place

MAX_NAMED = 3
"""The number of places that a sentence names; the others are counted."""

ENDED = ("lease_taken", "link_lost", "aborted", "failed")
"""The trial was not completed: whatever it lacks follows from that."""

CUT_OFF = ("interface_gone", "carrier_changed")

FOLLOWS: dict[str, tuple[str, ...]] = {
    "no_packets": (*ENDED, "generator_failed"),
    "generator_failed": (*ENDED, *CUT_OFF),
    "generator_errors": (*CUT_OFF, "generator_failed"),
    "offered_short": (*ENDED, *CUT_OFF, "generator_failed", "lost_at_source", "instrument_limited"),
    "duration_cut": (*ENDED, *CUT_OFF, "generator_failed"),
    "duration_stretched": (*ENDED, *CUT_OFF, "offered_short"),
    "sources_apart": (*ENDED, "generator_failed"),
    "background_missed": ENDED,
    "mark_lost": ("guests_missing", "job_failed"),
    "not_drained": (*ENDED, *CUT_OFF),
    "samples_missed": ENDED,
    "not_observed": ENDED,
    "settings_changed": CUT_OFF,
    "counter_froze": CUT_OFF,
    "counter_decreased": CUT_OFF,
    "lost_at_source": CUT_OFF,
    "lost_at_sink": (*CUT_OFF, "instrument_limited"),
    "capture_missing": (*ENDED, *CUT_OFF),
    "capture_incomplete": (*CUT_OFF, "instrument_limited"),
    "untimed_packets": CUT_OFF,
    "not_measured": (
        *ENDED,
        *CUT_OFF,
        "generator_failed",
        "counter_decreased",
        "counter_froze",
        "capture_missing",
        "capture_incomplete",
    ),
    "witnesses_disagree": (*ENDED, *CUT_OFF, "counter_decreased", "counter_froze"),
    "negative_loss": (*ENDED, "duplicates", "foreign_frames", "counter_froze"),
    "buffered": ENDED,
    "rate_uncertain": (*ENDED, *CUT_OFF, "capture_incomplete", "capture_missing"),
}
"""A code to the codes that it may be a consequence of, the likeliest first. The first of them that a run has counts."""


def weighed(reasons: Iterable[Reason]) -> Verdict:
    """The verdict from these reasons, arranged."""
    arranged = arrange(reasons)
    if not arranged:
        return Verdict(status="valid")
    invalid = any(WEIGHT[each.code] == "invalid" for each in arranged)
    return Verdict(status="invalid" if invalid else "suspect", reasons=arranged)


def arrange(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Each code once, with all its places: causes first, the most serious first, each before its consequences."""
    by_code: dict[str, list[Reason]] = {}
    for each in reasons:
        by_code.setdefault(each.code, []).append(each)
    follows = {code: _cause(code, by_code) for code in by_code}
    below: dict[str | None, list[str]] = {}
    for code in sorted(by_code, key=list(WEIGHT).index):
        below.setdefault(follows[code], []).append(code)
    found: list[Reason] = []

    def take(code: str) -> None:
        found.append(_together(by_code[code]).model_copy(update={"follows": follows[code]}))
        for consequence in below.get(code, ()):
            take(consequence)

    for code in sorted(below.get(None, ()), key=lambda code: _worst(code, below)):
        take(code)
    return tuple(found)


def _cause(code: str, known: Iterable[str]) -> str | None:
    present = set(known)
    return next((cause for cause in FOLLOWS.get(code, ()) if cause in present), None)


def _worst(code: str, below: dict[str | None, list[str]]) -> tuple[int, int]:
    """The weight of the most serious of a cause and its consequences, and the cause's own place among the codes."""
    weights = [WEIGHT[code] != "invalid", *(_worst(each, below)[0] for each in below.get(code, ()))]
    return int(min(weights)), list(WEIGHT).index(code)


def _together(same: list[Reason]) -> Reason:
    """Reasons of one code as one."""
    if len(same) == 1:
        return same[0]
    places = [place for each in same for place in each_place(each)]
    return Reason(code=same[0].code, detail=_sentence(same), evidence={"places": places})


def _sentence(same: list[Reason]) -> str:
    """Up to three places with their own sentences, the rest counted; what all have in common is stated once."""
    said = list(dict.fromkeys(each.detail for each in same))
    more = f" and {len(said) - MAX_NAMED} more" if len(said) > MAX_NAMED else ""
    heads = [text.partition(": ") for text in said]
    if all(colon for _, colon, _ in heads) and len({rest for _, _, rest in heads}) == 1:
        names = [head for head, _, _ in heads]
        return f"{', '.join(names[:MAX_NAMED])}{more}: {heads[0][2]}"
    return "; ".join(said[:MAX_NAMED]) + (f";{more}" if more else "")
