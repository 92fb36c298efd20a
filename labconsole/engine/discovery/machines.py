"""Parses the machines to discover, as typed: ``uut=root@dut1``, ``[2001:db8::7]:2222``. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from labconsole.errors import ConfigError
from labconsole.model.inventory import NAME, Node

ROLES: Final = ("uut", "source", "sink")
_NUMBER = re.compile(r"[0-9.]+\Z|.*:")
"""Matches IP addresses, which are not usable as node names."""
LOGINS: Final = "[user@]host[:port], an IPv6 address with a port in brackets"


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """A machine as typed. ``roles``: empty if not stated; ``user``, ``port``: None if SSH's configuration applies.

    A machine that is both source and sink has the two roles.
    """

    name: str
    address: str
    roles: tuple[str, ...]
    user: str | None = None
    port: int | None = None

    def node(self, become: bool) -> Node:
        """The node to log in to. Raises ConfigError."""
        try:
            return Node(
                address=self.address, user=self.user, port=self.port, roles=("uut",), become="sudo" if become else None
            )
        except ValidationError as exc:
            problem = exc.errors()[0]
            why = str(problem["msg"]).removeprefix("Value error, ").replace(" | ", "; ")
            raise ConfigError(f"is not a valid SSH destination: {why}", value=problem["input"]) from None


def parse_machines(texts: Sequence[str]) -> list[MachineSpec]:
    """Parse ``uut=dut1``, ``src1``, ``source+sink=lab@tester:2222`` or, with a name, ``src1=10.0.0.5``.

    Raises ConfigError, also unless exactly one machine is the UUT.
    """
    found: list[MachineSpec] = []
    chosen = [name for name in (text.rpartition("=")[0] for text in texts) if name not in ROLES and NAME.match(name)]
    if len(set(chosen)) < len(chosen):
        raise ConfigError("gives two machines the same name", value=" ".join(texts))
    wrong: list[ConfigError] = []
    for text in texts:
        before = text.rpartition("=")[0]
        try:
            machine = _machine(text, before if before in chosen else None, [*chosen, *(each.name for each in found)])
        except ConfigError as exc:
            wrong.append(exc)
        else:
            found.append(machine)
    if len(wrong) > 1:
        allowed = dict.fromkeys(each.allowed for each in wrong if each.allowed)
        problems = "; ".join(f"{each.value!r} {each.message}" for each in wrong)
        raise ConfigError(problems, allowed=" or ".join(allowed) or None)
    if wrong:
        raise wrong[0]
    if len({(each.address, each.port) for each in found}) < len(found):
        raise ConfigError("the same machine is named twice", value=" ".join(texts))
    uuts = [each for each in found if "uut" in each.roles]
    if len(uuts) != 1:
        raise ConfigError(
            "exactly one machine is the unit under test", value=" ".join(texts), allowed="such as uut=dut1 src1 snk1"
        )
    if len(found) < 2:
        raise ConfigError("a testbed has more than the unit under test", value=" ".join(texts))
    return found


def _machine(text: str, chosen: str | None, taken: Sequence[str]) -> MachineSpec:
    """Parse one machine. ``chosen``: the name given in the text, or None. Raises ConfigError."""
    before, equals, login = text.rpartition("=")
    roles = tuple(before.split("+")) if equals and chosen is None else ()
    if not login or any(role not in ROLES for role in roles) or ("uut" in roles and len(roles) > 1):
        allowed = "HOST, uut=HOST, source=HOST, sink=HOST, source+sink=HOST or, to name it, NAME=HOST"
        raise ConfigError("is not a machine", value=text, allowed=allowed)
    user, address, port = _login(login)
    roles = tuple(role for role in ROLES if role in roles)
    machine = MachineSpec(chosen or _name(address, roles, taken), address, roles, user, port)
    machine.node(False)
    return machine


def find_stated_roles(machines: Sequence[MachineSpec]) -> Mapping[str, tuple[str, ...]]:
    """The stated roles, by machine; machines without stated roles are left out."""
    return {each.name: each.roles for each in machines if each.roles}


def _login(text: str) -> tuple[str | None, str, int | None]:
    """User, host and port. An IPv6 address needs brackets only before a port."""

    def refused(why: str) -> ConfigError:
        return ConfigError(f"is not a valid SSH destination: {why}", value=text, allowed=LOGINS)

    user, at, rest = text.removeprefix("ssh://").rstrip("/").rpartition("@")
    if at and not user:
        raise refused("no user before the @")
    port: str | None = None
    if rest.startswith("["):
        host, bracket, after = rest[1:].partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise refused("the brackets are not closed, or not followed by a port")
        if not _is_ipv6(host):
            raise refused("in brackets is not an IPv6 address")
        port = after[1:] if after else None
    elif rest.count(":") > 1:
        host = rest
        if not _is_ipv6(host):
            raise refused("more than one colon, and not an IPv6 address")
    else:
        host, colon, after = rest.partition(":")
        port = after if colon else None
    if not host:
        raise refused("no host")
    if port is not None and not (re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 65536):
        raise refused("the port is not a number from 1 to 65535")
    return user or None, host, None if port is None else int(port)


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _name(address: str, roles: Sequence[str], taken: Sequence[str]) -> str:
    """A unique node name: the machine's own, or derived from its role if it was given as an IP address."""
    name = address if NAME.match(address) and not _NUMBER.match(address) else roles[0] if roles else "node"
    if name not in taken and (name == address or name == "uut"):
        return name
    number = 1
    while f"{name}{number}" in taken:
        number += 1
    return f"{name}{number}"
