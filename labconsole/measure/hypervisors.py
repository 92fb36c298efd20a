"""By what guests were run, and under what the kernel was that ran it: whose trials are compared with whose. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from labconsole.measure.paired_blocks import PointOfHypervisor, TrialOfGuests, uut_facts
from labconsole.model.conditions import format_hypervisor, read_conditions

BARE_HOST: Final = "raw"
"""The driver of a platform whose guests are processes of the bare host; hosts.yaml may call the platform otherwise."""

XEN: Final = "xen"
"""As Linux says that it runs under it (/sys/hypervisor/type): the only hypervisor of which it says so."""

UNDER_XEN: Final = f" under {XEN}"
UNDER_OR_BESIDE_XEN: Final = f"{UNDER_XEN} or beside"
"""Of tools of the operator's own, which may be Xen's."""

H = TypeVar("H", bound=PointOfHypervisor)


def hypervisor(record: TrialOfGuests) -> str:
    """The driver, with the versions of what runs the guests and of what they start from; "" if it is not told. Of those
    in the UUT's own kernel also what that runs under.
    """
    words = format_hypervisor(read_conditions({"platform": record.attestation}, None)) or ""
    return words + _outer_hypervisor(record)


def _outer_hypervisor(record: TrialOfGuests) -> str:
    """Words of what the kernel that its guests are in, or are started from, says that it runs under; "": of nothing, or
    they are guests of that hypervisor themselves.
    """
    told = record.attestation
    driver, versions = told.get("driver"), told.get("versions")
    if driver is None or uut_facts(record).get("hypervisor_type") != XEN:
        return ""
    connected = versions.get("hypervisor") if isinstance(versions, Mapping) else None  # as libvirt is
    if driver == "xl" or str(connected).lower().startswith(XEN):
        return ""
    return UNDER_OR_BESIDE_XEN if driver == "command" else UNDER_XEN


def find_outer_hypervisor(key: PointOfHypervisor) -> str:
    """What the kernel that a point was measured from runs under; "": nothing that it says. As Xen's first domain a
    host is bare to what is in its own kernel, and is not to Xen's guests.
    """
    return next((each.strip() for each in (UNDER_OR_BESIDE_XEN, UNDER_XEN) if key.hypervisor.endswith(each)), "")


def disambiguate_hypervisor(key: H, keys: Iterable[H]) -> list[str]:
    """What tells a platform from the same of another hypervisor among ``keys``, or from that on bare hardware."""
    if len({each.hypervisor for each in keys if each.platform == key.platform}) > 1:
        return [key.hypervisor or "hypervisor not known"]
    return [under] if (under := find_outer_hypervisor(key)) else []


def describe_outer_hypervisors(keys: Iterable[PointOfHypervisor]) -> str:
    """A sentence that says which trials are compared with each other only; "" where there are none."""
    platforms = list(dict.fromkeys(key.platform for key in keys if find_outer_hypervisor(key)))
    if not platforms:
        return ""
    return (
        f" The kernel of the unit under test itself ran under Xen in trials of {', '.join(sorted(platforms))}: these "
        "are compared with each other only, and are not the bare host of other guests."
    )
