"""Guests that forward, each with routes of its own."""

from __future__ import annotations

from labconsole.model.plan.guest_kind import FactorOption, GuestCommand, GuestKind

KIND = GuestKind(
    name="route",
    plural="routes",
    place=40,
    instead="guests that forward",
    purpose="guests that forward",
    assumed="as long as they are sent to",
    title="Routers",
    result_title="packets/s at the sink",
    over_time=True,
    claim_tables=("route-changes",),
    abstract_tables=("mattos-abstract-routers",),
    command=GuestCommand(
        help="guests as routers: rate over routes, and over their number",
        description="Have any number of guests forward side by side between two NICs of the unit under test, each "
        "with routes of its own, and count what of each comes to the sink of the first stream. The first stream's "
        "source sends a flow to each router's own MAC address; what goes into a router and comes out of it is counted "
        "at the unit under test.",
        platforms="platforms of hosts.yaml",
        options=(
            FactorOption("--guests", "guests", "counts", "N,M", "how many routers forward at once (default: 1)"),
            FactorOption("--cpu", "cpu", "names", "A,B", "same, own, any (default: any)"),
            FactorOption("--routes", "routes", "counts", "N,M", "routes in each router (default: 0)"),
            FactorOption(
                "--destinations",
                "destinations",
                "counts",
                "N,M",
                "addresses that the traffic is spread over, each with a route of its own: powers of two (default: 1)",
            ),
            FactorOption(
                "--filters",
                "filters",
                "counts",
                "N,M",
                "rules of each router's packet filter that match nothing: a cost per packet (default: 0)",
            ),
            FactorOption(
                "--targets",
                "targets",
                "names",
                "A,B",
                "what is sent to all routers together, such as 130kpps; max: as much as the source can (default: max)",
            ),
            FactorOption("--frame-sizes", "frame_sizes", "counts", "N,M", "bytes with check sequence (default: 64)"),
            FactorOption("--duration", "duration_s", "number", "S", "how long is sent (default: 10)"),
            FactorOption(
                "--memory-mib", "memory_mib", "whole number", "MIB", "memory of each router (default: the platform's)"
            ),
        ),
        set_ups="how often the routers are set up",
        repetitions="trials in each set-up",
        summary="rates with intervals, what routes and further routers change",
    ),
)
