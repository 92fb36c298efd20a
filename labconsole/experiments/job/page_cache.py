"""Whether what a job read may have come from memory: then its time is no time of a disk, and two systems that cache
unlike are not compared by it. Pure.
"""

from __future__ import annotations

from labconsole.measure.paired_blocks import uut_facts
from labconsole.model.jobs import JOBS
from labconsole.model.record.job import JobRecord

FILE_RATIO = 2
"""Of what caches them files have to be: less of them may stay there from when they were written (Bonnie++'s manual)."""

ONE_KERNEL = ("raw", "container", "lxc", "openvz")
"""Drivers whose guests' files are in the page cache of the unit under test."""

MIB = 2**20


def is_possibly_cached(record: JobRecord) -> bool:
    """Of a job that does not read past caches: the device gave less than it read; or, of one whose time is to be that
    of a disk, its files are not twice what caches them, as far as that is known: then what the device gave may have
    been for others.
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
    """What memory can hold of a copy's files; None: not known."""
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
