"""A plan of jobs in guests: its factors, its points, their order, and the hash of each trial.

A point is a job on a platform with a number of guests, of which some work. A set-up is one crew of guests: all points
with the same crew are measured in it, and each block sets it up again (Kalibera and Jones, ISMM 2013).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from labconsole.model.jobs import JOBS, Job
from labconsole.model.plan.crews import (
    DIFFERENT,
    PLACED,
    CrewPoint,
    GuestCounts,
    MemoryMib,
    Placings,
    PlannedCrews,
    different,
)
from labconsole.model.strict_model import StrictModel

Working = Literal["one", "all", "one-two"]
"""one: a single guest works; all: every guest works; one-two: the first has one copy of the job, the second two."""

COPIES_OF_ONE_TWO: Final = (1, 2)
"""Copies of the first and the second guest with ``working`` one-two. They compete unequally, so a mean over all three
copies describes neither guest.
"""


def _job_name(value: str) -> str:
    if value not in JOBS:
        raise ValueError(f"is not a job | allowed: {', '.join(JOBS)}")
    return value


def _wish(value: Any) -> Any:
    return {"job": value} if isinstance(value, str) else value


def _different_jobs(values: tuple[JobWish, ...]) -> tuple[JobWish, ...]:
    different(tuple((each.job, each.effective_size) for each in values))
    return values


class JobWish(StrictModel):
    """A job, with its size if it is not the default."""

    job: Annotated[str, AfterValidator(_job_name)]
    size: Annotated[int, Field(strict=True, ge=1)] | None = None

    @field_validator("size")
    @classmethod
    def _check_size(cls, value: int | None, info: ValidationInfo) -> int | None:
        job = JOBS.get(info.data.get("job", ""))
        if job is not None and value is not None and not job.least_size <= value <= job.most_size:
            allowed = f"{job.least_size} to {job.most_size} {job.unit}"
            raise ValueError(f"is not a size for {job.name} | allowed: {allowed}")
        return value

    @property
    def effective_size(self) -> int:
        """The given size, or the job's default."""
        return self.size or JOBS[self.job].size


Wish = Annotated[JobWish, BeforeValidator(_wish, json_schema_input_type=str | JobWish)]
CpuShares = Annotated[int, Field(strict=True, ge=2, le=262_144)]


class JobFactors(StrictModel):
    """Varied factors, and common settings of every crew.

    ``limit_s``: time after which a job has failed. ``cpu_shares``: the guests' weights on a CPU, in turn;
    ``cpu_quota_ratio``: maximum share of one CPU per guest; ``memory_mib``: memory of each; ``disk_mib``: disk of each.
    None means the platform's default, and a disk as large as the jobs need.
    """

    jobs: Annotated[tuple[Wish, ...], Field(min_length=1, max_length=100), AfterValidator(_different_jobs)]
    guests: GuestCounts = (1,)
    working: Annotated[tuple[Working, ...], Field(min_length=1), DIFFERENT] = ("one",)
    cpu: Placings = ("any",)
    limit_s: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=1, le=86_400)] = 600.0
    cpu_shares: Annotated[tuple[CpuShares, ...], Field(min_length=1)] | None = None
    cpu_quota_ratio: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0.01, le=1.0)] | None = None
    memory_mib: MemoryMib | None = None
    disk_mib: Annotated[int, Field(strict=True, ge=1, le=2**20)] | None = None

    @field_validator("cpu_shares")
    @classmethod
    def _a_guest_for_each(cls, value: tuple[int, ...] | None, info: ValidationInfo) -> tuple[int, ...] | None:
        guests = max(info.data.get("guests", ()), default=None)
        if value is not None and guests is not None and len(value) > guests:
            raise ValueError(
                f"has {len(value)} weights for {guests} guest{'s' if guests > 1 else ''} | allowed: as "
                "many as guests, or fewer, which are used in turn"
            )
        return value

    @field_validator("memory_mib")
    @classmethod
    def _room_for_arrays(cls, value: int | None, info: ValidationInfo) -> int | None:
        copies = max(COPIES_OF_ONE_TWO) if "one-two" in info.data.get("working", ()) else 1
        for wish in info.data.get("jobs", ()) if value is not None else ():
            job = JOBS[wish.job]
            needed = copies * job.arrays * wish.effective_size
            if value is not None and needed and value <= needed:
                raise ValueError(
                    f"is too little for {job.words(wish.effective_size)}, which holds {needed} MiB of arrays "
                    f"| allowed: more than {needed}, for the guest's own system too"
                )
        return value

    def needed_disk_mib(self, wish: JobWish) -> int:
        """Disk space of a guest that a job needs, or 0."""
        disk = JOBS[wish.job].disk
        return (
            0
            if disk is None
            else disk.needed_mib(wish.effective_size, copies=max(COPIES_OF_ONE_TWO) if "one-two" in self.working else 1)
        )

    @property
    def crew_disk_mib(self) -> int:
        """Disk size of every guest in all crews, for all jobs, or 0 without disks."""
        needed = max(map(self.needed_disk_mib, self.jobs))
        return (self.disk_mib or needed) if needed else 0

    @model_validator(mode="after")
    def _some_point(self) -> Self:
        if set(self.working) == {"one-two"} and set(self.guests) == {1}:
            raise ValueError("selects nothing: one-two needs two guests | allowed: a number of guests from 2")
        return self


