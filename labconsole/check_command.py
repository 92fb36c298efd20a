"""``labconsole check``: is the testbed fit to measure on, and can a plan be carried out on it? docs/check.md."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from labconsole.engine.preflight import CheckResult, CheckStatus
from labconsole.engine.session import Session
from labconsole.errors import Aborted, NodeUnreachable
from labconsole.headless import drive
from labconsole.model.plan import Plan
from labconsole.model.plan_load import load_plan
from labconsole.store import RunStore
from labconsole.terminal import undisguised
from labconsole.testbed import hosts_path, load_testbed, open_session

GLYPHS = {CheckStatus.PASS: "✓", CheckStatus.WARN: "!", CheckStatus.FAIL: "✗", CheckStatus.SKIPPED: "-"}
PLAIN_GLYPHS = {**GLYPHS, CheckStatus.PASS: "+", CheckStatus.FAIL: "x"}
COLOURS = {CheckStatus.PASS: "32", CheckStatus.WARN: "33", CheckStatus.FAIL: "31;1", CheckStatus.SKIPPED: "2"}
WHOLE = "testbed"
MIN_WIDTH = 60
MAX_WIDTH = 160


def check(args: argparse.Namespace) -> int:
    """Run every check and say what came out. 0: none failed; 1: some did; 3: no node could be reached."""
    inventory, store = load_testbed(hosts_path(args.hosts), args.store)
    # Not held against the testbed yet: what does not fit is a check's finding, and all of it is told at once.
    plan = load_plan(args.plan) if args.plan is not None else None
    session = open_session(inventory, store)

    async def work(session: Session[RunStore]) -> int:
        return await _check(session, args, plan)

    return drive(session, [], work, [])


async def _check(session: Session[RunStore], args: argparse.Namespace, plan: Plan | None) -> int:
    begun = time.monotonic()

    def tell(result: CheckResult) -> None:
        if args.json:
            sys.stdout.write(json.dumps(result.to_json()) + "\n")
            sys.stdout.flush()

    progress = None
    if not args.json and sys.stderr.isatty():
        progress = asyncio.create_task(_progress(len(session.inventory.nodes)))
    try:
        results = await session.check(plan=plan, fix=args.fix, on_result=tell)
    finally:
        if progress is not None:
            progress.cancel()
            undisguised(sys.stderr).write("\r\x1b[K")
    took_s = time.monotonic() - begun
    logins = [result for result in results if result.id == "ssh.login"]
    unreachable = bool(logins) and all(result.status is CheckStatus.FAIL for result in logins)
    failed = any(result.status is CheckStatus.FAIL for result in results)
    status = NodeUnreachable.exit_code if unreachable else 1 if failed else 0
    if session.stopping:
        status = Aborted.exit_code
    if args.json:
        sys.stdout.write(json.dumps(_summary(session, results, took_s, status)) + "\n")
    else:
        lines = report_lines(results, list(session.inventory.nodes), brief=args.brief, **_style())
        # Colours are ours; what nodes say in it has been made printable by the engine.
        undisguised(sys.stdout).write(
            "\n".join([*lines, "", _closing(results, took_s, stopped=session.stopping)]) + "\n"
        )
    return status


async def _progress(nodes: int) -> None:
    """A word while nothing is on the screen yet."""
    begun = time.monotonic()
    while True:
        undisguised(sys.stderr).write(f"\rchecking {nodes} nodes … {time.monotonic() - begun:.0f} s")
        sys.stderr.flush()
        await asyncio.sleep(1)


def _style() -> dict[str, Any]:
    """Colour only on a terminal, lines as long as it is wide; ASCII where the output can hold no more."""
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
    """The results for people: node by node, aligned, each with its evidence and, below, what to do."""
    groups: dict[str, list[CheckResult]] = {name: [] for name in [*nodes, WHOLE]}
    for result in results:
        groups.setdefault(result.node or WHOLE, []).append(result)
    glyphs = PLAIN_GLYPHS if ascii_only else GLYPHS
    title_width = max((len(r.title) for group in groups.values() for r in group), default=0)
    lines: list[str] = []
    for name, group in groups.items():
        shown = [r for r in group if not brief or r.status is not CheckStatus.PASS or r.fixed]
        if not shown:
            continue
        counts = Counter(r.status for r in group)
        words = ", ".join(f"{counts[status]} {status}" for status in CheckStatus if counts[status])
        lines += ["", f"{name}: {words}"] if lines else [f"{name}: {words}"]
        for result in shown:
            lines += _result_lines(result, glyphs, title_width, colour=colour, width=width)
    return lines


def _result_lines(
    result: CheckResult, glyphs: dict[CheckStatus, str], title_width: int, *, colour: bool, width: int | None
) -> list[str]:
    word = f"{glyphs[result.status]} {result.status:<7}"
    if colour:
        word = f"\x1b[{COLOURS[result.status]}m{word}\x1b[0m"
    indent = 2 + 2 + 7 + 1 + title_width + 2
    evidence = ("fixed: " if result.fixed else "") + result.evidence
    first, *rest = _wrapped(evidence, width, indent)
    lines = [f"  {word} {result.title:<{title_width}}  {first}", *(" " * indent + line for line in rest)]
    if result.hint:
        hint, *more = _wrapped(f"→ {result.hint}", width, indent)
        lines += [" " * indent + hint, *(" " * (indent + 2) + line for line in more)]
    return lines


def _wrapped(text: str, width: int | None, indent: int) -> list[str]:
    if width is None:
        return [text]
    return textwrap.wrap(text, max(20, width - indent - 2), break_on_hyphens=False) or [""]


def _counts(results: list[CheckResult]) -> dict[str, int]:
    counts = Counter(result.status for result in results)
    return {str(status): counts[status] for status in CheckStatus}


def _closing(results: list[CheckResult], took_s: float, *, stopped: bool) -> str:
    """One line to end with."""
    words = ", ".join(f"{count} {word}" for word, count in _counts(results).items() if count)
    text = f"{'stopped; ' if stopped else ''}{len(results)} checks in {took_s:.1f} s: {words}"
    fixed, fixable = sum(r.fixed for r in results), sum(r.fixable and not r.fixed for r in results)
    if fixed:
        text += f"; {fixed} fixed, and undone now unless it says for good"
    if fixable:
        text += f"; --fix would put {fixable} right"
    return text


def _summary(session: Session[RunStore], results: list[CheckResult], took_s: float, status: int) -> dict[str, object]:
    return {
        "summary": True,
        "testbed": session.inventory.testbed,
        "testbed_fingerprint": session.inventory.fingerprint(),
        "checks": len(results),
        **_counts(results),
        "fixed": sum(result.fixed for result in results),
        "took_s": took_s,
        "stopped": session.stopping,
        "exit_status": status,
    }
