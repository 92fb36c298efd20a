"""``labconsole experiment route``: guests that forward with their own routes, and the rate of each."""

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
    "Any number of guests forward side by side between two NICs of the unit under test, each with its own routes, "
    "and the sink of the first stream counts what arrives from each. The first stream's source sends a flow to each "
    "router's own MAC address; what enters and leaves a router is counted at the unit under test. "
    "The route key of a plan does the same for every combination of factors and can be resumed. Exit status: 0 no "
    "trial is invalid; 1 one is; 2 bad usage; 3 a node is out of reach, lost or cannot do its part; 130 interrupted."
)


def add_kind(kinds: Any) -> None:
    """Add the options of this kind."""
    route: argparse.ArgumentParser = kinds.add_parser(
        "route", help="guests as routers: rate over routes, and over their number", description=DESCRIPTION
    )
    add_common(route, "--hosts", "--store", "--json")
    route.add_argument("--platforms", type=comma_separated, metavar="A,B", help="platforms of hosts.yaml")
    route.add_argument(
        "--guests", type=counts, metavar="N,M", help="number of routers that forward at once (default: 1)"
    )
    route.add_argument("--cpu", type=comma_separated, metavar="A,B", help="same, own, any (default: any)")
    route.add_argument("--routes", type=counts, metavar="N,M", help="routes in each router (default: 0)")
    route.add_argument(
        "--destinations",
        type=counts,
        metavar="N,M",
        help="number of destination addresses, each with its own route: powers of two (default: 1)",
    )
    route.add_argument(
        "--filters",
        type=counts,
        metavar="N,M",
        help="rules in each router's packet filter that match nothing but cost time per packet (default: 0)",
    )
    route.add_argument(
        "--targets",
        type=comma_separated,
        metavar="A,B",
        help="load of all routers together, such as 130kpps; max: as much as the source can send (default: max)",
    )
    route.add_argument("--frame-sizes", type=counts, metavar="N,M", help="frame sizes in bytes, with FCS (default: 64)")
    route.add_argument("--duration", type=number, metavar="S", help="sending time in seconds (default: 10)")
    route.add_argument(
        "--memory-mib", type=whole_number, metavar="MIB", help="memory of each router (default: the platform's)"
    )
    add_execution_options(route, set_ups="number of set-ups of the routers", repetitions="trials in each set-up")
    add_display_options(route, summary="rates with intervals, effects of routes and of further routers")


def run(args: argparse.Namespace) -> int:
    """Return 0 if no trial is invalid, else 1."""
    from labconsole.cli.text.guest_kinds import ROUTES_VIEW
    from labconsole.model.plan.routes import RouteFactors

    if args.list or args.show or args.summary:
        return show_stored(args, ROUTES_VIEW)
    require_options(args, "platforms")
    wanted = {
        "guests": args.guests,
        "cpu": args.cpu,
        "routes": args.routes,
        "destinations": args.destinations,
        "filters": args.filters,
        "targets": args.targets,
        "frame_sizes": args.frame_sizes,
        "duration_s": args.duration,
        "memory_mib": args.memory_mib,
    }
    return run_trials(args, ROUTES_VIEW, parse_factor_options(RouteFactors, wanted))
