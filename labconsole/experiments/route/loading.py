"""Addresses, routes and filter rules of routers: loaded all at once, and counted back."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from labconsole.contracts.crew import CrewMember, InboundNic, StandingMember
from labconsole.contracts.ports import AgentLink
from labconsole.engine.crew_stage import build_member
from labconsole.errors import NodeError, NodeLost
from labconsole.platforms.base.guest_shell import DONE
from labconsole.wire.execution import Execute
from labconsole.wire.guests import AskGuests, GuestLine

# -- addresses ---------------------------------------------------------------------------------------------------------
# Addresses for an experiment with routers: all in the benchmark network (RFC 2544), and used by it alone.

GATEWAY = "198.18.127.1"
"""The next hop of every route: in the routers' network, beyond the addresses of timekeepers. A permanent neighbour
entry gives it the sink's MAC address.
"""

INBOUND = ipaddress.ip_network("198.19.0.0/18")
"""The network of the routers' inbound addresses and of the source's own."""

SOURCE = "198.19.63.254"
DESTINATIONS = ipaddress.ip_network("198.19.64.0/18")
FIRST_SOURCE_PORT, SINK_PORT = 30_001, 9


def inbound_mac(number: int) -> str:
    """The MAC address of a router's inbound NIC, numbered from 0."""
    return f"02:6c:77:01:{number >> 8:02x}:{number & 0xFF:02x}"


def router(number: int, memory_mib: int | None, cpus: str | None) -> CrewMember:
    """The crew member for a router, numbered from 0."""
    address = f"{INBOUND.network_address + 1 + number}/{INBOUND.prefixlen}"
    return replace(build_member(number, memory_mib, cpus), inbound=InboundNic(mac=inbound_mac(number), address=address))


# -- routes and filter rules -------------------------------------------------------------------------------------------
# If a router is a network namespace of the UUT's kernel, the UUT's own iproute2 and nft load them from outside. Any
# other router gets the commands on its console, and needs iproute2 inside. All that is loaded ends with the namespace
# or the guest.

PROTOCOL = 229
"""Routing protocol by which the kernel distinguishes our routes; no routing daemon uses it (linux/rtnetlink.h)."""

SEED = 20081101
"""Seed of the drawn prefixes: every router has the same ones, in every trial."""

LOAD_S = 1200.0
"""Time limit for loading: an emulated machine may take minutes for 100 000 routes."""

NO_IPROUTE2 = "has no iproute2, by which routes are given to it"
_OUTPUT = 300

AT_ONCE = 2000
"""Routes to one process of ip, which keeps 4 KiB for each (iproute2 6.1)."""

# Prefixes of 16 to 24 bits in turn, each once, none in 127.0.0.0/8 or 198.18.0.0/15. All prefixes of a length, from
# 1.0.0.0 to 223.255.255.255, are numbered, and visited in steps that have no divisor in common with their number. So
# a guest needs no memory for the earlier ones.
_DRAW = (
    'BEGIN{l=0;t=" via " g " dev " o " proto " q;'
    'for(k=0;k<d;k++)w("198.19." 64+int(k/256) "." k%256 "/32");'
    "n=0;for(c=0;n<r;c++){p=16+c%9;m=1;for(i=16;i<p;i++)m*=2;v=(int(c/9)*40503+s)%(57088*m);h=int(v/m);"
    "a=1+int(h/256);b=h%256;if(a==127||(a==198&&(b==18||b==19)))continue;"
    'n++;w(a "." b "." (v%m)*256/m ".0/" p)}}'
    f'function w(x){{print "route add " x t | z;if(++l%{AT_ONCE}==0)close(z)}}'
)
_NICS = 'f(){ l=$(ip -o link | grep -i " $1 "); l=${l#*: }; echo ${l%%[:@]*}; }; '
_COUNT = f"$b route show proto {PROTOCOL} | wc -l"
_PROGRAM = "b=ip; ip -V 2>&1 | grep -q iproute2 || b=iproute2; command -v $b >/dev/null || { echo LCNOIP; exit 3; }; "
_FLUSH = f"$b route flush proto {PROTOCOL}; "
_SAID = re.compile(r"LCROUTES (\d{1,9}) (\d{1,9}) ?(.*)")

_ENTER = """\
pid=$1; shift
for child in $(cat "/proc/$pid/task/$pid/children" 2>/dev/null); do pid=$child; break; done
test "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)" || { echo LCNOIP; exit 3; }
exec nsenter --net="/proc/$pid/ns/net" sh -c "$@\""""
"""Shell script that runs a command in the network namespace of the process's first child, if it has one: a container's
first process is below the program that made it. Never uses the UUT's own namespace.
"""


