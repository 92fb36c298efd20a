"""Guests that forward, each with routes of its own."""

from __future__ import annotations

from labconsole.model.plan.guest_kind import FactorOption, GuestCommand, GuestKind

KIND = GuestKind(
    name="route",
    plural="routes",
    place=40,
    instead="guests that forward",
    purpose="guests that forward",
    assumed="for the requested sending time",
    title="Routers",
    result_title="packets/s at the sink",
    over_time=True,
    claim_tables=("route-changes",),
    abstract_tables=("mattos-abstract-routers",),
    command=GuestCommand(
        help="guests as routers: rate over routes, and over their number",
        description="Any number of guests forward side by side between two NICs of the unit under test, each with "
        "its own routes, and the sink of the first stream counts what arrives from each. The first "
        "stream's source sends a flow to each router's own MAC address; what enters and leaves a router "
        "is counted at the unit under test.",
        platforms="platforms of hosts.yaml",
        options=(
            FactorOption("--guests", "guests", "counts", "N,M", "number of routers that forward at once (default: 1)"),
            FactorOption("--cpu", "cpu", "names", "A,B", "same, own, any (default: any)"),
            FactorOption("--routes", "routes", "counts", "N,M", "routes in each router (default: 0)"),
            FactorOption(
                "--destinations",
                "destinations",
                "counts",
                "N,M",
                "number of destination addresses, each with its own route: powers of two (default: 1)",
            ),
            FactorOption(
                "--filters",
                "filters",
                "counts",
                "N,M",
                "rules in each router's packet filter that match nothing but cost time per packet (default: 0)",
            ),
            FactorOption(
                "--targets",
                "targets",
                "names",
                "A,B",
                "load of all routers together, such as 130kpps; max: as much as the source can send (default: max)",
            ),
            FactorOption(
                "--frame-sizes", "frame_sizes", "counts", "N,M", "frame sizes in bytes, with FCS (default: 64)"
            ),
            FactorOption("--duration", "duration_s", "number", "S", "sending time in seconds (default: 10)"),
            FactorOption(
                "--memory-mib", "memory_mib", "whole number", "MIB", "memory of each router (default: the platform's)"
            ),
        ),
        set_ups="number of set-ups of the routers",
        repetitions="trials in each set-up",
        summary="rates with intervals, effects of routes and of further routers",
    ),
)
