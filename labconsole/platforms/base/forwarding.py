"""Makes a Linux network stack (of a host or a container) forward a stream, and attests that it still does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

from labconsole.contracts.driver import Attestation
from labconsole.contracts.ports import AgentLink
from labconsole.errors import ConfigError, NodeError, NodeLost
from labconsole.network.change import NetworkChange
from labconsole.network.links import Bridge, BridgePort, LinkUp
from labconsole.network.routing import Neighbour, Route
from labconsole.network.sysctl import Sysctl
from labconsole.wire.changes import ApplyChanges, ReadNetwork, UndoChanges
from labconsole.wire.links import ReadLinks

CHANGED_S = 300.0
"""Changes include guests' disks, and a file system may take minutes to make or remove a large file. A lost link is
noticed earlier.
"""


def route_changes(
    *, inbound: str, outbound: str, source_ip: str, sink_ip: str, sink_mac: str, namespace: str = ""
) -> list[NetworkChange]:
    """Forward ``source_ip`` to ``sink_ip`` from one interface to the other.

    Forwarding is switched on for these two interfaces only, not for the machine. The route back to the source keeps
    reverse-path filtering satisfied without switching it off. The neighbour is permanent, so no ARP runs in a trial.
    """
    changes: list[NetworkChange] = []
    for interface in (inbound, outbound):
        changes.append(LinkUp(interface=interface, namespace=namespace))
        changes.append(Sysctl(name=f"net/ipv4/conf/{interface}/forwarding", value="1", namespace=namespace))
    changes.append(Route(destination=f"{source_ip}/32", interface=inbound, namespace=namespace))
    changes.append(Route(destination=f"{sink_ip}/32", interface=outbound, namespace=namespace))
    changes.append(Neighbour(address=sink_ip, mac=sink_mac, interface=outbound, namespace=namespace))
    return changes


def shell_lines(changes: Iterable[NetworkChange]) -> list[str]:
    """The changes as shell lines, for a dry run. Raises ConfigError for an invalid change."""
    _refuse_others(changes := list(changes))
    return [line for change in changes for line in change.commands()]


def _refuse_others(changes: Iterable[object]) -> None:
    for change in changes:
        if not isinstance(change, NetworkChange):
            raise ConfigError(
                f"the driver asks for a change that is not a NetworkChange (labconsole.network): {change!r:.200}"
            )


async def read_state(
    uut: AgentLink, *, routing: dict[str, Sequence[str]], ports: Sequence[str]
) -> dict[str, Attestation]:
    """The attestation of interfaces: whether routing ones still route, and the bridges of the other ones.

    ``routing``: namespace to interfaces; ``ports``: of the node's own namespace. Raises NodeError.
    """
    state: dict[str, Attestation] = {}
    for namespace, interfaces in routing.items():
        names = {f"net/ipv4/conf/{interface}/forwarding": interface for interface in interfaces}
        reply = await uut.ask(ReadNetwork(sysctls=list(names), namespace=namespace))
        for name, interface in names.items():
            label = f"{namespace}/{interface}" if namespace else interface
            state[label] = {"forwarding": reply.sysctls.get(name)}
    if ports:
        masters = {link.name: link.master for link in (await uut.ask(ReadLinks())).links if not link.namespace}
        for port in ports:
            state[port] = {"master": masters.get(port)}
    return state


async def apply(uut: AgentLink, token: str, changes: Sequence[NetworkChange]) -> None:
    """Have the agent make ``changes``, all or none. Raises ConfigError, and NodeError, also for an interface in a
    foreign bridge: removing it would end another program's measurement or service.
    """
    _refuse_others(changes)
    wanted = {port for change in changes if isinstance(change, Bridge) for port in change.ports}
    wanted |= {change.port for change in changes if isinstance(change, BridgePort)}
    wanted |= {change.interface for change in changes if isinstance(change, Route) and not change.namespace}
    for link in (await uut.ask(ReadLinks())).links:
        if link.name in wanted and not link.namespace and link.master:
            again = " (Xen puts it there at each start of its guest: docs/platforms.md says what to give it instead)"
            raise NodeError(
                uut.name,
                f"{link.name} is a port of {link.master}, which something else has set up; to release it, run "
                f"there: ip link set {link.name} nomaster{again if link.name.startswith('vif') else ''}",
            )
    await uut.ask(ApplyChanges(token=token, changes=list(changes)), timeout_s=CHANGED_S)


async def undo(uut: AgentLink, token: str) -> None:
    """Undo the changes of ``token``. Raises NodeError naming those that could not be undone."""
    failed = (await uut.ask(UndoChanges(token=token), timeout_s=CHANGED_S)).failed
    if failed:
        raise NodeError(uut.name, f"not undone: {'; '.join(failed)}", operation="net.undo")


@asynccontextmanager
async def restored_on_failure(restore: Callable[[AgentLink], Awaitable[None]], uut: AgentLink) -> AsyncIterator[None]:
    """Restore if the block fails or is cancelled. If that fails too, both errors are reported."""
    try:
        yield
    except BaseException as exc:
        try:
            await restore(uut)
        except NodeLost:
            pass  # the agent ended with the link and has undone everything: the first error is more useful
        except NodeError as also:
            if isinstance(exc, NodeError) and not isinstance(exc, NodeLost):
                raise NodeError(exc.node, f"{exc.message}; then {also.message}", operation=exc.operation) from exc
        raise