@dataclass(frozen=True, slots=True)
class JobPoint(CrewPoint):
    """One design point."""

    job: str
    size: int
    working: Working

    def words(self) -> str:
        """``lxc: cpu-sqrt2 (2000 digits) in 1 of 5 guests on the same CPU``."""
        works = {"one": f"1 of {self.guests}", "all": f"all {self.guests}", "one-two": "1 and 2 copies in 2 of"}
        working = works[self.working] + (f" {self.guests}" if self.working == "one-two" else "")
        if self.guests == 1:
            working = "1"
        where = " on the same CPU" if self.cpu == "same" else PLACED[self.cpu]
        guests = "guest" if self.guests == 1 else "guests"
        return f"{self.platform}: {JOBS[self.job].words(self.size)} in {working} {guests}{where}"

    def format_factors(self) -> dict[str, str]:
        """See CrewPoint."""
        unit = f" {JOBS[self.job].unit}" if self.job in JOBS else ""
        return {
            "platform": self.platform,
            "job": self.job,
            "guests": str(self.guests),
            "working": self.working,
            "cpu": self.cpu,
            "size": f"{self.size}{unit}",
        }

    def copies(self) -> tuple[tuple[int, int], ...]:
        """(guest from 0, copy from 1) of every copy of the job."""
        if self.working == "all":
            return tuple((guest, 1) for guest in range(self.guests))
        if self.working == "one-two":
            return tuple((guest, copy) for guest, many in enumerate(COPIES_OF_ONE_TWO) for copy in range(1, many + 1))
        return ((0, 1),)


def points(factors: JobFactors, platforms: Sequence[str]) -> tuple[JobPoint, ...]:
    """The full cross product. With one guest, "all" equals "one" and one-two is impossible, so these are left out."""
    found: list[JobPoint] = []
    for platform in platforms:
        for cpu in factors.cpu:
            for guests in factors.guests:
                for wish in factors.jobs:
                    for working in factors.working:
                        if guests == 1 and (working == "one-two" or (working == "all" and "one" in factors.working)):
                            continue
                        works = "one" if guests == 1 else working
                        found.append(JobPoint(len(found), platform, guests, cpu, wish.job, wish.effective_size, works))
    return tuple(found)


@dataclass(frozen=True)
class PlannedJobs(PlannedCrews[JobFactors, JobPoint]):
    """A plan's guest jobs."""

    kind: ClassVar[str] = "job"
    Factors = JobFactors
    sections: ClassVar[Mapping[str, type[StrictModel]]] = {"jobs": JobWish}

    @cached_property
    def points(self) -> tuple[JobPoint, ...]:
        """The full cross product."""
        return points(self.factors, self.platforms)

    def meaning_of(self, point: JobPoint) -> dict[str, Any]:
        """See PlannedCrews."""
        factors, job = self.factors, JOBS[point.job]
        meaning: dict[str, Any] = {
            "version": 1,
            "point": [point.platform, point.job, point.size, job.line, point.guests, point.working, point.cpu],
            "crew": [
                factors.cpu_shares,
                factors.cpu_quota_ratio,
                factors.memory_mib,
                *_build_disk_hash_part(factors.disk_mib),
            ],
        }
        if dependencies := _build_dependency_hash_part(job):
            meaning["beside"] = dependencies
        return meaning

    def describe(self) -> list[tuple[str, str]]:
        """See PlannedCrews."""
        factors = self.factors
        each = ", ".join(JOBS[wish.job].words(wish.effective_size) for wish in factors.jobs)
        guests = ", ".join(str(number) for number in factors.guests)
        return [
            ("jobs", each),
            ("guests", f"{guests}; working {', '.join(factors.working)}; cpu {', '.join(factors.cpu)}"),
        ]


def _build_disk_hash_part(disk_mib: int | None) -> list[int]:
    """The disk's part of a hash, empty without a disk: hashes of trials without disks are older than disks."""
    return [] if disk_mib is None else [disk_mib]


UNCHANGED_DEPENDENCIES = {
    "disk-read": "72ac8dd11b0d9a5c",
    "disk-mixed": "327db31c21e3686c",
    "tcp": "60b436c7d7a8b7ad",
    "serve-http": "50022df9c7ddd8fc",
    "serve-https": "4dce06a42f31cd4d",
}
"""Digests of each job's dependencies (Job.dependencies) from the time before hashes covered them."""


def _build_dependency_hash_part(job: Job) -> list[str]:
    """The hash part of changed dependencies, empty if they are unchanged: older hashes stay as they are."""
    digest = hashlib.sha256(json.dumps(job.dependencies).encode()).hexdigest()[:16]
    return [] if UNCHANGED_DEPENDENCIES.get(job.name) == digest else job.dependencies


PLANNED = PlannedJobs
