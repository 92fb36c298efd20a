"""Findings from the verdicts of runs: generators, losses outside the platform, background load that was not reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from labconsole.contracts.report import Finding, Findings, ReportUnit
from labconsole.measure.groups import WHY
from labconsole.report.digest import Evidence
from labconsole.report.formatting import format_noun_count, format_percent
from labconsole.report.material import Material

LOADS_NAMED = 5
"""The number of loads that a mark names."""

LEFT_OUT = {
    "lost_at_source": "Lost at the source",
    "lost_at_sink": "Lost at the sink",
    "instrument_limited": "Beyond the calibrated instrument",
}
"""Headings by the code for which runs enter no mean."""

Words = Callable[[str, list[Evidence]], str]
"""Returns a sentence about runs of one platform and frame size."""


def included_findings(material: Material) -> list[Findings]:
    """Return findings on included runs."""
    digest = material.digest
    return [
        _marks("generator_throttled", "Generator throttled by flow control", digest.throttled, _throttled),
        _marks("generator_short", "Generator short of its target", digest.short, _short),
        _marks("lost_before_guest", "Loss before the guest", digest.before_guest, _loss_before_guest),
        _marks(
            "lost_before_uut", "Loss before the unit under test counts the frame", digest.before_uut, _loss_before_uut
        ),
    ]


def excluded_findings(material: Material) -> list[Findings]:
    """Return findings on runs that say nothing of the platform, by the code that excludes them from means."""
    return [
        _marks(code, LEFT_OUT.get(code, code), held, _describe_excluded(code))
        for code, held in material.digest.beside.items()
    ]


def missed(material: Material) -> Findings:
    """Return findings on background load that differed from the request."""
    return _marks("background_not_achieved", "Background load not achieved", material.digest.missed, _missed)


def _marks(kind: str, heading: str, found: Sequence[Evidence], words: Words) -> Findings:
    """Return a mark for each platform and frame size, with the loads at which it was seen."""
    groups: dict[str, list[Evidence]] = {}
    for evidence in found:
        groups.setdefault(evidence.asked, []).append(evidence)
    marks = []
    for asked, held in groups.items():
        loads = list(dict.fromkeys(evidence.load for evidence in held))
        more = f" and {len(loads) - LOADS_NAMED} other loads" if len(loads) > LOADS_NAMED else ""
        sentence = f"{words(asked, held)} Seen at {', '.join(loads[:LOADS_NAMED])}{more}."
        marks.append(Finding(sentence, tuple(dict.fromkeys(evidence.run_id for evidence in held))))
    return Findings(kind=kind, heading=heading, found=tuple(marks))


def _throttled(asked: str, held: list[Evidence]) -> str:
    return (
        f"{asked}: flow control held the generator back in {format_noun_count(len(held), 'run')}; the point is plotted at what "
        f"was offered, not at its target ({held[0].detail})."
    )


def _short(asked: str, held: list[Evidence]) -> str:
    return (
        f"{asked}: the generator sent less than intended in {format_noun_count(len(held), 'run')} ({held[0].detail})."
    )


def _loss_before_guest(asked: str, held: list[Evidence]) -> str:
    return f"{asked}: {_share(held)} of the loss happens before the guest in {format_noun_count(len(held), 'run')}."


def _loss_before_uut(asked: str, held: list[Evidence]) -> str:
    return (
        f"{asked}: {_share(held)} of the loss happens before the unit under test counts the frame, in "
        f"{format_noun_count(len(held), 'run')}."
    )


def _share(held: list[Evidence]) -> str:
    low, high = min(e.value for e in held), max(e.value for e in held)
    words = format_percent(low, 0), format_percent(high, 0)
    return words[0] if words[0] == words[1] else f"{words[0]} to {words[1]}"


def _describe_excluded(code: str) -> Words:
    """Return the description of runs that enter no mean because they say nothing of the platform."""

    def words(asked: str, held: list[Evidence]) -> str:
        runs = len(held)
        they = "it says" if runs == 1 else "they say"
        return (
            f"{asked}: {format_noun_count(runs, 'run')} left out of every mean ({WHY[code]}); {they} nothing about the platform "
            f"({held[0].detail})."
        )

    return words


def _missed(asked: str, held: list[Evidence]) -> str:
    runs = len({evidence.run_id for evidence in held})
    return (
        f"{asked}: the background load was not as requested in {format_noun_count(runs, 'run')}, which enter no mean "
        f"({held[0].detail})."
    )


UNITS = (
    ReportUnit(name="seen_in_runs", place=120, make=included_findings),
    ReportUnit(name="left_out", place=130, make=excluded_findings),
    ReportUnit(name="background_not_achieved", place=140, make=missed),
)
