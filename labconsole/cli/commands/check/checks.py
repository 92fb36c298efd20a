"""Run all checks and print their results."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from labconsole.api.testbed import load_testbed, open_session
from labconsole.cli.options import hosts_path
from labconsole.cli.output import print_json_line
from labconsole.cli.session_runner import run_session
from labconsole.cli.text.check import closing_line, report_lines, status_counts, terminal_style
from labconsole.engine.check.result import CheckResult, CheckStatus
from labconsole.engine.testbed import Testbed
from labconsole.errors import Aborted, NodeUnreachable
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import Plan
from labconsole.store.writing import RunStore
from labconsole.text.sanitize import unwrap_stream


def run_checks(args: argparse.Namespace) -> int:
    """Run every check and print the results. 0: none failed; 1: some did; 3: no node could be reached."""
    begun_s = time.monotonic()
    inventory, store = load_testbed(hosts_path(args.hosts), args.store)
    # Not compared with the testbed yet: misfits are a check's findings, and all of them are reported at once.
    plan = load_plan(args.plan) if args.plan is not None else None
    session = open_session(inventory, store)

    async def work(session: Testbed[RunStore]) -> int:
        return await _check(session, args, plan, connect_s=time.monotonic() - begun_s)

    return run_session(session, [], work, [])


async def _check(session: Testbed[RunStore], args: argparse.Namespace, plan: Plan | None, *, connect_s: float) -> int:
    begun = time.monotonic()

    def tell(result: CheckResult) -> None:
        if args.json:
            print_json_line(result.to_json())

    progress = None
    if not args.json and sys.stderr.isatty():
        progress = asyncio.create_task(_progress(len(session.inventory.nodes)))
    try:
        results = await session.check(plan=plan, fix=args.fix, on_result=tell)
    finally:
        if progress is not None:
            progress.cancel()
            unwrap_stream(sys.stderr).write("\r\x1b[K")
    took_s = time.monotonic() - begun
    logins = [result for result in results if result.id == "ssh.login"]
    unreachable = bool(logins) and all(result.status is CheckStatus.FAIL for result in logins)
    failed = any(result.status is CheckStatus.FAIL for result in results)
    status = NodeUnreachable.exit_code if unreachable else 1 if failed else 0
    if session.stopping:
        status = Aborted.exit_code
    if args.json:
        print_json_line({**_summary(session, results, took_s, status), "connect_s": connect_s})
    else:
        lines = report_lines(results, list(session.inventory.nodes), brief=args.brief, **terminal_style())
        # The colours are ours, and all text in the lines is sanitized.
        unwrap_stream(sys.stdout).write(
            "\n".join([*lines, "", closing_line(results, took_s, connect_s, stopped=session.stopping)]) + "\n"
        )
    return status


async def _progress(nodes: int) -> None:
    """A message while the screen is still empty."""
    begun = time.monotonic()
    while True:
        unwrap_stream(sys.stderr).write(f"\rchecking {nodes} nodes … {time.monotonic() - begun:.0f} s")
        sys.stderr.flush()
        await asyncio.sleep(1)


def _summary(session: Testbed[RunStore], results: list[CheckResult], took_s: float, status: int) -> dict[str, object]:
    return {
        "summary": True,
        "testbed": session.inventory.testbed,
        "testbed_fingerprint": session.inventory.fingerprint(),
        "checks": len(results),
        **status_counts(results),
        "fixed": sum(result.fixed for result in results),
        "took_s": took_s,
        "stopped": session.stopping,
        "exit_status": status,
    }
