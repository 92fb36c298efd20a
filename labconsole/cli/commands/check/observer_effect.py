"""``labconsole check --observer-effect``: whether watching the UUT live changes the results on this testbed."""

from __future__ import annotations

import argparse

from labconsole.api.testbed import load_testbed, open_session
from labconsole.cli.commands.check import OBSERVER_DEFAULTS
from labconsole.cli.options import hosts_path, naming_options, parse_request
from labconsole.cli.output import answer, print_progress
from labconsole.cli.session_runner import run_session
from labconsole.engine.calibration.observer import ObserverEffect, ObserverProgress, ObserverRun, observer_effect
from labconsole.engine.testbed import Testbed
from labconsole.model.record.verdict_codes import title
from labconsole.store.writing import RunStore


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
