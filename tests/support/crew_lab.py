"""What the tests of guests in number share: a lab's UUT and the node outside, and a look at what is left afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from labconsole.api.testbed import connect
from labconsole.contracts.crew import CrewMember, CrewWanted
from labconsole.contracts.ports import AgentLink
from labconsole.lab import commands as lab
from labconsole.model.inventory import Inventory, load_inventory
from labconsole.network.links import LinkUp
from labconsole.network.routing import Address
from labconsole.platforms.loading import build_driver
from labconsole.wire.changes import AnyChange, ApplyChanges, UndoChanges
from support.live_lab import lab_state, wait_until

OUTSIDE = "198.18.127.1"
GROUPS = """
find /sys/fs/cgroup -type d -name 'labconsole-*' | while read -r group; do
  test -n "$(find "$group" -name cgroup.procs -exec cat {} + 2>/dev/null)" || test ! -d "$group" || echo "$group"
done
"""
"""Control groups that nobody is in: they are the machine's, so those of other labs are seen, too."""


@dataclass
class Nodes:
    inventory: Inventory
    uut: AgentLink
    sink: AgentLink

    def driver(self, platform: str, **options: Any) -> Any:
        """``options`` beside those of hosts.yaml, or None: without it."""
        entry = self.inventory.platforms[platform]
        more = {key: value for key, value in {**entry.options, **options}.items() if value is not None}
        told = type(entry).model_validate({"driver": entry.driver, **more})
        changed = self.inventory.model_copy(update={"platforms": {**self.inventory.platforms, platform: told}})
        return build_driver(platform, changed)

    def wanted(self, count: int, **more: Any) -> CrewWanted:
        members = (
            CrewMember(name=f"g{n}", address=f"198.18.64.{n}/18", mac=f"02:6C:77:00:00:{n:02x}", **more)
            for n in range(1, count + 1)
        )
        return CrewWanted(members=tuple(members), port=self.inventory.streams[0].uut_out)


@asynccontextmanager
async def nodes(status: lab.LabStatus) -> AsyncIterator[Nodes]:
    """The lab's UUT, and its sink with an address that the guests can reach."""
    inventory = load_inventory(status.hosts_file)
    end = inventory.streams[0].sink
    uut, sink = [await connect(name, inventory, lambda *_: None) for name in ("uut", end.node)]
    try:
        changes: list[AnyChange] = [
            LinkUp(interface=end.interface),
            Address(interface=end.interface, address=f"{OUTSIDE}/18"),
        ]
        await sink.ask(ApplyChanges(token="outside", changes=changes))
        yield Nodes(inventory, uut, sink)
        await sink.ask(UndoChanges(token="outside"))
    finally:
        await uut.close()
        await sink.close()


def on_lab(status: lab.LabStatus, work: Callable[[Nodes], Awaitable[None]]) -> None:
    """Do it, and see that the lab is then as it was before."""

    async def done() -> None:
        async with asyncio.timeout(300), nodes(status) as there:
            await work(there)

    before = lab_state(status.spec.name)
    asyncio.run(done())
    wait_until(lambda: lab_state(status.spec.name) == before, timeout_s=5, what="something was left on a node")
    wait_until(lambda: on_uut(status, GROUPS) == "", timeout_s=30, what="control groups were left")


def on_uut(status: lab.LabStatus, line: str) -> str:
    done = lab.execute(status.spec.name, "uut", ["sh", "-c", line])
    assert done.status == 0, done.stderr
    return done.stdout
