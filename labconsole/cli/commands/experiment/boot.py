"""``labconsole experiment boot``: start-up time of guests, and their memory."""

from __future__ import annotations

import argparse
from typing import Any

from labconsole.cli.commands.experiment.guest_experiments import (
    add_display_options,
    add_execution_options,
    counts,
    parse_factor_options,
    require_options,
    run_trials,
    show_stored,
)
from labconsole.cli.options import add_common, comma_separated, number, whole_number

DESCRIPTION = (
    "Start any number of guests at once, and take the time until the last of them is up by a clock outside of them: "
    "the sink of the first stream, which sees a ping of each. Cold: what the guests start from is not in memory, which "
    "is proven; hot: all of it is, after one start that is thrown away. When all have been quiet for five seconds, "
    "their memory is measured; context switches are counted in the last three of these five seconds, and in the last "
    "three of five seconds before the start. The boot "
    "key of a plan does the same for every combination of factors and can be resumed. Exit status: 0 no trial is "
    "invalid; 1 one is; 2 bad usage; 3 a node is out of reach, lost or cannot do its part; 130 interrupted."
)


def add_kind(kinds: Any) -> None:
    """Add the options of this kind."""
    boot: argparse.ArgumentParser = kinds.add_parser(
        "boot", help="start-up time and memory of guests", description=DESCRIPTION
    )
    add_common(boot, "--hosts", "--store", "--json")
    boot.add_argument("--platforms", type=comma_separated, metavar="A,B", help="platforms of hosts.yaml with guests")
    boot.add_argument("--guests", type=counts, metavar="N,M", help="how many guests are started at once (default: 1)")
    boot.add_argument("--start", type=comma_separated, metavar="A,B", help="cold, hot (default: hot)")
    boot.add_argument(
        "--memory-mib", type=whole_number, metavar="MIB", help="memory of each guest (default: the platform's)"
    )
    boot.add_argument("--limit", type=number, metavar="S", help="a guest that takes longer is missing (default: 300)")
    add_execution_options(
        boot, set_ups="how often every point is measured", repetitions="how often in each of these rounds"
    )
    add_display_options(boot, summary="times and memory with intervals, and lines over the number of guests")


def run(args: argparse.Namespace) -> int:
    """Return 0 if no trial is invalid, else 1."""
    from labconsole.cli.text.guest_kinds import BOOTS_VIEW
    from labconsole.experiments.boot.plan import BootFactors

    if args.list or args.show or args.summary:
        return show_stored(args, BOOTS_VIEW)
    require_options(args, "platforms")
    wanted = {"guests": args.guests, "start": args.start, "memory_mib": args.memory_mib, "limit_s": args.limit}
    return run_trials(args, BOOTS_VIEW, parse_factor_options(BootFactors, wanted))
