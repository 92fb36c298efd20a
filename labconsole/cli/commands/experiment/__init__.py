"""``labconsole experiment KIND``: trials of several guests, observed from outside; and stored trials."""

from __future__ import annotations

import argparse

from labconsole.cli.commands import About
from labconsole.cli.commands.experiment import boot, flow, job, route

about = About(
    52,
    "run jobs in guests, start guests, or have them send or forward, measured from outside",
    description="Experiments with any number of guests side by side, whose times are measured and whose packets are "
    "counted outside the guests, at the sink of the first stream. Keys of a plan do the same for every combination of "
    "factors and can be resumed. Exit status: 0 no trial is invalid; 1 one is; 2 bad usage; 3 a node "
    "is out of reach, lost or cannot do its part; 130 interrupted.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the kinds of experiment."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    job.add_kind(kinds)
    boot.add_kind(kinds)
    flow.add_kind(kinds)
    route.add_kind(kinds)


def run(args: argparse.Namespace) -> int:
    """Return 0 if no trial is invalid, else 1."""
    return {"job": job.run, "boot": boot.run, "flow": flow.run, "route": route.run}[args.kind](args)
