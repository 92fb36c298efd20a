"""The shell line of a guest (mark, job, mark, result), its answer, and the results of one round of work."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labconsole.experiments.job.record import CopyRecord
from labconsole.measure.external_timing import MarkResult, Marks, Nonce
from labconsole.platforms.base.crew_disks import build_disk_command
from labconsole.platforms.base.guest_shell import build_simultaneous_line, mark_line
from labconsole.wire.guests import AskedGuest, AskedGuests
from labconsole.wire.marks import SeenMarks

# -- the shell line ----------------------------------------------------------------------------------------------------
# The shell line of a guest (mark, job, mark, result), and the parser of its answer.
#
# It is one line, because a console takes lines. It needs only busybox's shell and ping, or the UUT's own.

OUTPUT_BYTES = 600
"""The number of bytes kept of a job's output, which tell why it failed."""

_ANSWER = re.compile(r"^LCJOB (\d{1,3}) (\d{1,3}) (\d{1,9}\.\d\d) (\d{1,9}\.\d\d) (.*) ST (\d{1,3})\|?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CopyAnswer:
    """The answer of a copy: its exit status, or None if it was unreadable, and the guest's uptimes around the job.

    ``ping_status``: the status of the ping before the job, 0 if it was answered.
    """

    exit_status: int | None = None
    ping_status: int | None = None
    inside_start_s: float | None = None
    inside_end_s: float | None = None
    output: str = ""


def guest_line(
    command: str, copies: Sequence[tuple[Nonce, Nonce]], timekeeper: str, disk: tuple[str, int] | None = None
) -> str:
    """Return the line that runs the copies of a job at once, each between its two marks, when another line arrives.

    ``disk``: the directory in the guest where its disk is mounted, and the most MiB of a file there. Each copy starts
    in a directory of its own, which disks.py makes.
    """
    each = []
    for number, (start, end) in enumerate(copies, 1):
        work = command if disk is None else build_disk_command(disk, number, command)
        each.append(_copy(work, number, start, end, timekeeper))
    return build_simultaneous_line(each)


def _copy(command: str, number: int, start: Nonce, end: Nonce, timekeeper: str) -> str:
    job = f"TIMEKEEPER={timekeeper} sh -c {shlex.quote(command)}"
    work = f"{{ {job}; echo \" ST $?\"; }} 2>&1 | tail -c {OUTPUT_BYTES} | tr '\\n' '|'"
    return (
        f"{mark_line(start, timekeeper)}; m=$?; read b x </proc/uptime; o=$({work}); read e x </proc/uptime; "
        f"{mark_line(end, timekeeper)}; "
        f'printf "%s\\n" "LCJOB {number} $m $b $e $o"'
    )


def read_answer(printed: str) -> dict[int, CopyAnswer]:
    """Parse the complete answers, by copy number."""
    answers = {}
    for number, pinged, begun, ended, output, status in _ANSWER.findall(printed.replace("\r", "")):
        answers[int(number)] = CopyAnswer(
            exit_status=int(status),
            ping_status=int(pinged),
            inside_start_s=float(begun),
            inside_end_s=float(ended),
            output=output.strip(" |"),
        )
    return answers


# -- one round of work -------------------------------------------------------------------------------------------------
# The results of one round of work: the marks around each copy, its answer, and a copy with its times. Pure.


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
