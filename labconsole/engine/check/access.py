"""Access to a node: SSH, host key, the agent's rights, round trip, management path and lease."""

from __future__ import annotations

from labconsole.engine.check.context import CheckContext, Wave, check
from labconsole.engine.check.result import CheckFinding, failed, passed, skipped, warned
from labconsole.errors import AgentError
from labconsole.wire.lease import TakeLease

SLOW_S = 0.05
"""Longer round trips impair starting sources together and following them live."""

LEASE_S = 30.0
"""Duration that a check announces with its lease, for operators who wait."""

NEEDED = {"source": ("net_admin", "net_raw"), "uut": ("net_admin",), "sink": ("net_raw",), "host": ()}
"""Capabilities that each role requires."""

EVERY_ROLE = tuple(NEEDED)


@check("ssh.login", "SSH session and agent", wave=Wave.FIRST, roles=EVERY_ROLE, without_link=True)
async def login(bench: CheckContext, node: str) -> CheckFinding:
    """The SSH session is open and the agent runs in it."""
    if node not in bench.links:
        return failed(
            bench.why_not(node),
            f"try `ssh {bench.inventory.nodes[node].address}` with the user and key that hosts.yaml and ~/.ssh/config "
            "give; docs/ssh.md says how labconsole logs in",
        )
    hello = bench.links[node].hello
    return passed(
        f"agent {hello.version} on Python {hello.python}, Linux {hello.kernel}",
        python=hello.python,
        kernel=hello.kernel,
    )


@check("ssh.host_key", "host key known", wave=Wave.FIRST, roles=EVERY_ROLE, without_link=True)
async def host_key(bench: CheckContext, node: str) -> CheckFinding:
    """The node has the key in known_hosts. Nothing here ever accepts an unknown key."""
    if node in bench.links:
        return passed("the node's key matches known_hosts")
    reason = bench.why_not(node)
    if "host key" in reason:
        return failed(reason, "compare the fingerprint on the node's own console before you accept a key")
    return skipped(f"{node} is not connected, but not because of its host key")


@check("ssh.rights", "root rights without a password", wave=Wave.FIRST, roles=EVERY_ROLE)
async def rights(bench: CheckContext, node: str) -> CheckFinding:
    """The agent has the rights that the node's role needs, without a password prompt."""
    facts, become = await bench.facts(node), bench.inventory.nodes[node].become
    way = "through sudo -n" if become else "by login"
    if facts.euid == 0 and facts.capabilities is None:
        return passed(f"root {way}")
    have = facts.capabilities
    if have is None:
        return skipped("the node does not report the agent's capabilities")
    needed = dict.fromkeys(word for role in bench.roles(node) for word in NEEDED[role])
    missing = [word for word in needed if word not in have]
    if missing:
        return failed(
            f"user id {facts.euid} {way}, without the capabilities {', '.join(missing)}",
            "log in as root, or set `become: sudo` for the node in hosts.yaml and allow sudo without a password",
        )
    return passed(f"user id {facts.euid} {way}, with {', '.join(needed)}")


@check("ssh.latency", "round trip", wave=Wave.FIRST, roles=EVERY_ROLE)
async def latency(bench: CheckContext, node: str) -> CheckFinding:
    """Round trip to the agent, the fastest of five."""
    link = bench.link(node)
    await link.measure_clock()
    round_trip_s = link.round_trip_s
    evidence = f"{round_trip_s * 1000:.2f} ms, the fastest of a few"
    if round_trip_s > SLOW_S:
        return warned(
            evidence,
            "measure from a machine closer to the testbed: sources start within about half of this time of each "
            "other, and live figures arrive late",
            round_trip_s=round_trip_s,
        )
    return passed(evidence, round_trip_s=round_trip_s)


@check("ssh.keep_alive", "keep-alive", wave=Wave.FIRST)
async def keep_alive(bench: CheckContext, node: str) -> CheckFinding:
    """If the console falls silent, the agent ends by itself and undoes everything."""
    watchdog = (await bench.survey(node)).watchdog
    if not watchdog.armed:
        return failed(
            "the agent does not watch whether the console is still connected",
            "reconnect: without this, a pulled cable leaves traffic and changes on the node for hours",
        )
    return passed(f"watched; last heard from this console {watchdog.heard_before_s:.1f} s ago", **watchdog.to_wire())


@check("ssh.management", "management path", wave=Wave.FIRST)
async def management(bench: CheckContext, node: str) -> CheckFinding:
    """SSH must not use a data port: its packets would be measured, and a run could cut the connection."""
    ports, way = bench.ports(node), (await bench.survey(node)).management
    interface, addresses = way.interface, way.addresses
    if interface in ports:
        return failed(
            f"SSH uses {interface} ({way.address}), which carries test frames",
            "use another interface of the node for management, and put its address into hosts.yaml",
            interface=interface,
        )
    own = {port: addresses[port] for port in ports if addresses.get(port)}
    if interface is not None:
        return passed(f"SSH uses {interface} ({way.address})", interface=interface)
    if not own:
        return passed("no data port has an address that SSH could use")
    listed = ", ".join(f"{port} has {', '.join(found)}" for port, found in own.items())
    return warned(
        f"the node does not report which interface SSH uses, and {listed}",
        "make sure that the address in hosts.yaml is not that of a data port",
    )


@check("lease", "lease", wave=Wave.FIRST, roles=EVERY_ROLE)
async def lease(bench: CheckContext, node: str) -> CheckFinding:
    """No other session measures here now. The check keeps this lease until it ends."""
    try:
        await bench.link(node).ask(TakeLease(owner=bench.session.operator, purpose="a check", left_s=LEASE_S))
    except AgentError as exc:
        if exc.code not in ("lease_held", "lease_stuck", "lease_lost"):
            raise
        return failed(
            exc.message,
            "wait or ask them to stop; until then, checks that send frames or change settings are skipped",
        )
    bench.leased.append(node)
    return passed("free, and leased by this console while the check runs")
