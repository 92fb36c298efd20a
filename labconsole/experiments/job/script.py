"""The shell line of a guest (mark, job, mark, result), and the parser of its answer.

It is one line, because a console takes lines. It needs only busybox's shell and ping, or the UUT's own.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from labconsole.measure.external_timing import Nonce
from labconsole.platforms.base.disk_work import build_disk_command
from labconsole.platforms.base.guest_shell import build_simultaneous_line
from labconsole.platforms.base.marks import mark_line

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
