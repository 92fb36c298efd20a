"""Whether a job sent as fast as the link allows. Then its time is the link's and says nothing of what runs the guests.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from labconsole.experiments.job.record import CopyRecord, JobRecord
from labconsole.model.jobs import JOBS
from labconsole.model.record.run import Figures
from labconsole.units import format_rate_bps
from labconsole.verdict.changes import Port
from labconsole.verdict.observations import TrialObservations
from labconsole.verdict.offered_shortfall import link_speed_bps

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
