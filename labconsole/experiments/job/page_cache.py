"""Whether a job may have read from memory. Then its time is not a disk's, and comparing systems that cache differently
by it would be wrong. Pure.
"""

from __future__ import annotations

from labconsole.experiments.job.record import JobRecord
from labconsole.measure.paired_blocks import uut_facts
from labconsole.model.jobs import JOBS

FILE_RATIO = 2
"""The least size of files relative to memory; smaller files may stay cached from when they were written (Bonnie++)."""

ONE_KERNEL = ("raw", "container", "lxc", "openvz")
"""Drivers whose guests' files are in the page cache of the unit under test."""

MIB = 2**20


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
