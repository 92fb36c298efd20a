"""What limited a job: if the link did, or memory in place of a disk, its time says nothing of what runs the guests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from labconsole.experiments.job.record import CopyRecord, JobRecord
from labconsole.measure.paired_blocks import uut_facts
from labconsole.model.jobs import JOBS
from labconsole.model.record.run import Figures
from labconsole.units import format_rate_bps
from labconsole.verdict.changes import Port
from labconsole.verdict.observations import TrialObservations
from labconsole.verdict.offered_shortfall import link_speed_bps

# -- link limit --------------------------------------------------------------------------------------------------------
# Whether a job sent as fast as the link allows. Then its time is the link's and says nothing of what runs the guests.

PAYLOAD_SHARE = 1448 / 1538
"""The share of wire bandwidth that is payload, with TCP time stamps in frames of 1514 bytes."""

FULL_RATIO = 0.95
"""From this share of the payload bandwidth on, a job waits for the link."""

MOST_RATIO = 1.05
"""A rate above this multiple of the link's speed means that the link has another speed than stated."""

MIB = 2**20


def slowest_link_bps(configured_bps: int, seen: TrialObservations, ports: Iterable[Port]) -> int:
    """Return the lowest speed between guests and timekeeper: that of hosts.yaml, or a lower negotiated one on the
    path.
    """
    negotiated = [link_speed_bps(seen, node, interface) for node, interface in ports]
    return min([configured_bps, *(each for each in negotiated if each is not None)])


def is_network_job(job_name: str) -> bool:
    """Whether a job sends its size, in MiB, over the link."""
    job = JOBS.get(job_name)
    return job is not None and job.resource == "network"


def rate_bps(size: int, copies: Sequence[CopyRecord]) -> float | None:
    """Return the payload rate of all copies together over the slowest time, or None if not all times are known."""
    times = [copy.seconds for copy in copies if copy.seconds is not None and copy.exit_status == 0]
    if not copies or len(times) < len(copies) or max(times) <= 0:
        return None
    return 8 * size * MIB * len(copies) / max(times)


def link_ratio(job_name: str, size: int, copies: Sequence[CopyRecord], speed_bps: int | None) -> float | None:
    """Return that rate over the link's speed, or None if unknown or if the job does not send."""
    rate = rate_bps(size, copies) if is_network_job(job_name) else None
    return None if rate is None or speed_bps is None else rate / speed_bps


def is_full(ratio: float | None) -> bool:
    """Return whether this use of the link limits the job."""
    return ratio is not None and FULL_RATIO * PAYLOAD_SHARE <= ratio <= MOST_RATIO


def is_link_limited(records: Iterable[JobRecord]) -> bool:
    """Return whether any of these trials was as fast as its link allows."""
    return any(
        is_full(link_ratio(each.requested.job, each.requested.size, each.copies, each.link_speed_bps))
        for each in records
    )


def link_notes(
    job_name: str, size: int, copies: Sequence[CopyRecord], speed_bps: int | None, uut: str
) -> Iterator[Figures]:
    """Report an influence if the link was full."""
    ratio = link_ratio(job_name, size, copies, speed_bps)
    if ratio is None or speed_bps is None or not is_full(ratio):
        return
    yield {
        "node": uut,
        "kind": "link_full",
        "detail": f"{format_rate_bps(ratio * speed_bps)} of payload over a link of {format_rate_bps(speed_bps)}: the "
        "link limited the job, so its time does not characterize what runs the guests",
        "rate_bps": ratio * speed_bps,
        "link_speed_bps": speed_bps,
    }


# -- page cache --------------------------------------------------------------------------------------------------------
# Whether a job may have read from memory. Then its time is not a disk's, and comparing systems that cache differently
# by it would be wrong. Pure.

FILE_RATIO = 2
"""The least size of files relative to memory; smaller files may stay cached from when they were written (Bonnie++)."""

ONE_KERNEL = ("raw", "container", "lxc", "openvz")
"""Drivers whose guests' files are in the page cache of the unit under test."""


def is_possibly_cached(record: JobRecord) -> bool:
    """Return whether the job may have read from memory, unless it bypasses caches.

    This is so if the device gave less than the job read. If the job measures a disk, it is also so if its files are
    known to be less than twice the memory that caches them, because the device's bytes may then belong to others.
    """
    job, size = JOBS.get(record.requested.job), record.requested.size
    if job is None or job.disk is None or not job.disk.memory_reads_mib:
        return False
    device_bytes = None if record.disk is None else record.disk.device_read_bytes
    if device_bytes is not None and device_bytes < job.disk.memory_reads_mib * size * len(record.copies) * MIB:
        return True
    caches_bytes = _caches_bytes(record)
    return job.resource == "disk" and caches_bytes is not None and size * MIB < FILE_RATIO * caches_bytes


def _caches_bytes(record: JobRecord) -> int | None:
    """Return how much of a copy's files memory can hold, or None if unknown."""
    driver, memory_mib = record.attestation.get("driver"), record.requested.memory_mib
    if memory_mib is not None and driver != "raw":
        return memory_mib * MIB
    if driver in ONE_KERNEL:
        found = uut_facts(record).get("memory_bytes")
        return found if isinstance(found, int) else None
    machines = record.attestation.get("machines")
    if not isinstance(machines, dict):
        return None
    has_mib = [each.get("memory_mib") if isinstance(each, dict) else None for each in machines.values()]
    known_mib = [each for each in has_mib if isinstance(each, int)]
    return max(known_mib) * MIB if known_mib and len(known_mib) == len(has_mib) else None
