"""Run all checks, or compare trials with and without live observation, and print the results."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from labconsole.api.testbed import load_testbed, open_session
from labconsole.cli.commands.check import OBSERVER_DEFAULTS
from labconsole.cli.options import hosts_path, naming_options, parse_request
from labconsole.cli.output import answer, print_json_line, print_progress
from labconsole.cli.session_runner import run_session
from labconsole.cli.text.check import closing_line, report_lines, status_counts, terminal_style
from labconsole.engine.check.result import CheckResult, CheckStatus
from labconsole.engine.observer_effect import ObserverEffect, ObserverProgress, ObserverRun, observer_effect
from labconsole.engine.testbed import Testbed
from labconsole.errors import Aborted, NodeUnreachable
from labconsole.model.plan.loader import load_plan
from labconsole.model.plan.plan import Plan
from labconsole.model.record.verdict_codes import title
from labconsole.store.writing import RunStore
from labconsole.text.sanitize import unwrap_stream

# -- checks ------------------------------------------------------------------------------------------------------------
# Run all checks and print their results.


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


# -- observer effect ---------------------------------------------------------------------------------------------------
# ``labconsole check --observer-effect``: whether watching the UUT live changes the results on this testbed.


def run_observer_effect(args: argparse.Namespace) -> int:
    """Compare both ways of observing. 0: done, whatever the result; 1: too few valid runs for a result."""
    inventory, store = load_testbed(hosts_path(args.hosts), args.store)
    for name, value in OBSERVER_DEFAULTS.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    args.repetitions, args.background, args.generator, args.observe = 1, "none", None, None
    request = parse_request(args, inventory)
    session = open_session(inventory, store)

    def tell(progress: ObserverProgress) -> None:
        if progress.last is None:
            print_progress(f"{request.words()}: {progress.total} runs, quiet and live in random order")
        else:
            print_progress(f"{progress.done}/{progress.total} {_run_text(progress.last)}")

    async def work(session: Testbed[RunStore]) -> int:
        effect = await observer_effect(session, request, args.observer_effect, tell, take_over=args.take_over)
        answer(effect.to_json(), effect_lines(effect), as_json=args.json)
        return 0 if effect.loss_ratio is not None and effect.loss_ratio.detectable is not None else 1

    with naming_options():
        return run_session(session, session.nodes_of(request), work, [], kept="nothing of this comparison is saved")


def _run_text(run: ObserverRun) -> str:
    loss = "?" if run.loss_ratio is None else f"{run.loss_ratio * 100:.4g} %"
    rate = "?" if run.measured_pps is None else f"{run.measured_pps:.0f} packets/s"
    doubts = f" ({', '.join(map(title, run.reasons))})" if run.reasons else ""
    return f"{run.observe:<5} loss {loss}, measured {rate}, {run.status}{doubts}"


def effect_lines(effect: ObserverEffect) -> list[str]:
    """The finding for people."""
    left_out = f"; {effect.left_out} invalid runs left out" if effect.left_out else ""
    return [
        effect.sentence,
        f"{effect.request}; {len(effect.runs)} runs in pairs, order by seed {effect.seed}{left_out}; none is stored",
    ]
