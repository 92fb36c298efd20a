"""Discovery from the first login to a proposal, shared by the command and the console."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from labconsole.contracts.ports import AgentLink
from labconsole.engine.discovery.hosts_text import HostsNode, hosts_text
from labconsole.engine.discovery.machines import MachineSpec, find_stated_roles
from labconsole.engine.discovery.ports import ExcludedPort, Port
from labconsole.engine.discovery.probing import Tell, probe, read_ports
from labconsole.engine.discovery.proposal import Proposal, propose
from labconsole.engine.discovery.wiring import Wiring, find_wiring
from labconsole.errors import ConfigError


@dataclass(frozen=True, slots=True)
class DiscoveryRequest:
    """The machines to discover, and how to log in. If ``ssh_config`` is None, SSH's own configuration is used."""

    asked: Sequence[MachineSpec]
    ssh_config: str | None = None
    become: bool = False
    take_over: bool = False


HoldNodes = Callable[[DiscoveryRequest, Tell], AbstractAsyncContextManager[Mapping[str, AgentLink]]]
"""Opens links to all machines, by name, with their leases; everything is undone on them afterwards."""

Agreed = Callable[[Sequence[Port], Sequence[ExcludedPort]], Awaitable[bool]]
"""Whether frames may be sent from these ports; called while the nodes are leased. Without ports nothing is sent."""


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """The result of a discovery. ``not_undone``: changes that the agents could not undo, in sentences."""

    request: DiscoveryRequest
    ports: Sequence[Port]
    alone: Sequence[ExcludedPort]
    wiring: Wiring
    proposal: Proposal
    not_undone: Sequence[str]

    def hosts_text(self, testbed: str) -> str:
        """The proposed hosts.yaml. Raises ConfigError if no path leads through the UUT."""
        if not self.proposal.streams:
            raise ConfigError(
                "no path through the unit under test was found: it needs a cable from a source's port to one of its "
                "ports, and one from another of its ports to a sink's port"
                + _describe_likelier_uut(self.wiring, self.proposal.uut)
            )
        nodes = [
            HostsNode(each.name, each.address, self.proposal.roles[each.name], each.user, each.port)
            for each in self.request.asked
            if each.name in self.proposal.roles
        ]
        config = self.request.ssh_config
        return hosts_text(
            testbed,
            nodes,
            self.proposal.streams,
            become=self.request.become,
            found=f"Its cables were found by `labconsole discover` on {datetime.now(UTC):%Y-%m-%d}.",
            defaults={} if config is None else {"ssh_config": str(Path(config).expanduser().absolute())},
        )


def _describe_likelier_uut(wiring: Wiring, uut: str) -> str:
    """A hint at the machine with most cables to others, if it has at least two and more than the UUT."""
    cables = Counter(
        node for wire in wiring.wires if wire.one.node != wire.other.node for node in (wire.one.node, wire.other.node)
    )
    likelier, most = max(cables.items(), key=lambda each: each[1], default=(uut, 0))
    if most < 2 or most <= cables[uut]:
        return ""
    own = cables[uut]
    return (
        f"; {likelier} has {most} cables to the others, and {uut} {own or 'none'}: if {likelier} is the unit under "
        f"test, write uut= before it instead of before {uut}"
    )


async def discover_testbed(
    request: DiscoveryRequest, hold: HoldNodes, agreed: Agreed, tell: Tell
) -> DiscoveryResult | None:
    """Log in, read ports, get consent, probe the ports, log out; None without consent. Raises NodeError.

    Undoes its changes before it ends, also when it is cancelled.
    """
    async with hold(request, tell) as links:
        ports, alone = await read_ports(links, tell)
        if not await agreed(ports, alone):
            return None
        found = await probe(links, ports, tell)
    wiring = find_wiring(found.ports, found.heard, found.refused)
    proposal = propose([each.name for each in request.asked], find_stated_roles(request.asked), wiring)
    return DiscoveryResult(request, found.ports, alone, wiring, proposal, found.not_undone)
