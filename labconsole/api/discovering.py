"""Finding out how machines are wired: connected, held, tried and let go of again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from labconsole.api.testbed import connect
from labconsole.contracts.ports import AgentLink
from labconsole.engine.leases import Leases
from labconsole.errors import ConfigError, LabError
from labconsole.model.identity import operator_name
from labconsole.model.inventory import NAME, Defaults, Inventory, Node

ROLES: Final = ("uut", "source", "sink")
_ADDRESS = re.compile(r"[0-9.]+\Z|.*[:@]")
"""What is no name for a node: an address, or one with a user or port."""


@dataclass(frozen=True, slots=True)
class AskedMachine:
    """A machine as it was named. ``roles``: empty where none was said."""

    name: str
    address: str
    roles: tuple[str, ...]


def read_words(words: Sequence[str]) -> list[AskedMachine]:
    """``uut=dut1``, ``src1``, ``source+sink=tester``. Raises ConfigError; exactly one of them has to be the UUT."""
    found: list[AskedMachine] = []
    for word in words:
        before, equals, address = word.rpartition("=")
        roles = tuple(before.split("+")) if equals else ()
        if not address or any(role not in ROLES for role in roles) or ("uut" in roles and len(roles) > 1):
            allowed = "NAME, uut=NAME, source=NAME, sink=NAME or source+sink=NAME"
            raise ConfigError("is not a machine", value=word, allowed=allowed)
        roles = tuple(role for role in ROLES if role in roles)
        found.append(AskedMachine(_name(address, roles, [each.name for each in found]), address, roles))
    for each in found:
        _node(each.address, False)
    addresses = [each.address for each in found]
    if len(set(addresses)) < len(addresses):
        raise ConfigError("names a machine twice", value=" ".join(words))
    uuts = [each for each in found if "uut" in each.roles]
    if len(uuts) != 1:
        raise ConfigError(
            "exactly one machine is the unit under test", value=" ".join(words), allowed="such as uut=dut1 src1 snk1"
        )
    if len(found) < 2:
        raise ConfigError("a testbed has more than the unit under test", value=" ".join(words))
    return found


def _name(address: str, roles: Sequence[str], taken: Sequence[str]) -> str:
    """The node's name: the machine's own, or after its role where it was called by an address."""
    name = address if NAME.match(address) and not _ADDRESS.match(address) else roles[0] if roles else "node"
    if name not in taken and (name == address or name == "uut"):
        return name
    number = 1
    while f"{name}{number}" in taken:
        number += 1
    return f"{name}{number}"


def _node(address: str, become: bool) -> Node:
    try:
        return Node(address=address, roles=("uut",), become="sudo" if become else None)
    except ValidationError as exc:
        why = str(exc.errors()[0]["msg"]).removeprefix("Value error, ")
        raise ConfigError(f"is not what one types after ssh: {why}", value=address) from None


@asynccontextmanager
async def held_nodes(
    asked: Sequence[AskedMachine], *, ssh_config: str | None, become: bool, take_over: bool
) -> AsyncIterator[dict[str, AgentLink]]:
    """Links to all of them, by name, with their leases; everything is undone on them afterwards.

    Raises NodeError, and LeaseHeld where somebody measures.
    """
    nodes = {each.name: _node(each.address, become) for each in asked}
    defaults = Defaults() if ssh_config is None else Defaults(ssh_config=ssh_config)
    inventory = Inventory.model_construct(
        testbed="discover", emulated=False, injected=None, nodes=nodes, streams=(), platforms={}, defaults=defaults
    )
    links: dict[str, AgentLink] = {}
    leases = Leases(operator_name())

    async def dial(name: str) -> None:
        links[name] = await connect(name, inventory, lambda node, event: None)

    try:
        results = await asyncio.gather(*(dial(name) for name in nodes), return_exceptions=True)
        problems = [each for each in results if isinstance(each, BaseException)]
        for problem in problems:
            if not isinstance(problem, LabError):
                raise problem
        if problems:
            raise problems[0]
        ordered = {name: links[name] for name in nodes}
        await leases.take(ordered, purpose="discover", observe={}, left_s=60.0, take_over=take_over)
        yield ordered
    finally:
        await leases.release()
        await asyncio.gather(*(link.close() for link in links.values()), return_exceptions=True)


def said_roles(asked: Sequence[AskedMachine]) -> Mapping[str, tuple[str, ...]]:
    """Of the machines whose roles were said."""
    return {each.name: each.roles for each in asked if each.roles}
