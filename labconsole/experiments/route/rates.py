"""Rates of each router, their sum and shares, and where packets of a router's stream were lost. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labconsole.engine.crew_sink import FlowArrivals, SharedTime, derive_shared_time
from labconsole.experiments.route.record import RouterRecord
from labconsole.units import format_count

# -- rates -------------------------------------------------------------------------------------------------------------
# Rates of each router, their sum and shares, derived from the packets of a trial.


def derive_router_rates(arrivals: Mapping[str, FlowArrivals], origin_ns: int | None, bin_s: float) -> SharedTime:
    """Derive all routers' rates over the time in which all of them forward."""

    def rate(name: str, first: int, stop: int) -> float:
        return sum(arrivals[name].bin_packets[first:stop]) / ((stop - first) * bin_s)

    return derive_shared_time({name: [each] for name, each in arrivals.items()}, origin_ns, bin_s, rate)


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
