"""The result of a gate as lines, JSON, Markdown and JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from labconsole.comparison.change_tables import describe_reservations, to_markdown
from labconsole.comparison.change_tables import to_json as changes_json
from labconsole.comparison.changes import Changes
from labconsole.comparison.gate import Gate
from labconsole.comparison.judgements import JudgedPoint, Outcome
from labconsole.text.sanitize import escape_markdown, sanitize

OUTCOME_LABELS: dict[Outcome, str] = {
    "passed": "passed",
    "worse": "WORSE",
    "undecided": "UNDECIDED",
    "not measured": "NOT MEASURED",
}


MOST_DIFFERENCES = 12
"""Most differences in a line; ``--json`` has all."""


def format_verdict(plan: str, baseline: str, gate: Gate) -> str:
    """The verdict in one sentence."""
    counts = Counter(each.outcome for each in gate.judged)
    tally = ", ".join(f"{many} {outcome}" for outcome, many in counts.items())
    return f"{plan} against baseline {baseline}: {gate.outcome} ({tally})"


def format_lines(plan: str, baseline: str, gate: Gate) -> Iterator[str]:
    """A line per point, then the reservations and the verdict."""
    for each in gate.judged:
        yield f"{OUTCOME_LABELS[each.outcome]:12}  {each.point}: {each.detail}"
    if gate.changes is not None:
        yield from describe_reservations(gate.changes)
        yield from _differences(gate.changes)
    yield format_verdict(plan, baseline, gate)


def _differences(changes: Changes) -> Iterator[str]:
    """Differences in the environment of the two sides, in one line."""
    differences = [each.words for each in changes.differences]
    if differences:
        more = len(differences) - MOST_DIFFERENCES
        rest = f"; and {more} more, which --json lists" if more > 0 else ""
        yield f"What else differs: {'; '.join(differences[:MOST_DIFFERENCES])}{rest}."


def format_markdown(plan: str, baseline: str, gate: Gate) -> Iterator[str]:
    """For the summary of a CI job: the verdict, a line per point, then the comparison."""
    yield f"### {escape_markdown(format_verdict(plan, baseline, gate))}"
    yield ""
    yield from (f"- **{each.outcome}**: {escape_markdown(f'{each.point}: {each.detail}')}" for each in gate.judged)
    if gate.changes is not None:
        yield ""
        yield from to_markdown(gate.changes)


def to_json(plan: str, baseline: str, gate: Gate) -> dict[str, Any]:
    """The whole result as one object."""
    return {
        "plan": plan,
        "baseline": baseline,
        "outcome": gate.outcome,
        "margin_ratio": gate.margin_ratio,
        "judged": [_object(each) for each in gate.judged],
        "comparison": None if gate.changes is None else changes_json(gate.changes),
    }


def _object(judged: JudgedPoint) -> dict[str, Any]:
    needed = judged.needed
    counts = None if needed is None else needed.counts
    return {
        "point": judged.point,
        "outcome": judged.outcome,
        "detail": judged.detail,
        "passing_margin_ratio": None if needed is None else needed.margin_ratio,
        "deciding_occasions": None if counts is None else counts.to_json(),
        "outlier": None if judged.outlier is None else judged.outlier.words,
    }


def format_junit(plan: str, baseline: str, gate: Gate, *, undecided_fails: bool = False) -> str:
    """A suite named after the plan, with a case for each judgement; an undecided one is skipped, or a failure."""
    from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

    differences = [] if gate.changes is None else list(_differences(gate.changes))
    suite = TestSuite(sanitize(f"{plan} against {baseline}"))
    for each in gate.judged:
        case = TestCase(sanitize(each.point), classname=sanitize(plan))
        if each.outcome != "passed":
            skipped = each.outcome == "undecided" and not undecided_fails
            result = (Skipped if skipped else Failure)(sanitize(each.detail), each.outcome)
            result.text = "\n".join(map(sanitize, [each.detail, *differences]))
            case.result = [result]
        else:
            case.system_out = sanitize(each.detail)
        suite.add_testcase(case)
    whole = JUnitXml()
    whole.add_testsuite(suite)
    written: bytes = whole.tostring()  # type: ignore[no-untyped-call]
    return written.decode()
