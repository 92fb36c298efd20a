"""The unit under test before any platform is set up: what already forwards, filters or runs there."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from labconsole.engine.check.context import FIX_TOKEN, NFT, CheckContext, alike, check
from labconsole.engine.check.result import CheckFinding, failed, passed, repaired, skipped, warned
from labconsole.errors import AgentError
from labconsole.model.inventory import BENCHMARK_NETWORK
from labconsole.network.sysctl import Sysctl
from labconsole.wire.changes import ApplyChanges, ReadNetwork
from labconsole.wire.clean import read_json
from labconsole.wire.execution import Execute

PATH_HOOKS = {"prerouting", "forward", "postrouting", "ingress", "egress"}
"""Netfilter hooks that a forwarded frame passes."""

STOPPING = {"drop", "reject"}
BRIDGE_CALLS = "net/bridge/bridge-nf-call-iptables"
MAX_NAMED = 5
NFT_S = 5.0


@check("uut.forwarding", "forwarding", roles=("uut",))
async def forwarding(bench: CheckContext, node: str) -> CheckFinding:
    """Whether the UUT forwards already. Platforms enable forwarding where they need it, and restore it afterwards."""
    settings = await bench.settings(node)
    ports = {
        name: "on" if found.sysctls.get("forwarding") == "1" else "off"
        for name, found in settings.interfaces.items()
        if name in bench.ports(node)
    }
    machine = settings.sysctls.get("net/ipv4/ip_forward")
    return passed(
        f"ip_forward {machine or 'unknown'}; {alike(ports) or 'no data port there'}; "
        "platforms enable it on their ports while they are set up"
    )


@check("uut.reverse_path", "reverse-path filter", roles=("uut",))
async def reverse_path(bench: CheckContext, node: str) -> CheckFinding:
    """Strict reverse-path filtering drops frames whose source is not routed through the port they came in by."""
    settings = await bench.settings(node)
    machine = settings.sysctls.get("net/ipv4/conf/all/rp_filter")
    by_port: dict[str, str] = {}
    for name, found in settings.interfaces.items():
        if name in bench.ports(node):
            # The kernel uses the stricter of both.
            numbers = [int(v) for v in (machine, found.sysctls.get("rp_filter")) if v is not None and v.isdigit()]
            by_port[name] = str(max(numbers)) if numbers else "unknown"
    if not by_port:
        return skipped("none of its data ports exists")
    return passed(f"{alike(by_port)}; platforms route each stream's source back through the port it arrives on")


@dataclass
class Rules:
    """The part of a ruleset that can affect a forwarded frame."""

    count: int = 0
    stopping: list[str] = field(default_factory=list)
    tables: set[str] = field(default_factory=set)


def read_rules(text: str) -> Rules | None:
    """Rules from ``nft -j list ruleset`` in tables hooked into the forwarding path, or None if it cannot be parsed."""
    try:
        entries = read_json(text)["nftables"]
        found = Rules()
        hooked: set[tuple[str, str]] = set()
        for entry in entries:
            chain = entry.get("chain")
            if chain is not None and chain.get("hook") in PATH_HOOKS:
                table = (str(chain["family"]), str(chain["table"]))
                hooked.add(table)
                if chain.get("policy") == "drop":
                    found.stopping.append(f"chain {' '.join(table)} {chain['name']} has policy drop")
        for entry in entries:
            rule = entry.get("rule")
            if rule is None or (str(rule["family"]), str(rule["table"])) not in hooked:
                continue
            found.count += 1
            found.tables.add(f"{rule['family']} {rule['table']}")
            statements = {key for part in rule["expr"] if isinstance(part, dict) for key in part}
            if statements & STOPPING:
                place = f"{rule['family']} {rule['table']} {rule['chain']}"
                found.stopping.append(
                    f"rule {rule.get('handle')} of {place} has {' and '.join(sorted(statements & STOPPING))}"
                )
        return found
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


@check("uut.firewall", "firewall", roles=("uut",))
async def firewall(bench: CheckContext, node: str) -> CheckFinding:
    """Rules that a forwarded frame meets cost time, and some of them stop it."""
    survey = await bench.survey(node)
    if survey.tools.get(NFT) is None:
        if survey.iptables:
            return warned(
                f"iptables tables in use: {', '.join(survey.iptables)}; nft is not installed to read them",
                "look at `iptables-save` on the UUT: flush the tables, or accept what their rules cost",
            )
        return skipped("nft is not installed, so the rules cannot be read")
    try:
        done = await bench.link(node).ask(
            Execute(argv=[NFT, "-j", "list", "ruleset"], timeout_s=NFT_S), timeout_s=NFT_S + 2
        )
    except AgentError as exc:
        return skipped(f"the rules cannot be read: {exc.message}")
    rules = read_rules(done.stdout) if done.exit_status == 0 else None
    if rules is None:
        said = done.stderr.strip().splitlines()[-1:] or ["its output contains no rules"]
        return skipped(f"the rules cannot be read: nft: {said[0]}")
    if rules.stopping:
        more = f" and {len(rules.stopping) - MAX_NAMED} more" if len(rules.stopping) > MAX_NAMED else ""
        return failed(
            "; ".join(rules.stopping[:MAX_NAMED]) + more,
            "test frames may be stopped there: look at `nft -a list ruleset` on the UUT, and remove or bypass the rule",
            rules=rules.count,
            stopping=len(rules.stopping),
        )
    if rules.count or survey.iptables:
        tables = sorted(rules.tables) + [f"iptables {name}" for name in survey.iptables]
        return warned(
            f"{rules.count} rules in {', '.join(tables)}; none drops or rejects",
            "every forwarded frame is matched against them: remove them to measure the platform without them",
            rules=rules.count,
        )
    return passed("no rule on the path of a forwarded frame", rules=0)


@check("uut.conntrack", "connection tracking", roles=("uut",))
async def conntrack(bench: CheckContext, node: str) -> CheckFinding:
    """Connection tracking costs time per frame, and drops frames when its table is full."""
    found = (await bench.survey(node)).conntrack
    if found.entries is None:
        return passed("not loaded")
    evidence = f"{found.entries} of {found.limit} entries"
    if found.entries:
        return warned(
            evidence,
            "something on the UUT tracks connections (a firewall, Docker), which costs time for every frame",
            **found.to_wire(),
        )
    return passed(f"{evidence}: loaded, but tracks nothing", **found.to_wire())


@check("uut.bridge_calls", "rules for bridged frames", roles=("uut",))
async def bridge_calls(bench: CheckContext, node: str) -> CheckFinding:
    """Whether bridged frames pass the IP rules as well."""
    value = (await bench.settings(node)).sysctls.get(BRIDGE_CALLS)
    if value != "1":
        return passed("bridged frames do not pass the IP rules")
    rules = await firewall(bench, node)
    if not rules.values.get("rules") and rules.status.value in ("pass", "skipped"):
        return passed("bridged frames would pass the IP rules, but there are none", bridge_nf_call_iptables=1)
    if bench.fix and node in bench.leased:
        change = Sysctl(name=BRIDGE_CALLS, value="0")
        await bench.link(node).ask(ApplyChanges(token=FIX_TOKEN, changes=[change]))
        return repaired(
            f"bridged frames passed the IP rules; this is off until this session ends; to switch it off permanently: "
            f"sysctl -w {BRIDGE_CALLS.replace('/', '.')}=0"
        )
    return warned(
        "bridged frames pass the IP rules",
        f"on the UUT: sysctl -w {BRIDGE_CALLS.replace('/', '.')}=0; or use --fix, for this session only",
        fixable=True,
    )


@check("uut.routes", "routes and neighbours", roles=("uut",))
async def routes(bench: CheckContext, node: str) -> CheckFinding:
    """Foreign routes and neighbours in the benchmark network divert test frames."""
    found = await bench.read(node, ReadNetwork(routes=True, neighbours=True))
    neighbours = found.neighbours or []
    mine = {ipaddress.IPv4Address(stream.source_ip): stream.uut_in for stream in bench.inventory.streams}
    mine |= {ipaddress.IPv4Address(stream.sink_ip): stream.uut_out for stream in bench.inventory.streams}
    astray = []
    for route in found.routes or ():
        destination = _network(route.destination)
        if destination is None or not destination.overlaps(BENCHMARK_NETWORK) or destination.prefixlen == 0:
            continue
        # A port's own address adds such a route, which leads where the streams go.
        if {interface for address, interface in mine.items() if address in destination} != {route.interface}:
            astray.append(f"{destination} by {route.interface}")
    wrong = []
    for stream in bench.inventory.streams:
        live = bench.session.telemetry.interfaces.get((stream.sink.node, "", stream.sink.interface))
        true_mac = live.link.mac if live is not None else None
        for entry in neighbours:
            place = (entry.address, entry.interface)
            if (
                place == (stream.sink_ip, stream.uut_out)
                and entry.permanent
                and true_mac
                not in (
                    None,
                    entry.mac,
                )
            ):
                wrong.append(f"{stream.sink_ip} is {entry.mac}, and {stream.sink} has {true_mac}")
    if astray or wrong:
        problems = [f"route {text}" for text in astray] + [f"permanent neighbour {text}" for text in wrong]
        return warned(
            "; ".join(problems[:MAX_NAMED]),
            "remove what is not labconsole's (ip route del, ip neigh del): platforms set their own entries and "
            "restore these afterwards",
        )
    return passed(f"{len(found.routes or ())} routes, none of them set by others in {BENCHMARK_NETWORK}")


def _network(text: object) -> ipaddress.IPv4Network | None:
    try:
        return ipaddress.IPv4Network(str(text), strict=False)
    except ValueError:
        return None


@check("uut.guests", "guests", roles=("uut",))
async def guests(bench: CheckContext, node: str) -> CheckFinding:
    """Guests that run before any platform was set up take processor time from the one under test."""
    survey = await bench.survey(node)
    running = [entry for entry in survey.processes if entry.kind == "guest"]
    names = [f"{entry.name} (process {entry.pid})" for entry in running]
    if names:
        return warned(
            f"running: {', '.join(names[:MAX_NAMED])}",
            "shut down guests that the plan does not name: they take processor time from the guest under test",
            guests=len(running),
        )
    spaces = survey.namespaces
    return passed("none runs" + (f"; named network namespaces: {', '.join(spaces[:MAX_NAMED])}" if spaces else ""))
