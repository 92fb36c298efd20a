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
    "Have any number of guests forward side by side between two NICs of the unit under test, each with routes of "
    "its own, and count what of each comes to the sink of the first stream. The first stream's source sends a flow "
    "to each router's own MAC address; what goes into a router and comes out of it is counted at the unit under test. "
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
    route.add_argument("--guests", type=counts, metavar="N,M", help="how many routers forward at once (default: 1)")
    route.add_argument("--cpu", type=comma_separated, metavar="A,B", help="same, own, any (default: any)")
    route.add_argument("--routes", type=counts, metavar="N,M", help="routes in each router (default: 0)")
    route.add_argument(
        "--destinations",
        type=counts,
        metavar="N,M",
        help="addresses that the traffic is spread over, each with a route of its own: powers of two (default: 1)",
    )
    route.add_argument(
        "--filters",
        type=counts,
        metavar="N,M",
        help="rules of each router's packet filter that match nothing: a cost per packet (default: 0)",
    )
    route.add_argument(
        "--targets",
        type=comma_separated,
        metavar="A,B",
        help="what is sent to all routers together, such as 130kpps; max: as much as the source can (default: max)",
    )
    route.add_argument("--frame-sizes", type=counts, metavar="N,M", help="bytes with check sequence (default: 64)")
    route.add_argument("--duration", type=number, metavar="S", help="how long is sent (default: 10)")
    route.add_argument(
        "--memory-mib", type=whole_number, metavar="MIB", help="memory of each router (default: the platform's)"
    )
    add_execution_options(route, set_ups="how often the routers are set up", repetitions="trials in each set-up")
    add_display_options(route, summary="rates with intervals, what routes and further routers change")


def run(args: argparse.Namespace) -> int:
    """Return 0 if no trial is invalid, else 1."""
    from labconsole.cli.text.guest_kinds import ROUTES_VIEW
    from labconsole.experiments.route.plan import RouteFactors

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
