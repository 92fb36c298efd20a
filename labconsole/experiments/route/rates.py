"""Rates of each router, their sum and shares, derived from the packets of a trial. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labconsole.measure.fairness import whole_bins
from labconsole.measure.statistics.repetitions import jain_index


@dataclass(frozen=True, slots=True)
class ArrivedPackets:
    """Packets of a router that arrived at the sink."""

    packets: int = 0
    bytes: int = 0
    first_at_ns: int | None = None
    last_at_ns: int | None = None
    bin_packets: tuple[int, ...] = ()
    outside_packets: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JointForwarding:
    """The bins in which all routers forward, from ``first`` to before ``stop``, and the rates in them; all None without
    such bins.
    """

    first: int | None = None
    stop: int | None = None
    each_pps: Mapping[str, float] | None = None
    sum_pps: float | None = None
    jain: float | None = None


def derive_joint_forwarding(
    arrived: Mapping[str, ArrivedPackets], origin_ns: int | None, bin_s: float
) -> JointForwarding:
    """Derive all routers' rates over the time in which all of them forward."""
    firsts = [each.first_at_ns for each in arrived.values()]
    lasts = [each.last_at_ns for each in arrived.values()]
    if origin_ns is None or not arrived or None in firsts or None in lasts:
        return JointForwarding()
    first, stop = whole_bins(
        max(each for each in firsts if each is not None),
        min(each for each in lasts if each is not None),
        origin_ns,
        round(bin_s * 1e9),
    )
    stop = min(stop, max(len(each.bin_packets) for each in arrived.values()))
    if stop <= first:
        return JointForwarding()
    each_pps = {name: sum(each.bin_packets[first:stop]) / ((stop - first) * bin_s) for name, each in arrived.items()}
    return JointForwarding(
        first=first, stop=stop, each_pps=each_pps, sum_pps=sum(each_pps.values()), jain=jain_index(each_pps.values())
    )


def start_skew_s(firsts: Sequence[int | None]) -> float | None:
    """Time between the first packets of the routers at the sink, or None if there are not two."""
    known = [each for each in firsts if each is not None]
    return (max(known) - min(known)) / 1e9 if len(known) > 1 else None


def rate_pps(packets: int | None, took_s: float | None) -> float | None:
    """Packets per second, or None if either value is not known."""
    return None if packets is None or not took_s else packets / took_s
