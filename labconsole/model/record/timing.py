"""Results of a run's time stamps for one stream: delay, its variation, and how evenly the frames arrived.

One-way delay needs two clocks that are shown to agree; delay variation does not. So the former can be absent, with the
reason, while the latter is present.
"""

from __future__ import annotations

from typing import Literal

from labconsole.model.strict_model import StrictModel


class Quantiles(StrictModel):
    """Quantiles of the sample, in ns; nearest rank."""

    p50: int
    p99: int
    p999: int
    max: int


class Variation(Quantiles):
    """Quantiles of absolute differences."""

    mean: float


class OneWayDelay(Quantiles):
    """From the sender's time stamp to the capture's."""

    min: int
    mean: float


class Delay(StrictModel):
    """Delay of a sample of one stream's frames: ``packets`` of them, two neighbours in every ``pair_every_packets``.

    ``one_way_ns`` is None if the clocks are not shown to agree well enough, and ``reason`` then says why.
    ``clock_bound_ns``: maximum difference of the two time stamps, or None if unknown. ``pdv_ns``: delay over the
    shortest in the sample (RFC 5481, PDV). ``ipdv_ns``: difference between neighbours (RFC 3393), absolute.
    """

    packets: int
    pair_every_packets: int
    one_way: bool
    reason: str | None
    clock_bound_ns: int | None
    one_way_ns: OneWayDelay | None
    pdv_ns: Quantiles
    ipdv_ns: Variation | None
    sampling: Literal["systematic", "random"] = "systematic"
    """random: a new random place each time (RFC 2330, section 11.1.1); systematic: at a fixed interval of packets, as
    in format 1.
    """


class StreamSpacing(StrictModel):
    """How evenly the first ``packets`` frames arrived at the sink, measured in calibrations.

    ``arrival_pps``: by the capture's first and last time stamp of the whole stream.
    """

    packets: int
    arrival_pps: float | None
    gap_ns: dict[str, float]
    burst_packets: int
    peak_packets: dict[str, int | None]
