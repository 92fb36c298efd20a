"""By what guests were run, and under what the kernel was that ran it: whose trials are compared with whose. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from labconsole.measure.trials_of_guests import PointOfHypervisor, TrialOfGuests, uut_facts
from labconsole.model.conditions import hypervisor_words, seen_conditions

BARE_HOST: Final = "raw"
"""The driver of a platform whose guests are processes of the bare host; hosts.yaml may call the platform otherwise."""

GUESTS_BESIDE: Final = {"xen": "xl"}
"""Of hypervisors that the unit under test's own kernel may say that it runs under the driver whose guests are not in
that kernel, but beside it.
"""

UNDER: Final = " under "

H = TypeVar("H", bound=PointOfHypervisor)


def hypervisor(record: TrialOfGuests) -> str:
    """The driver, with the versions of what runs the guests and of what they start from; "" if it is not told. Of those
    in the UUT's own kernel also what that runs under.
    """
    words = hypervisor_words(seen_conditions({"platform": record.attestation}, None)) or ""
    under = _runs_under(record)
    return words if under is None else f"{words}{UNDER}{under}"


def _runs_under(record: TrialOfGuests) -> str | None:
    """Which hypervisor the kernel that its guests are in, or are started from, says that it runs under. None: it says
    nothing, or they are guests of that hypervisor themselves.
    """
    driver, found = record.attestation.get("driver"), uut_facts(record).get("hypervisor_type")
    if not isinstance(found, str) or not found or driver is None:
        return None
    return None if GUESTS_BESIDE.get(found) == driver else found


def runs_under(key: PointOfHypervisor) -> str:
    """What the kernel that a point was measured from runs under; "": nothing that it says. As Xen's first domain a
    host is bare to what is in its own kernel, and is not to Xen's guests.
    """
    return key.hypervisor.rpartition(UNDER)[2] if UNDER in key.hypervisor else ""


def told_hypervisor(key: H, keys: Iterable[H]) -> list[str]:
    """What tells a platform from the same of another hypervisor among ``keys``, or from that on bare hardware."""
    if len({each.hypervisor for each in keys if each.platform == key.platform}) > 1:
        return [key.hypervisor or "hypervisor not known"]
    return [f"under {under}"] if (under := runs_under(key)) else []


def apart_words(keys: Iterable[PointOfHypervisor]) -> str:
    """A sentence that says which trials are compared with each other only; "" where there are none."""
    under = sorted({(name, key.platform) for key in keys if (name := runs_under(key))})
    if not under:
        return ""
    hypervisors = ", ".join(dict.fromkeys(name for name, _ in under))
    platforms = ", ".join(dict.fromkeys(platform for _, platform in under))
    return (
        f" The kernel of the unit under test itself ran under {hypervisors} in trials of {platforms}: these are "
        "compared with each other only, and are not the bare host of other guests."
    )
