"""Guests that send or are sent to at once, and what each gets of one NIC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labconsole.errors import ConfigError
from labconsole.model.plan.guest_kind import FactorOption, GuestCommand, GuestKind

BIN_RATIO = 0.2
"""Largest default bin, as a share of a step of the weights: each step has to have several bins."""
DURATION_WITH_DISK_S = 30.0
"""Leaves room before and after the disk job, which runs from 10 to 20 s."""


def _build_factors(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Options for weights and for work on a disk are one factor each, and time depends on them."""
    from labconsole.experiments.flow.plan import FlowFactors
    from labconsole.model.flow_scenarios import WeightSteps

    factors = {name: value for name, value in given.items() if "." not in name}
    every_s = given["weights.every_s"]
    if given["weights"] is not None:
        factors["weights"] = {"steps": given["weights"], **({} if every_s is None else {"every_s": every_s})}
    elif every_s is not None:
        raise ConfigError("only applies to weights", key="--weights-every", allowed="with --weights")
    times = {name: given[f"disk.{name}"] for name in ("from_s", "to_s") if given[f"disk.{name}"] is not None}
    if given["disk"] is not None:
        factors["disk"] = {"job": given["disk"], **times}
        factors["duration_s"] = DURATION_WITH_DISK_S if given["duration_s"] is None else given["duration_s"]
    elif times:
        raise ConfigError("only applies to a job", key="--disk-from, --disk-to", allowed="with --disk")
    step_s = every_s or WeightSteps.model_fields["every_s"].default
    if given["bin_s"] is None and given["weights"] is not None and len(given["weights"]) > 1 and step_s > 0:
        factors["bin_s"] = min(BIN_RATIO * step_s, FlowFactors.model_fields["bin_s"].default)
    for name in ("limits", "second_after_s"):
        factors[name] = None if given[name] is None else [given[name]]
    return factors


KIND = GuestKind(
    name="flow",
    plural="flows",
    place=30,
    instead="guests that send",
    purpose="flows out of guests",
    assumed="for the requested sending time",
    title="Flows out of guests",
    result_title="Mbit/s in all, by guest",
    over_time=True,
    claim_tables=("flow-overheads",),
    abstract_tables=("mattos-abstract-network",),
    command=GuestCommand(
        help="share of one NIC that each guest gets",
        description="Any number of guests send UDP at once through one NIC of the unit under test, and the sink of "
        "the first stream counts what arrives from each, by flow and over time; what leaves each guest "
        "is also counted at its interface on the unit under test. Guests may have rate limits, begin "
        "later, or send several flows. With --pattern in, the source sends to the guests instead, and "
        "what they read is counted inside them.",
        platforms="platforms of hosts.yaml",
        options=(
            FactorOption(
                "--guests",
                "guests",
                "counts",
                "N,M",
                "number of guests that send (or receive) simultaneously (default: 1)",
            ),
            FactorOption(
                "--pattern",
                "pattern",
                "names",
                "A,B",
                "out: to the sink; in: from the source to each guest; ring: each guest to the next over TCP, inside "
                "the unit under test (default: out)",
            ),
            FactorOption("--cpu", "cpu", "names", "A,B", "same, own, any (default: any)"),
            FactorOption(
                "--offered",
                "offered",
                "names",
                "A,B",
                "payload rate of each flow, such as 100Mbit; line: the link's speed, or to guests as much as the link "
                "carries (default: line)",
            ),
            FactorOption("--limits", "limits", "names", "A,B", "rate limits of the guests, in turn, in whole frames"),
            FactorOption(
                "--weights",
                "weights",
                "names",
                "A,B",
                "link share weights per guest; a comma starts the next step, such as 30:1,1:1,1:30",
            ),
            FactorOption(
                "--weights-every",
                "weights.every_s",
                "number",
                "S",
                "length of a step of weights, in seconds (default: 1)",
            ),
            FactorOption(
                "--disk",
                "disk",
                "name",
                "JOB",
                "the last guest's job on its disk, instead of sending: disk-mixed, disk-read, disk-zero",
            ),
            FactorOption(
                "--disk-from", "disk.from_s", "number", "S", "begin of the disk job, in seconds (default: 10)"
            ),
            FactorOption("--disk-to", "disk.to_s", "number", "S", "end of the disk job, in seconds (default: 20)"),
            FactorOption("--greedy", "greedy", "counts", "N,M", "number of flows of the first guest (default: 1)"),
            FactorOption(
                "--second-after",
                "second_after_s",
                "number",
                "S",
                "delay before all guests but the first begin, in seconds",
            ),
            FactorOption(
                "--payload-bytes", "payload_bytes", "counts", "N,M", "payload of a datagram, in bytes (default: 1472)"
            ),
            FactorOption(
                "--duration", "duration_s", "number", "S", "sending time in seconds (default: 10, with --disk 30)"
            ),
            FactorOption(
                "--bin",
                "bin_s",
                "number",
                "S",
                "bin width for rates, in seconds (default: 1, or a fifth of a step of weights if that is less)",
            ),
            FactorOption(
                "--memory-mib", "memory_mib", "whole number", "MIB", "memory of each guest (default: the platform's)"
            ),
        ),
        factors=_build_factors,
        set_ups="number of set-ups of the guests",
        repetitions="trials in each set-up",
        summary="rates with intervals, shares, isolation",
    ),
)
