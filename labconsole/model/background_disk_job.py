"""The disk job of one guest while the others send: which job, and when."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from labconsole.model.jobs import JOBS
from labconsole.model.strict_model import StrictModel

Moment = Annotated[float, Field(allow_inf_nan=False, ge=0, le=3600)]
_SIZES = {"disk-read": 64, "disk-zero": 4}
"""Sizes of jobs that are repeated until their time is over, small enough to end soon after it."""

BackgroundJob = Literal["disk-mixed", "disk-read", "disk-zero"]


class DiskBeside(StrictModel):
    """The last guest works on its disk from ``from_s`` to ``to_s`` after the others began, and sends nothing."""

    job: BackgroundJob = "disk-mixed"
    from_s: Moment = 10.0
    to_s: Moment = 20.0

    @model_validator(mode="after")
    def _some_time(self) -> Self:
        if self.to_s < self.from_s + 1:
            raise ValueError("to_s is not after from_s | allowed: at least a second later")
        return self

    @property
    def early_s(self) -> float:
        """How much too early the work may end: repeated jobs end by the guest's whole seconds."""
        return 1.0 if self.job in _SIZES else 0.0

    @property
    def size(self) -> int:
        """The job's size, in its own unit."""
        return _SIZES.get(self.job, round(self.to_s - self.from_s))

    @property
    def needed_mib(self) -> int:
        """Size of the disk that the job needs."""
        work = JOBS[self.job].disk
        return 0 if work is None else work.needed_mib(self.size, 1)

    def command(self) -> str:
        """The shell command: the job, repeated if one pass does not fill the time."""
        command = JOBS[self.job].command(self.size)
        if self.job not in _SIZES:
            return command
        return (
            f"read u x </proc/uptime; e=$((${{u%.*}} + {round(self.to_s - self.from_s)})); "
            f'while read u x </proc/uptime; [ "${{u%.*}}" -lt "$e" ]; do {command} || exit 1; done'
        )

    def words(self) -> str:
        """``disk-mixed in the last from 10 to 20 s``."""
        return f"{self.job} in the last from {self.from_s:g} to {self.to_s:g} s"
