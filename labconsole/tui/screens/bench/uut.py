"""Activity on the unit under test as text: the lease's holder, guests, load. Pure.

Unknown facts are left out rather than shown as nothing. If all are unknown, the text is "nothing known yet".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labconsole.text.cells import format_decimal, safe

if TYPE_CHECKING:
    from labconsole.engine.inspection import Inspection
    from labconsole.engine.leases import LeaseHolder
    from labconsole.wire.host_activity import NodeSurroundings

SHOWN_GUESTS = 4


@dataclass(slots=True)
class UutView:
    """The last look at the unit under test. ``why_not``: why there was none, in a sentence."""

    inspection: Inspection | None = None
    why_not: str = ""

    def describe(self, holders: Mapping[str, LeaseHolder], uut: str) -> tuple[tuple[str, ...], str]:
        """Wordings from longest to shortest, and their tone."""
        foreign = {node: holder for node, holder in holders.items() if not holder.own}
        if foreign:
            node = uut if uut in foreign else next(iter(foreign))
            holder = foreign[node]
            owner = safe(holder.owner or "another session", 40)
            holder_text = f"! {'' if node == uut else f'{safe(node, 20)} '}leased by"
            since = "" if holder.since is None else f" since {holder.since:%H:%M}"
            purpose = f" for {safe(holder.purpose, 40)}" if holder.purpose else ""
            shorter = (f"{owner}{since}{purpose}", f"{owner}{since}", owner)
            return (
                f"{holder_text} {safe(holder.describe(), 160)}",
                *(f"{holder_text} {wording}" for wording in shorter),
            ), "warn"
        if self.inspection is None:
            return (self.why_not or "not inspected yet",), "muted"
        seen = self.inspection.surroundings
        guests, busy, others = (_guests(seen), _load(seen), _others(seen)) if seen is not None else ("", "", "")
        alone = not others and not (seen is not None and seen.guests)
        full = [part for part in (guests, busy, others, "free") if part]
        brief = [part for part in (guests, busy) if part] or ["free"]
        return (" · ".join(full), " · ".join(brief), brief[0]), "muted" if alone else "warn"


def _guests(seen: NodeSurroundings) -> str:
    names = [safe(guest.name, 24) for guest in seen.guests]
    if not names:
        return "no guests"
    more = f" and {len(names) - SHOWN_GUESTS} more" if len(names) > SHOWN_GUESTS else ""
    return f"! {'guest' if len(names) == 1 else 'guests'} {', '.join(names[:SHOWN_GUESTS])}{more}"


def _load(seen: NodeSurroundings) -> str:
    if not seen.load:
        return ""
    return f"load {format_decimal(seen.load[0], 2)}" + (f" on {seen.cpus} CPUs" if seen.cpus is not None else "")


def _others(seen: NodeSurroundings) -> str:
    others = (("other console", len(seen.sessions)), ("login", len(seen.logins or ())))
    return ", ".join(f"{found} {word if found == 1 else word + 's'}" for word, found in others if found)
