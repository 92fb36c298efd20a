"""``labconsole check``: whether the testbed is ready to measure, and whether it can run a plan. docs/check.md."""

from __future__ import annotations

import argparse
from pathlib import Path

from labconsole.cli.commands import About
from labconsole.cli.options import add_common, add_configuration, add_shared, number, whole_number
from labconsole.errors import ConfigError

OBSERVER_DEFAULTS = {"frame_size": 64, "sources": 1, "target": "100Mbit", "duration": 1.0}
OBSERVER_OPTIONS = ("platform", "includes_fcs", "take_over", *OBSERVER_DEFAULTS)
"""Options for the comparison only."""

CHECK_OPTIONS = ("plan", "fix", "brief")
"""Options for the checks only."""

about = About(
    90,
    "check whether the testbed is fit to measure on; each check gives its evidence and a hint",
    description="Check every node, cable and platform path. Sends a few marked frames over every cable and a small "
    "flow through the unit under test; saves no run. Exit status: 0 no check failed; 1 at least one failed; 2 bad "
    "usage or bad file; 3 no node could be reached.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--hosts", "--store", "--json")
    parser.add_argument(
        "--plan",
        type=Path,
        metavar="FILE",
        help="also check whether this plan can be run here: rates, calibration, disk space, time, platforms",
    )
    parser.add_argument(
        "--fix", action="store_true", help="fix what can be fixed safely; fixes are undone at the end unless noted"
    )
    parser.add_argument("--brief", action="store_true", help="print only warnings and failures")
    # No defaults here: options without --observer-effect would have no effect, and are refused there.
    group = parser.add_argument_group("measuring the observer effect instead of running the checks")
    group.add_argument(
        "--observer-effect",
        type=whole_number,
        nargs="?",
        const=5,
        metavar="PAIRS",
        help="measure runs with the UUT observed quietly and live, in PAIRS pairs (default: 5), and compare them; "
        "none is saved",
    )
    add_configuration(group, frame_size_bytes=None, sources=None)
    group.add_argument(
        "--target",
        metavar="RATE",
        help="bandwidth on the wire per source, such as 100Mbit, max, or 1ns: a delay of 1 ns (default: 100Mbit)",
    )
    group.add_argument("--duration", type=number, metavar="S", help="seconds of traffic per run (default: 1)")
    add_shared(group, "--take-over")


def run(args: argparse.Namespace) -> int:
    """Run the checks or the comparison."""
    _refuse_strays(args)
    if args.observer_effect is not None:
        from labconsole.cli.commands.check.checks import run_observer_effect

        return run_observer_effect(args)
    from labconsole.cli.commands.check.checks import run_checks

    return run_checks(args)


def _refuse_strays(args: argparse.Namespace) -> None:
    """Raise ConfigError for an option without effect: one of the comparison without it, or vice versa."""
    wanted = args.observer_effect is not None
    for name in CHECK_OPTIONS if wanted else OBSERVER_OPTIONS:
        if getattr(args, name) not in (None, False):
            key = "--" + name.replace("_", "-")
            raise ConfigError(
                "cannot be combined with --observer-effect" if wanted else "needs --observer-effect", key=key
            )
