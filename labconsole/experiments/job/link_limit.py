"""Whether what a job sends came as fast as the link can carry it: then its time is the link's, and says nothing of what
runs the guests. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from labconsole.model.jobs import JOBS
from labconsole.model.record.job import CopyRecord, JobRecord
from labconsole.model.record.run import Figures
from labconsole.units import format_rate_bps
from labconsole.verdict.changes import Port
from labconsole.verdict.observations import TrialObservations
from labconsole.verdict.offered_shortfall import link_speed_bps

PAYLOAD_SHARE = 1448 / 1538
"""What TCP with time stamps carries in frames of 1514 bytes, of what these take on the wire."""

FULL_RATIO = 0.95
"""Of that: from here on it is the link that a job waits for."""

MOST_RATIO = 1.05
"""Of the link's speed: who sends faster does not send over a link of the speed that is told."""

MIB = 2**20


def slowest_link_bps(told_bps: int, seen: TrialObservations, ports: Iterable[Port]) -> int:
    """Between guests and timekeeper: as hosts.yaml says, or less where a port on the way had negotiated less."""
    negotiated = [link_speed_bps(seen, node, interface) for node, interface in ports]
    return min([told_bps, *(each for each in negotiated if each is not None)])


def is_network_job(job_name: str) -> bool:
    """Whether a job sends its size, in MiB, over the link."""
    job = JOBS.get(job_name)
    return job is not None and job.resource == "network"


def rate_bps(size: int, copies: Sequence[CopyRecord]) -> float | None:
    """Payload of all copies together, over the time of the slowest; None: not all are known."""
    times = [copy.seconds for copy in copies if copy.seconds is not None and copy.exit_status == 0]
    if not copies or len(times) < len(copies) or max(times) <= 0:
        return None
    return 8 * size * MIB * len(copies) / max(times)


def link_ratio(job_name: str, size: int, copies: Sequence[CopyRecord], speed_bps: int | None) -> float | None:
    """That rate over the link's speed; None: not known, or not of a job that sends."""
    rate = rate_bps(size, copies) if is_network_job(job_name) else None
    return None if rate is None or speed_bps is None else rate / speed_bps


def is_full(ratio: float | None) -> bool:
    """Whether a link of which so much is used holds the job up."""
    return ratio is not None and FULL_RATIO * PAYLOAD_SHARE <= ratio <= MOST_RATIO


def is_link_limited(records: Iterable[JobRecord]) -> bool:
    """Whether a trial of these was as fast as its link allows."""
    return any(
        is_full(link_ratio(each.requested.job, each.requested.size, each.copies, each.link_speed_bps))
        for each in records
    )


def link_notes(
    job_name: str, size: int, copies: Sequence[CopyRecord], speed_bps: int | None, uut: str
) -> Iterator[Figures]:
    """One influence where the link was full."""
    ratio = link_ratio(job_name, size, copies, speed_bps)
    if ratio is None or speed_bps is None or not is_full(ratio):
        return
    yield {
        "node": uut,
        "kind": "link_full",
        "detail": f"{format_rate_bps(ratio * speed_bps)} of payload over a link of {format_rate_bps(speed_bps)}: the "
        "link is what the job waited for, so that its time says nothing of what runs the guests",
        "rate_bps": ratio * speed_bps,
        "link_speed_bps": speed_bps,
    }