@dataclass(frozen=True, slots=True)
class RouteLoad:
    """The routes and filter rules for every router."""

    routes: int
    destinations: int
    filters: int

    @property
    def word(self) -> str:
        return f"{self.routes} routes, {self.destinations} destinations, {self.filters} filters"

    @property
    def prefixes(self) -> int:
        """Number of routes in a loaded router."""
        return self.routes + self.destinations


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The routes and filters of a router by its own kernel, each None if it did not report them. ``took_s``: time to
    load them.
    """

    prefixes: int | None = None
    filters: int | None = None
    took_s: float | None = None
    said: str = ""


def nic_line(inbound_mac: str, mac: str, sink_mac: str) -> str:
    """Command that lets a router forward between its NICs, and gives it the MAC address of its next hop."""
    return (
        f'{_NICS}i=$(f {inbound_mac}) && o=$(f {mac}) && test "$i" && test "$o" && '
        "for x in $i $o; do echo 1 >/proc/sys/net/ipv4/conf/$x/forwarding; done && "
        f"busybox arp -i $o -s {GATEWAY} {sink_mac}"
    )


def load_line(load: RouteLoad, mac: str) -> str:
    """Command that removes a router's earlier routes, loads its new ones, and counts them."""
    variables = f"-v r={load.routes} -v d={load.destinations} -v s={SEED} -v g={GATEWAY} -v q={PROTOCOL}"
    give = f"awk {variables} -v o=$o -v z=\"$b -batch -\" '{_DRAW}'"
    return f"{_PROGRAM}{_NICS}o=$(f {mac}); {_FLUSH}e=$({give} 2>&1 | head -n 1); echo LCROUTES $({_COUNT}) 0 $e"


def count_line() -> str:
    """Command that counts a router's routes."""
    return f"{_PROGRAM}echo LCROUTES $({_COUNT}) 0"


_TABLE = "table inet labconsole { chain f { type filter hook forward priority 0;"
_RULES = f'BEGIN{{print "{_TABLE}";for(k=0;k<n;k++)print "udp dport 1 drop";print "}}\\n}}"}}'
_FILTERS = f"nft delete table inet labconsole 2>/dev/null; test $0 -eq 0 || awk -v n=$0 '{_RULES}' | nft -f - ; "
_COUNT_FILTERS = "nft list table inet labconsole 2>/dev/null | grep -c 'udp dport 1 drop'"


async def load_routes(
    uut: AgentLink, guests: Sequence[tuple[StandingMember, str]], load: RouteLoad
) -> dict[str, LoadResult]:
    """Load routes and filters into these guests, each with the MAC address of its outbound NIC; results by name.

    Only guests that are namespaces get filters. Raises NodeError.
    """
    return await _run_lines(uut, [(member, load_line(load, mac)) for member, mac in guests], load.filters)


async def count_routes(uut: AgentLink, members: Sequence[StandingMember]) -> dict[str, LoadResult]:
    """Count the routes and filters that each of them has now."""
    return await _run_lines(uut, [(member, count_line()) for member in members], None)


async def _run_lines(
    uut: AgentLink, lines: Sequence[tuple[StandingMember, str]], filters: int | None
) -> dict[str, LoadResult]:
    outside = [(member, line) for member, line in lines if member.in_namespace and member.pid is not None]
    inside = [(member, line) for member, line in lines if not (member.in_namespace and member.pid is not None)]
    found = dict(
        zip(
            (member.name for member, _ in outside),
            await asyncio.gather(*(_run_in_namespace(uut, member, line, filters) for member, line in outside)),
            strict=True,
        )
    )
    if inside:
        begun = time.monotonic()
        requests = [GuestLine(guest=member.name, line=line) for member, line in inside]
        answered = await uut.ask(AskGuests(asked=requests, until=DONE, timeout_s=LOAD_S), timeout_s=LOAD_S + 30)
        took_s = time.monotonic() - begun
        for each in answered.guests:
            found[each.guest] = _read(each.printed or each.message or "", took_s)
    return found


async def _run_in_namespace(uut: AgentLink, member: StandingMember, line: str, filters: int | None) -> LoadResult:
    rules = "" if filters is None else _FILTERS
    shell = f"{rules}{line.replace('LCROUTES $(' + _COUNT + ') 0', f'LCROUTES $({_COUNT}) $({_COUNT_FILTERS})')}"
    begun = time.monotonic()
    argv = ["sh", "-c", _ENTER, "sh", str(member.pid), shell, str(filters or 0)]
    try:
        said = await uut.ask(Execute(argv=argv, timeout_s=LOAD_S), timeout_s=LOAD_S + 30)
    except NodeLost:
        raise
    except NodeError as exc:
        return LoadResult(said=exc.message[:_OUTPUT])
    return _read(f"{said.stdout} {said.stderr}", time.monotonic() - begun)


def _read(printed: str, took_s: float) -> LoadResult:
    found = _SAID.search(printed.replace("\r", ""))
    if found is None:
        missing = NO_IPROUTE2 if "LCNOIP" in printed else ""
        return LoadResult(said=missing or " ".join(printed.split())[-_OUTPUT:])
    return LoadResult(int(found[1]), int(found[2]), took_s, found[3].strip()[:_OUTPUT])


def first_destination() -> str:
    """Destination of a stream, or the first of its destinations."""
    return str(DESTINATIONS.network_address)
