"""Where packets of a router's stream were lost: before it, in it, or behind it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from labconsole.model.record.route import RouterRecord
from labconsole.units import format_count


@dataclass(frozen=True, slots=True)
class Hops:
    """Packets that were lost on the way to a router, in it, and from it to the sink; None: not counted."""

    sent: int | None
    before: int | None
    inside: int | None
    behind: int | None
    arrived: int

    @property
    def lost_ratio(self) -> float | None:
        """Of what was sent what did not come to the sink."""
        return None if not self.sent else (self.sent - self.arrived) / self.sent

    @property
    def lost_packets(self) -> tuple[int, int] | None:
        """What did not come to the sink, of how many that were sent."""
        return None if not self.sent else (self.sent - self.arrived, self.sent)

    @property
    def inside_packets(self) -> tuple[int, int] | None:
        """What was lost in the router, of how many that came into it."""
        if self.sent is None or self.before is None or self.inside is None or self.sent == self.before:
            return None
        return self.inside, self.sent - self.before

    def words(self) -> str:
        """Begins with a comma; nothing where nothing was lost."""
        if self.sent is None or self.sent == self.arrived:
            return ""
        of = ((self.before, "on the way to it"), (self.inside, "in it"), (self.behind, "behind it"))
        where = ", ".join(f"{format_count(lost)} {words}" for lost, words in of if lost)
        return f", lost {self.lost_ratio:.2%} of what was sent ({where})"


def build_hops(router: RouterRecord) -> Hops:
    """By the source, the UUT's interfaces to the router, and the sink's capture."""
    return Hops(
        sent=router.sent_packets,
        before=_less(router.sent_packets, router.to_packets),
        inside=_less(router.to_packets, router.from_packets),
        behind=_less(router.from_packets, router.packets),
        arrived=router.packets,
    )


def _less(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else before - after
