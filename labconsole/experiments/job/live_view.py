"""Live view of a job's copies, and the cost of driving the guests."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from labconsole.contracts.picture import CopyState, PictureGuest
from labconsole.experiments.job.points import split_times_by_guest, uneven
from labconsole.experiments.job.record import CopyRecord, JobRecord
from labconsole.measure.external_timing import Marks
from labconsole.model.record.run import Figures
from labconsole.report.formatting import UNKNOWN
from labconsole.wire.guests import AskedGuests

MOST_NAMED = 12
"""The most copies that are listed one by one while they work."""


def driving_note(uut: str, answered: AskedGuests) -> Figures:
    """Return an influence: the cost of keeping the guests at work for the UUT, which otherwise only waits for them."""
    ratio = answered.waited_cpu_s / answered.waited_s if answered.waited_s else None
    many = f"{len(answered.guests)} guest{'' if len(answered.guests) == 1 else 's'}"
    waiting = "" if ratio is None else f"{ratio:.2%} of one of its processors while all worked, "
    return {
        "node": uut,
        "kind": "driving",
        "detail": f"driving {many} took {waiting}{answered.cpu_s:.3f} s in all",
        "guests": len(answered.guests),
        "waited_s": answered.waited_s,
        "waited_cpu_s": answered.waited_cpu_s,
        "cpu_ratio": ratio,
        "cpu_s": answered.cpu_s,
    }


def describe_progress(found: Mapping[str, Marks]) -> list[str]:
    """Describe the copies' progress by the marks received so far: a line each, or numbers if there are many."""
    times_s = {name: marks.outside_ns / 1e9 for name, marks in found.items() if marks.outside_ns is not None}
    begun = sum(marks.start_reply_ns is not None for marks in found.values())
    if len(found) > MOST_NAMED:
        text = f"{begun} of {len(found)} have begun, {len(times_s)} have ended"
        return [text + (f", after {min(times_s.values()):.1f} to {max(times_s.values()):.1f} s" if times_s else "")]
    lines = []
    for name, marks in found.items():
        state = (
            f"ended after {times_s[name]:.3f} s" if name in times_s else "at work" if marks.start_reply_ns else "waits"
        )
        lines.append(f"{name.removesuffix('/1')}: {state}")
    return lines


def format_times(record: JobRecord) -> str:
    """Format a time as ``3.214 s``, several as mean, standard deviation and slowest, or those of one and two copies
    each.
    """
    times = [copy.time_s for copy in record.copies if copy.time_s is not None]
    if any(copy.exit_status for copy in record.copies):
        return f"failed after {max(times):.3f} s" if times else f"{UNKNOWN}, failed"
    if not times:
        return UNKNOWN
    if uneven(record):
        first, second = (" and ".join(f"{each:.3f} s" for each in of) for of in split_times_by_guest(record))
        return f"first guest {first or UNKNOWN}; second guest {second or UNKNOWN}"
    if len(times) == 1:
        return f"{times[0]:.3f} s"
    spread = f", sd {statistics.stdev(times):.3f} s, slowest {max(times):.3f} s"
    return f"{statistics.fmean(times):.3f} s mean of {len(times)}{spread}"


def build_uniform_guests(names: Sequence[str], state: CopyState) -> tuple[PictureGuest, ...]:
    """Return guests that all do the same."""
    return tuple(PictureGuest(name=name, state=state) for name in names)


def guests_at_work(
    names: Sequence[str], found: Mapping[str, Marks], heard_s: Mapping[str, float]
) -> tuple[PictureGuest, ...]:
    """Return all running guests, and every copy in those that have a job, by the marks received so far.

    ``heard_s``: when the console received the first mark of a copy. A first copy has its guest's name.
    """
    first_ns = min((marks.start_reply_ns for marks in found.values() if marks.start_reply_ns is not None), default=None)
    of: dict[str, list[PictureGuest]] = {name: [] for name in names}
    for copy, marks in found.items():
        state = CopyState.WAITS
        if marks.end_request_ns is not None:
            state = CopyState.DONE
        elif marks.start_reply_ns is not None:
            state = CopyState.WORKS
        of[copy.partition("/")[0]].append(
            PictureGuest(
                name=copy.removesuffix("/1"),
                state=state,
                begun_s=_since(first_ns, marks.start_reply_ns),
                ended_s=_since(first_ns, marks.end_request_ns),
                seconds=None if marks.outside_ns is None else marks.outside_ns / 1e9,
                heard_s=heard_s.get(copy),
            )
        )
    return tuple(
        guest for name, copies in of.items() for guest in copies or build_uniform_guests([name], CopyState.STANDS)
    )


def build_picture_guests(copies: Iterable[CopyRecord]) -> tuple[PictureGuest, ...]:
    """Return the copies of a finished trial. ``seconds`` is without the time of a job that does nothing."""
    seen = list(copies)
    first_ns = min((copy.start_reply_ns for copy in seen if copy.start_reply_ns is not None), default=None)
    return tuple(
        PictureGuest(
            name=copy.guest if copy.copy_number == 1 else f"{copy.guest}/{copy.copy_number}",
            state=CopyState.WAITS
            if copy.start_reply_ns is None
            else CopyState.WORKS
            if copy.end_request_ns is None
            else CopyState.DONE,
            begun_s=_since(first_ns, copy.start_reply_ns),
            ended_s=_since(first_ns, copy.end_request_ns),
            seconds=copy.time_s,
        )
        for copy in seen
    )


def _since(first_ns: int | None, then_ns: int | None) -> float | None:
    return None if first_ns is None or then_ns is None else (then_ns - first_ns) / 1e9
