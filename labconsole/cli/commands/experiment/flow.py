"""``labconsole experiment flow``: guests that send at once through one NIC, and each one's share."""

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
from labconsole.errors import ConfigError

BIN_RATIO = 0.2
"""Largest default bin, as a share of a step of the weights: each step has to have several bins."""
DURATION_WITH_DISK_S = 30.0
"""Leaves room before and after the disk job, which runs from 10 to 20 s."""

DESCRIPTION = (
    "Have any number of guests send UDP at once through one NIC of the unit under test, and count what of each comes "
    "to the sink of the first stream, flow by flow and over time; what comes out of each guest is counted at its "
    "interface on the unit under test, too. Guests may be held to rates, begin later, or have several flows. With "
    "--pattern in the source sends to the guests instead, and what they read is counted inside. The flow "
    "key of a plan does the same for every combination of factors and can be resumed. Exit status: 0 no trial "
    "is invalid; 1 one is; 2 bad usage; 3 a node is out of reach, lost or cannot do its part; 130 interrupted."
)


def add_kind(kinds: Any) -> None:
    """Add the options of this kind."""
    flow: argparse.ArgumentParser = kinds.add_parser(
        "flow", help="what each guest gets of one NIC", description=DESCRIPTION
    )
    add_common(flow, "--hosts", "--store", "--json")
    flow.add_argument("--platforms", type=comma_separated, metavar="A,B", help="platforms of hosts.yaml")
    flow.add_argument(
        "--guests", type=counts, metavar="N,M", help="how many guests send, or are sent to, at once (default: 1)"
    )
    flow.add_argument(
        "--pattern",
        type=comma_separated,
        metavar="A,B",
        help="out: to the sink; in: from the source to each guest; ring: each guest to the next over TCP, inside the "
        "unit under test (default: out)",
    )
    flow.add_argument("--cpu", type=comma_separated, metavar="A,B", help="same, own, any (default: any)")
    flow.add_argument(
        "--offered",
        type=comma_separated,
        metavar="A,B",
        help="payload of each flow, such as 100Mbit; line: as much as the link's speed, to guests what the link "
        "carries (default: line)",
    )
    flow.add_argument(
        "--limits",
        type=comma_separated,
        metavar="A,B",
        help="what each of the guests may send, in turn, in whole frames",
    )
    flow.add_argument(
        "--weights",
        type=comma_separated,
        metavar="A,B",
        help="by which the guests share the link, such as 30:1,1:1,1:30: one after the other, the last to the end",
    )
    flow.add_argument("--weights-every", type=number, metavar="S", help="how long weights hold (default: 1)")
    flow.add_argument(
        "--disk",
        metavar="JOB",
        help="what the last guest does on its disk instead of sending: disk-mixed, disk-read, disk-zero",
    )
    flow.add_argument("--disk-from", type=number, metavar="S", help="when it begins (default: 10)")
    flow.add_argument("--disk-to", type=number, metavar="S", help="when it ends (default: 20)")
    flow.add_argument("--greedy", type=counts, metavar="N,M", help="flows of the first guest (default: 1)")
    flow.add_argument("--second-after", type=number, metavar="S", help="how much later all but the first begin")
    flow.add_argument("--payload-bytes", type=counts, metavar="N,M", help="payload of a datagram (default: 1472)")
    flow.add_argument("--duration", type=number, metavar="S", help="how long is sent (default: 10, with --disk 30)")
    flow.add_argument(
        "--bin",
        type=number,
        metavar="S",
        help="over which a rate is a mean (default: 1, or a fifth of the time that weights hold where that is less)",
    )
    flow.add_argument(
        "--memory-mib", type=whole_number, metavar="MIB", help="memory of each guest (default: the platform's)"
    )
    add_execution_options(flow, set_ups="how often the guests are set up", repetitions="trials in each set-up")
    add_display_options(flow, summary="rates with intervals, shares, isolation")


def run(args: argparse.Namespace) -> int:
    """Return 0 if no trial is invalid, else 1."""
    from labconsole.cli.text.guest_kinds import FLOWS_VIEW
    from labconsole.experiments.flow.plan import FlowFactors
    from labconsole.model.weights import WeightSteps

    if args.list or args.show or args.summary:
        return show_stored(args, FLOWS_VIEW)
    require_options(args, "platforms")
    weights = None if args.weights is None else {"steps": args.weights}
    if args.weights_every is not None:
        if weights is None:
            raise ConfigError("is of no use without weights", key="--weights-every", allowed="with --weights")
        weights = {**weights, "every_s": args.weights_every}
    disk = {"job": args.disk, "from_s": args.disk_from, "to_s": args.disk_to}
    if args.disk is None and (args.disk_from is not None or args.disk_to is not None):
        raise ConfigError("is of no use without a job", key="--disk-from, --disk-to", allowed="with --disk")
    duration_s = DURATION_WITH_DISK_S if args.duration is None and args.disk is not None else args.duration
    every_s = args.weights_every or WeightSteps.model_fields["every_s"].default
    bin_s = args.bin
    if bin_s is None and args.weights is not None and len(args.weights) > 1 and every_s > 0:
        bin_s = min(BIN_RATIO * every_s, FlowFactors.model_fields["bin_s"].default)
    wanted = {
        "pattern": args.pattern,
        "guests": args.guests,
        "cpu": args.cpu,
        "offered": args.offered,
        "limits": None if args.limits is None else [args.limits],
        "greedy": args.greedy,
        "second_after_s": None if args.second_after is None else [args.second_after],
        "payload_bytes": args.payload_bytes,
        "duration_s": duration_s,
        "bin_s": bin_s,
        "memory_mib": args.memory_mib,
        "weights": weights,
        "disk": None if args.disk is None else {key: value for key, value in disk.items() if value is not None},
    }
    factors = parse_factor_options(FlowFactors, wanted)
    return run_trials(args, FLOWS_VIEW, factors)
