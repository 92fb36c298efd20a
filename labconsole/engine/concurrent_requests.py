"""Run several requests to nodes concurrently, each of them to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable

from labconsole.errors import LabError


async def run_concurrently(jobs: Iterable[Awaitable[object]]) -> None:
    """Run the jobs concurrently; raise the first LabError, but only after every job has ended.

    A plain task group would cancel the other jobs at the first error, possibly while a node starts something that
    nothing would stop afterwards.
    """
    errors: list[LabError] = []

    async def to_the_end(job: Awaitable[object]) -> None:
        try:
            await job
        except LabError as exc:
            errors.append(exc)

    async with asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(to_the_end(job))
    if errors:
        raise errors[0]
