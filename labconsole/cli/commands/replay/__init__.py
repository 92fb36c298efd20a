"""``labconsole replay``: run plans without the console, resumable. docs/plans.md."""

from __future__ import annotations

import argparse
from pathlib import Path

from labconsole.cli.commands import About
from labconsole.cli.options import add_common, add_shared, comma_separated, whole_number

about = About(
    60,
    "run or resume plans without the console",
    description="Measure what is still missing of every plan, one after the other, under one lease of the testbed. "
    "TERM lets the running trial finish, then exits; Ctrl-C stops it. Exit status: 0 everything is stored; 1 not "
    "everything, or a run is invalid; 2 bad usage or bad file; 3 a node is out of reach, lost, "
    "leased by others or cannot do its part; 130 interrupted.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--hosts", "--store", "--json", "--take-over")
    parser.add_argument("plan", type=Path, nargs="+", help="plan files, such as plans/sanity.yaml")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="list the trials, their duration, space and dependencies, and change nothing",
    )
    parser.add_argument(
        "--platforms",
        type=comma_separated,
        metavar="A,B",
        help="measure only points of these platforms; hosts.yaml need not have the others; the report compares "
        "platforms by blocks that are measured in one go and in the order that the plan draws",
    )
    parser.add_argument("--points", metavar="N,N-M", help="only these points of the plan, by index")
    parser.add_argument(
        "--set-ups",
        type=whole_number,
        metavar="N",
        help="run only the first N blocks, as with `set_ups: N`, such as one block per boot",
    )
    parser.add_argument(
        "--occasion",
        metavar="NAME",
        help="measure the plans once more, as PLAN@NAME, such as once per night or per version under test; compare, "
        "gate and trend show what has changed",
    )
    parser.add_argument(
        "--notify",
        metavar="COMMAND",
        help="when the plans have ended, or cannot go on, run this command (words, no shell) with the outcome as JSON "
        "on its standard input",
    )
    parser.add_argument(
        "--metrics",
        metavar="WHERE",
        help="serve the plans' progress for Prometheus meanwhile, at a loopback address or unix:PATH",
    )
    add_shared(parser, "--drop-reasons", "--packet-times")
    parser.add_argument(
        "--telemetry",
        action="store_true",
        help="instead measure each point once in a trial that enters no mean but shows the processor time per packet "
        "on the UUT and why its kernel dropped packets",
    )
    parser.add_argument(
        "--retake",
        action="store_true",
        help="repeat every block of jobs, starts, flows and routers in which a trial is suspect or invalid, and so "
        "enters no mean",
    )


def run(args: argparse.Namespace) -> int:
    """Measure the missing trials, or list them."""
    from labconsole.cli.commands.replay.execution import replay

    return replay(args)
