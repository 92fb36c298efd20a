"""The hypervisors of guests, and those below them, which determine the trials that are compared. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from labconsole.measure.paired_blocks import PointOfHypervisor, TrialOfGuests, uut_facts
from labconsole.model.conditions import format_hypervisor, read_conditions

BARE_HOST: Final = "raw"
"""The driver of a platform whose guests are processes of the bare host, whatever the platform's name in hosts.yaml."""

XEN: Final = "xen"
"""The only hypervisor that Linux names when running under it (/sys/hypervisor/type)."""

UNDER_XEN: Final = f" under {XEN}"
MAYBE_UNDER_XEN: Final = f"{UNDER_XEN} or beside"
"""For guests of the operator's own tools, which may be Xen's."""

H = TypeVar("H", bound=PointOfHypervisor)


def hypervisor(record: TrialOfGuests) -> str:
    """The driver, with the versions of what runs the guests and of their images, or "" if it is not known.

    For guests in the UUT's own kernel, also the hypervisor below that kernel.
    """
    described = format_hypervisor(read_conditions({"platform": record.attestation}, None)) or ""
    return described + _outer_hypervisor(record)


def _outer_hypervisor(record: TrialOfGuests) -> str:
    """Description of the hypervisor below the kernel that contains or starts the guests, or "".

    It is "" if there is none, or if the guests are that hypervisor's own guests.
    """
    attestation = record.attestation
    driver, versions = attestation.get("driver"), attestation.get("versions")
    if driver is None or uut_facts(record).get("hypervisor_type") != XEN:
        return ""
    connected = versions.get("hypervisor") if isinstance(versions, Mapping) else None  # for example libvirt
    if driver == "xl" or str(connected).lower().startswith(XEN):
        return ""
    return MAYBE_UNDER_XEN if driver == "command" else UNDER_XEN


def find_outer_hypervisor(key: PointOfHypervisor) -> str:
    """The hypervisor below the kernel from which a point was measured, or "" if it reports none.

    As Xen's first domain a host is bare for guests in its own kernel, but not for Xen's guests.
    """
    return next((each.strip() for each in (MAYBE_UNDER_XEN, UNDER_XEN) if key.hypervisor.endswith(each)), "")


def disambiguate_hypervisor(key: H, keys: Iterable[H]) -> list[str]:
    """Texts that distinguish a platform from the same one with another hypervisor among ``keys``, or on bare
    hardware.
    """
    if len({each.hypervisor for each in keys if each.platform == key.platform}) > 1:
        return [key.hypervisor or "hypervisor not known"]
    return [under] if (under := find_outer_hypervisor(key)) else []


def describe_outer_hypervisors(keys: Iterable[PointOfHypervisor]) -> str:
    """A sentence on trials that are compared only with each other, or "" if there are none."""
    platforms = list(dict.fromkeys(key.platform for key in keys if find_outer_hypervisor(key)))
    if not platforms:
        return ""
    return (
        f" The kernel of the unit under test itself ran under Xen in trials of {', '.join(sorted(platforms))}: these "
        "are compared with each other only, and are not the bare host of other guests."
    )
