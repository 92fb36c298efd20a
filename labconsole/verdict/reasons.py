"""Reasons of a verdict: made from its codes, one per cause, and those that all trials with guests can have. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from labconsole.model.record.kind import ProgramRecord, TimekeeperRecord
from labconsole.model.record.run import Figures, Reason, Verdict
from labconsole.model.record.verdict_codes import WEIGHT
from labconsole.model.tolerances import Tolerances

# -- reasons -----------------------------------------------------------------------------------------------------------
# Creates reasons with a verdict's codes; their weights are in model/record/verdict_codes.py.


def reason(code: str, detail: str, **evidence: Any) -> Reason:
    """A reason with a known code.

    The sentence should contain all that a reader needs, the evidence all for a program.
    """
    if code not in WEIGHT:
        raise ValueError(f"{code} is not a verdict code")
    return Reason(code=code, detail=detail, evidence=evidence or None)


def each_place(merged: Reason) -> list[Figures]:
    """The evidence of a reason, place by place: a reason for several places has them in ``places``."""
    evidence = merged.evidence or {}
    places = evidence.get("places")
    return list(places) if isinstance(places, list) else [evidence]


# -- reason tree -------------------------------------------------------------------------------------------------------
# One reason per cause: the same code at several places is one reason, and consequences appear below their cause.
#
# Pure. Only this module decides which code may be a consequence of which others.

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


# -- programs ----------------------------------------------------------------------------------------------------------
# Checks whether all working guests had the same file of a program.


def program_reasons(program: ProgramRecord | None) -> Iterator[Reason]:
    """Reasons: different files, or guests whose file is unknown."""
    if program is None:
        return
    if len(program.sha256) > 1:
        digests = ", ".join(each[:12] for each in program.sha256)
        detail = f"the guests that worked have {len(program.sha256)} different files of {program.name} ({digests})"
        yield reason("programs_differ", detail, sha256=list(program.sha256))
    if program.unknown:
        detail = f"the file of {program.name} is unknown for {program.unknown} of the guests that worked"
        yield reason("not_observed", detail, unknown=program.unknown)


# -- timekeeper --------------------------------------------------------------------------------------------------------
# Doubts about times measured by the timekeeper, and about swap, for all experiments with several guests.

LEAST_STEP_S, STEP_RATIO = 0.001, 0.001
"""The timekeeper's clock may be set by a thousandth of the shortest time, and by its resolution."""


def timekeeper_reasons(seen: TimekeeperRecord, shortest_s: float, limits: Tolerances) -> Iterator[Reason]:
    """Reasons against the timekeeper's times.

    ``shortest_s``: the shortest measured time; a step of the clock changes each time by its full amount.
    """
    for sender in seen.doubled:
        yield reason("mark_forged", f"a mark of {sender} arrived twice", node=seen.node, copy=sender)
    if seen.strange_packets:
        detail = f"{seen.strange_packets} pings to {seen.address} match no mark"
        yield reason("mark_forged", detail, node=seen.node, packets=seen.strange_packets)
    if seen.dropped_packets:
        detail = f"the timekeeper's kernel dropped {seen.dropped_packets} packets that may have been marks"
        yield reason("not_observed", detail, node=seen.node, packets=seen.dropped_packets)
    allowed_s = min(limits.clock_step_s, max(LEAST_STEP_S, STEP_RATIO * shortest_s))
    if abs(seen.wall_moved_ns) > allowed_s * 1e9:
        detail = f"the clock of {seen.node} was set by {seen.wall_moved_ns / 1e9:+.3f} s meanwhile"
        yield reason("clock_stepped", detail, node=seen.node, step_s=seen.wall_moved_ns / 1e9)


def interrupted_note(node: str, why: str) -> Figures:
    """An entry on what was not observed: the timekeeper did not listen all the time."""
    return {"node": node, "kind": "not_observed", "detail": f"listening for marks was interrupted: {why}"}


def swap_reasons(swapped_pages: int | None) -> Iterator[Reason]:
    """A reason if pages were swapped. ``swapped_pages`` is None if unknown."""
    if swapped_pages:
        detail = f"the unit under test moved {swapped_pages} pages in or out of swap"
        yield reason("swapped", detail, pages=swapped_pages)
