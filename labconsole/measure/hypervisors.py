"""The hypervisors of guests, and those below them, which determine the trials that are compared. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeVar

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


class NamedPoint(PointOfHypervisor, Protocol):
    """A point of a summary, a named tuple, whose name distinguishes it from points of other kernels and testbeds."""

    @property
    def testbed_fingerprint(self) -> str: ...
    @property
    def kernel(self) -> str | None: ...


N = TypeVar("N", bound=NamedPoint)


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


def find_varying_fields(keys: Iterable[H], templates: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The fields, with their templates, in which the points differ."""
    every = set(keys)
    return [(name, template) for name, template in templates if len({getattr(key, name) for key in every}) > 1]


def name_platforms(
    keys: Iterable[N], testbeds: Mapping[str, str], details: Callable[[N], Iterable[str]]
) -> dict[N, tuple[str, ...]]:
    """Each point's platform followed by what distinguishes it from the others, as parts of a name.

    ``testbeds``: fingerprint to name. ``details``: the kind's own parts.
    """
    every = list(dict.fromkeys(keys))
    kernels, fingerprints = {key.kernel for key in every}, {key.testbed_fingerprint for key in every}
    by_platform: dict[str, list[N]] = {}
    hypervisors: dict[str, set[str]] = {}
    for key in every:
        same = hypervisors.setdefault(key.platform, set())
        if key.hypervisor not in same:
            same.add(key.hypervisor)
            by_platform.setdefault(key.platform, []).append(key)
    return {
        key: (
            key.platform,
            *details(key),
            *([f"Linux {key.kernel or 'not known'}"] if len(kernels) > 1 else []),
            *disambiguate_hypervisor(key, by_platform[key.platform]),
            *([f"on {testbeds[key.testbed_fingerprint]}"] if len(fingerprints) > 1 else []),
        )
        for key in every
    }


def describe_outer_hypervisors(keys: Iterable[PointOfHypervisor]) -> str:
    """A sentence on trials that are compared only with each other, or "" if there are none."""
    platforms = list(dict.fromkeys(key.platform for key in keys if find_outer_hypervisor(key)))
    if not platforms:
        return ""
    return (
        f" The kernel of the unit under test itself ran under Xen in trials of {', '.join(sorted(platforms))}: these "
        "are compared with each other only, and are not the bare host of other guests."
    )
