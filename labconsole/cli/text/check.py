"""The results of checks for people: node by node, aligned, coloured on a terminal."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from labconsole.engine.check.result import CheckResult, CheckStatus
from labconsole.text.sanitize import single_line

GLYPHS = {CheckStatus.PASS: "✓", CheckStatus.WARN: "!", CheckStatus.FAIL: "✗", CheckStatus.SKIPPED: "-"}
PLAIN_GLYPHS = {**GLYPHS, CheckStatus.PASS: "+", CheckStatus.FAIL: "x"}
COLOURS = {CheckStatus.PASS: "32", CheckStatus.WARN: "33", CheckStatus.FAIL: "31;1", CheckStatus.SKIPPED: "2"}
WHOLE = "testbed"
MIN_WIDTH = 60
MAX_WIDTH = 160


def terminal_style() -> dict[str, Any]:
    """Colour only on a terminal, lines of its width; ASCII if the output encoding requires it."""
    tty = sys.stdout.isatty()
    try:
        "✓✗→".encode(sys.stdout.encoding or "ascii")
        ascii_only = False
    except UnicodeEncodeError:
        ascii_only = True
    width = min(MAX_WIDTH, max(MIN_WIDTH, shutil.get_terminal_size().columns)) if tty else None
    return {"colour": tty and "NO_COLOR" not in os.environ, "ascii_only": ascii_only, "width": width}


def report_lines(
    results: Iterable[CheckResult],
    nodes: list[str],
    *,
    brief: bool = False,
    colour: bool = False,
    ascii_only: bool = False,
    width: int | None = None,
) -> list[str]:
    """The results for people: node by node, aligned, each with its evidence and, below, a remedy.

    Identical problems of several nodes are shown once for all of them. ``brief``: only warnings and failures.
    """
    results = list(results)
    alike = _group_shared_results(results)
    groups: dict[str, list[CheckResult]] = {name: [] for name in [*nodes, WHOLE]}
    for result in results:
        groups.setdefault(result.node or WHOLE, []).append(result)
    glyphs = PLAIN_GLYPHS if ascii_only else GLYPHS
    title_width = max((len(r.title) for group in groups.values() for r in group), default=0)
    lines: list[str] = []
    for name, group in groups.items():
        shown = [r for r in group if not brief or r.status in (CheckStatus.WARN, CheckStatus.FAIL) or r.fixed]
        shown = [r for r in shown if _build_shared_result(r) not in alike]
        if not shown:
            continue
        counts = Counter(r.status for r in group)
        words = ", ".join(f"{counts[status]} {status}" for status in CheckStatus if counts[status])
        lines += ["", single_line(f"{name}: {words}")] if lines else [single_line(f"{name}: {words}")]
        for result in shown:
            lines += _result_lines(result, glyphs, title_width, colour=colour, width=width)
    for said, same in alike.items():
        if not brief or said.status is not CheckStatus.SKIPPED:
            names = single_line(", ".join(str(r.node) for r in same))
            lines += ["", f"{names}: alike"] if lines else [f"{names}: alike"]
            of_all = replace(same[0], hint=said.hint and said.hint.replace(NODE, names))
            lines += _result_lines(of_all, glyphs, title_width, colour=colour, width=width)
    return lines


NODE = "\0"
"""Placeholder for the node's name in a hint."""


class SharedResult(NamedTuple):
    """A result that several nodes may share, whatever their names are."""

    id: str
    status: CheckStatus
    evidence: str
    fixed: bool
    hint: str | None


def _build_shared_result(result: CheckResult) -> SharedResult:
    hint, node = result.hint, result.node
    if hint is not None and node is not None:
        hint = re.sub(rf"(?<![\w.-]){re.escape(node)}(?![\w-])", NODE, hint)
    return SharedResult(result.id, result.status, result.evidence, result.fixed, hint)


def _group_shared_results(results: Sequence[CheckResult]) -> dict[SharedResult, list[CheckResult]]:
    """Problems that at least two nodes share: the nodes of a lab are one machine."""
    found: dict[SharedResult, list[CheckResult]] = {}
    for result in results:
        if result.status is not CheckStatus.PASS and result.node is not None:
            found.setdefault(_build_shared_result(result), []).append(result)
    return {said: same for said, same in found.items() if len(same) > 1}


def _result_lines(
    result: CheckResult, glyphs: dict[CheckStatus, str], title_width: int, *, colour: bool, width: int | None
) -> list[str]:
    word = f"{glyphs[result.status]} {result.status:<7}"
    if colour:
        word = f"\x1b[{COLOURS[result.status]}m{word}\x1b[0m"
    indent = 2 + 2 + 7 + 1 + title_width + 2
    evidence, title = single_line(("fixed: " if result.fixed else "") + result.evidence), single_line(result.title)
    first, *rest = _wrapped(evidence, width, indent)
    lines = [f"  {word} {title:<{title_width}}  {first}", *(" " * indent + line for line in rest)]
    if result.hint:
        hint, *more = _wrapped(single_line(f"→ {result.hint}"), width, indent)
        lines += [" " * indent + hint, *(" " * (indent + 2) + line for line in more)]
    return lines


def _wrapped(text: str, width: int | None, indent: int) -> list[str]:
    if width is None:
        return [text]
    return textwrap.wrap(text, max(20, width - indent - 2), break_on_hyphens=False) or [""]


def status_counts(results: list[CheckResult]) -> dict[str, int]:
    """The number of results per status."""
    counts = Counter(result.status for result in results)
    return {str(status): counts[status] for status in CheckStatus}


def closing_line(results: list[CheckResult], took_s: float, connect_s: float, *, stopped: bool) -> str:
    """The last line. ``took_s``: the time of the checks; ``connect_s``: that of connecting before them."""
    tally = ", ".join(f"{count} {word}" for word, count in status_counts(results).items() if count)
    times = f"{took_s:.1f} s, connecting took {connect_s:.1f} s"
    text = f"{'stopped; ' if stopped else ''}{len(results)} checks in {times}: {tally}"
    fixed, fixable = sum(r.fixed for r in results), sum(r.fixable and not r.fixed for r in results)
    if fixed:
        text += f"; {fixed} fixed, and undone now unless marked permanent"
    if fixable:
        text += f"; --fix would fix {fixable}"
    return text
