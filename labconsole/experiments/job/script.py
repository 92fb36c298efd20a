"""What a guest's shell is told: a mark, the job, a mark, and what came of it; and how its answer is read.

One line, for a console takes lines. Whatever shell and ping busybox has will do, and so will the UUT's own.
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
"""Of what a job prints, so much is kept: what it says when it fails."""

_ANSWER = re.compile(r"^LCJOB (\d{1,3}) (\d{1,3}) (\d{1,9}\.\d\d) (\d{1,9}\.\d\d) (.*) ST (\d{1,3})\|?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CopyAnswer:
    """What a copy said: its exit status, None: nothing that could be read; uptimes of the guest around the job.

    ``ping_status``: of the ping before the job: 0 when its answer came.
    """

    exit_status: int | None = None
    ping_status: int | None = None
    inside_start_s: float | None = None
    inside_end_s: float | None = None
    output: str = ""


def guest_line(
    command: str, copies: Sequence[tuple[Nonce, Nonce]], timekeeper: str, disk: tuple[str, int] | None = None
) -> str:
    """The line that runs so many copies of a job at once, each between its two marks, when it is given another one.

    ``disk``: where in the guest its disk is, and how many MiB a file there may have: each copy is begun in a directory
    of its own (disks.py makes it).
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
    """Copy to what it said, for those that said something whole."""
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
