"""A bench whose guests do not come: what a step of an experiment stores then, and what it says to the bench."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from labconsole.errors import LabError
from labconsole.model.inventory import Inventory


@dataclass
class Stage:
    """Guests that do not come."""

    problem: LabError
    asked: int = 0
    uut: Any = None
    timekeeper: Any = None

    async def guest_cpus(self, platform: str) -> list[int]:
        return [0, 1]

    async def stand(self, *of: Any) -> Any:
        self.asked += 1
        raise self.problem

    async def wait_stopping(self) -> None:
        await asyncio.Event().wait()

    def environment(self, nodes: Any) -> dict[str, Any]:
        return {"nodes": {}}


@dataclass
class Bench:
    """``kind``: of the records that it takes."""

    inventory: Inventory
    stage: Stage
    kind: Any
    operator: str = "ann"
    saved: list[Any] = field(default_factory=list)
    over_words: list[str] = field(default_factory=list)

    def show(self, picture: Any) -> None: ...

    async def begin(self) -> None: ...

    async def over(self, status: str, *, again: str = "") -> None:
        self.over_words.append(again)

    def save_experiment(self, kind: Any, record: Any) -> None:
        assert kind is self.kind
        self.saved.append(record)
