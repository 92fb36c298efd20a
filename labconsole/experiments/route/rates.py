"""Rates of each router, their sum and shares, and where packets of a router's stream were lost. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labconsole.experiments.route.record import RouterRecord
from labconsole.measure.fairness import whole_bins
from labconsole.measure.statistics.repetitions import jain_index
from labconsole.units import format_count

# -- rates -------------------------------------------------------------------------------------------------------------
# Rates of each router, their sum and shares, derived from the packets of a trial.


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


# -- ledger ------------------------------------------------------------------------------------------------------------
# Where packets of a router's stream were lost: before it, in it, or behind it.


@dataclass(frozen=True, slots=True)
class Hops:
    """Packets lost on the way to a router, in it, and from it to the sink; None if not counted."""

    sent: int | None
    before: int | None
    inside: int | None
    behind: int | None
    arrived: int

    @property
    def lost_ratio(self) -> float | None:
        """Share of the sent packets that did not arrive at the sink, or None if not known."""
        return None if not self.sent else (self.sent - self.arrived) / self.sent

    @property
    def lost_packets(self) -> tuple[int, int] | None:
        """Packets that did not arrive at the sink, and packets sent; None if not known."""
        return None if not self.sent else (self.sent - self.arrived, self.sent)

    @property
    def inside_packets(self) -> tuple[int, int] | None:
        """Packets lost in the router, and packets that went into it; None if not known."""
        if self.sent is None or self.before is None or self.inside is None or self.sent == self.before:
            return None
        return self.inside, self.sent - self.before

    def words(self) -> str:
        """The losses as text that begins with a comma; empty if nothing was lost."""
        if self.sent is None or self.sent == self.arrived:
            return ""
        of = ((self.before, "on the way to it"), (self.inside, "in it"), (self.behind, "behind it"))
        where = ", ".join(f"{format_count(lost)} {place}" for lost, place in of if lost)
        return f", lost {self.lost_ratio:.2%} of what was sent ({where})"


def build_hops(router: RouterRecord) -> Hops:
    """Build them from the counts of the source, of the UUT's interfaces to the router, and of the sink's capture."""
    return Hops(
        sent=router.sent_packets,
        before=_less(router.sent_packets, router.to_packets),
        inside=_less(router.to_packets, router.from_packets),
        behind=_less(router.from_packets, router.packets),
        arrived=router.packets,
    )


def _less(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else before - after
