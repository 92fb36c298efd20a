"""The results of one round of work: the marks around each copy, its answer, and a copy with its times. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labconsole.experiments.job.record import CopyRecord
from labconsole.experiments.job.script import CopyAnswer, read_answer
from labconsole.measure.external_timing import MarkResult, Marks
from labconsole.wire.guests import AskedGuest, AskedGuests
from labconsole.wire.marks import SeenMarks


@dataclass(frozen=True, slots=True)
class Window:
    """The results of one round.

    ``copies``: sender to its guest and copy number. ``answers``: sender to its copy's answer. ``answered``: the output
    of the guests' consoles, or None if they were not used in this round.
    """

    found: MarkResult
    marks: SeenMarks
    copies: Mapping[str, tuple[str, int]]
    answers: Mapping[str, CopyAnswer]
    answered: AskedGuests | None = None

    @property
    def said(self) -> dict[str, AskedGuest]:
        return {} if self.answered is None else {each.guest: each for each in self.answered.guests}


def read_answers(answered: AskedGuests, copies: Mapping[str, tuple[str, int]]) -> dict[str, CopyAnswer]:
    """Return the answers of the copies on the guests' consoles, by sender."""
    read = {each.guest: read_answer(each.printed or "") for each in answered.guests}
    return {name: read.get(guest, {}).get(number, CopyAnswer()) for name, (guest, number) in copies.items()}


def build_copy(
    guest: str,
    number: int,
    origin: tuple[str, str],
    marks: Marks,
    answer: CopyAnswer,
    *,
    asked_ns: int | None,
    answered_ns: int | None,
    empty_s: float | None,
) -> CopyRecord:
    """Build a copy with its times. Pure."""
    outside_s = None if marks.outside_ns is None else marks.outside_ns / 1e9
    inside_s = None
    if answer.inside_start_s is not None and answer.inside_end_s is not None:
        inside_s = answer.inside_end_s - answer.inside_start_s
    return CopyRecord(
        guest=guest,
        copy_number=number,
        address=origin[0],
        mac=origin[1],
        start_request_ns=marks.start_request_ns,
        start_reply_ns=marks.start_reply_ns,
        end_request_ns=marks.end_request_ns,
        end_reply_ns=marks.end_reply_ns,
        asked_ns=asked_ns,
        answered_ns=answered_ns,
        inside_start_s=answer.inside_start_s,
        inside_end_s=answer.inside_end_s,
        ping_status=answer.ping_status,
        exit_status=answer.exit_status,
        output=answer.output,
        outside_s=outside_s,
        host_s=None if asked_ns is None or answered_ns is None else (answered_ns - asked_ns) / 1e9,
        inside_s=inside_s,
        clock_ratio=inside_s / outside_s if inside_s is not None and outside_s else None,
        seconds=None if outside_s is None or empty_s is None else outside_s - empty_s,
    )
