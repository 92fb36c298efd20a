"""The verdict on a trial of guests, whatever they did: what is the same for all kinds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from labconsole.model.inventory import Inventory
from labconsole.model.record.run import Reason, Verdict
from labconsole.model.tolerances import Tolerances
from labconsole.verdict.changes import Port, changes
from labconsole.verdict.consequences import weighed
from labconsole.verdict.influences import doubts, unobserved
from labconsole.verdict.observed import TrialObservations
from labconsole.verdict.reasons import reason


def judged(
    seen: TrialObservations,
    shown: Iterable[Reason],
    guest_problems: Iterable[str],
    *,
    limits: Tolerances,
    inventory: Inventory,
    ports: Sequence[Port] = (),
) -> Verdict:
    """``shown``: what the record itself shows; ``guest_problems``: a sentence for every guest that did not answer, or
    is not what was set up; ``ports``: the interfaces that the numbers rest on.
    """
    found = [*seen.doubts, *(reason("guests_missing", problem) for problem in guest_problems), *shown]
    found += changes(seen, limits, inventory.uut, ports)
    found += unobserved(seen)
    found += doubts(seen, (), limits, inventory.uut, emulated=inventory.emulated)
    return weighed(found)
