"""Several requests to nodes at once, all of them to their end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable

from labconsole.errors import LabError


async def run_concurrently(jobs: Iterable[Awaitable[object]]) -> None:
    """Run the jobs side by side; raises the first LabError, but only after every job has ended.

    A plain task group would cancel the others at the first error, and leave a node in the middle of starting what
    nobody then stops.
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
