"""``labconsole check --observer-effect``: does watching the UUT live change what is measured on this testbed?"""

from __future__ import annotations

import argparse
import json
import sys

from labconsole.engine.observer import ObserverEffect, ObserverProgress, ObserverRun, observer_effect
from labconsole.engine.session import Session
from labconsole.errors import ConfigError
from labconsole.headless import drive, request_from
from labconsole.store import RunStore
from labconsole.testbed import hosts_path, load_testbed, open_session

DEFAULTS = {"frame_size": 64, "sources": 1, "target": "100Mbit", "duration": 1.0}
OWN = ("platform", "includes_fcs", "take_over", *DEFAULTS)
"""Options of ``check`` that are about this comparison only."""

OTHERS = ("plan", "fix", "brief")
"""Options of ``check`` that are about the checks only."""


def refuse_strays(args: argparse.Namespace) -> None:
    """Raise ConfigError for an option that would do nothing: one of the comparison without it, or the other way."""
    wanted = args.observer_effect is not None
    for name in OTHERS if wanted else OWN:
        if getattr(args, name) not in (None, False):
            key = "--" + name.replace("_", "-")
            raise ConfigError("does not go with --observer-effect" if wanted else "needs --observer-effect", key=key)


def observe(args: argparse.Namespace) -> int:
    """Compare both ways of observing; 0: done, whatever came out; 1: too few valid runs to tell."""
    inventory, store = load_testbed(hosts_path(args.hosts), args.store)
    for name, value in DEFAULTS.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    args.repetitions, args.background, args.generator, args.observe = 1, "none", None, None
    request = request_from(args, inventory)
    session = open_session(inventory, store)

    def tell(progress: ObserverProgress) -> None:
        if progress.last is None:
            sys.stderr.write(f"{request.describe()}: {progress.total} runs, quiet and live in random order\n")
        else:
            sys.stderr.write(f"{progress.done}/{progress.total} {_run_text(progress.last)}\n")
        sys.stderr.flush()

    async def work(session: Session[RunStore]) -> int:
        effect = await observer_effect(session, request, args.observer_effect, tell, take_over=args.take_over)
        sys.stdout.write((json.dumps(effect.to_json()) if args.json else "\n".join(effect_lines(effect))) + "\n")
        return 0 if effect.loss_ratio is not None and effect.loss_ratio.detectable is not None else 1

    return drive(session, session.nodes_of(request), work, [], kept="nothing of the comparison is kept")


def _run_text(run: ObserverRun) -> str:
    loss = "?" if run.loss_ratio is None else f"{run.loss_ratio * 100:.4g} %"
    rate = "?" if run.measured_pps is None else f"{run.measured_pps:.0f} packets/s"
    doubts = f" ({', '.join(run.reasons)})" if run.reasons else ""
    return f"{run.observe:<5} loss {loss}, measured {rate}, {run.status}{doubts}"


def effect_lines(effect: ObserverEffect) -> list[str]:
    """The finding for people."""
    left_out = f"; {effect.left_out} invalid runs left out" if effect.left_out else ""
    return [
        effect.sentence,
        f"{effect.request}; {len(effect.runs)} runs in pairs, order by seed {effect.seed}{left_out}; none is stored",
    ]
