"""Starts of guests: when all are up, and their memory."""

from __future__ import annotations

from labconsole.model.plan.guest_kind import FactorOption, GuestCommand, GuestKind

KIND = GuestKind(
    name="boot",
    plural="boots",
    place=20,
    instead="guests to start",
    purpose="starts of guests",
    assumed="if each guest takes five seconds",
    title="Starts of guests",
    result_title="all up after, memory",
    claim_tables=("quetier-2-compared",),
    abstract_tables=("quetier-abstract-memory",),
    command=GuestCommand(
        help="start-up time and memory of guests",
        description="Start any number of guests at once, and measure the time until the last of them is up, by a "
        "clock outside the guests: the sink of the first stream receives a ping from each. Cold: the "
        "guests' files are not in memory, which is verified; hot: they are, after one start that is "
        "discarded. When all guests have been quiet for five seconds, their memory is measured; context "
        "switches are counted in the last three of these five seconds, and in the last three of five "
        "seconds before the start.",
        platforms="platforms of hosts.yaml with guests",
        options=(
            FactorOption("--guests", "guests", "counts", "N,M", "number of guests started at once (default: 1)"),
            FactorOption("--start", "start", "names", "A,B", "cold, hot (default: hot)"),
            FactorOption(
                "--memory-mib", "memory_mib", "whole number", "MIB", "memory of each guest (default: the platform's)"
            ),
            FactorOption(
                "--limit", "limit_s", "number", "S", "seconds after which a guest counts as missing (default: 300)"
            ),
        ),
        set_ups="rounds in which every point is measured",
        repetitions="trials of each point per round",
        summary="times and memory with intervals, and fits over the number of guests",
    ),
)
