"""Places where a node's kernel reports dropped packets. Counted since boot; nothing is reset."""

from __future__ import annotations

from typing import Annotated, Any, Dict, List, Optional

from labconsole.wire.counters import MAX_NAMESPACES
from labconsole.wire.facts import MAX_CPUS
from labconsole.wire.links import MAX_INTERFACES
from labconsole.wire.message import Message, Request, build_check
from labconsole.wire.rules import Count, Most, Name, Rule, Unsigned, WordList, bad, count, maybe, name

MAX_DRIVER_STATISTICS = 512
MAX_FILTERS = 1000
MAX_IP_STATISTICS = 100


def _softnet_row(value: Any, where: str) -> List[Any]:
    if type(value) is not list or len(value) != 4:
        raise bad(where, "must be a row of 4 entries")
    return [maybe(count)(value[0], where), *(count(number, where) for number in value[1:])]


class QdiscCounts(Message):
    """Counts of one queueing discipline."""

    drops: Count
    requeues: Count
    overlimits: Count


def _qdisc_row(value: Any, where: str) -> List[Any]:
    if type(value) is not list or len(value) != 3:
        raise bad(where, "has a row without exactly 3 entries")
    return [name(value[0], "an interface"), name(value[1], where), build_check(QdiscCounts)(value[2], where)]


class DroppingRule(Message):
    """A rule of a firewall (nftables) that counts and drops; ``interface`` and ``hook`` for the family netdev."""

    family: Name
    table: Name
    chain: Name
    handle: Unsigned
    interface: Optional[Name]
    hook: Optional[Name]
    packets: Unsigned


class NamespaceDrops(Message):
    """Drops of one namespace.

    ``qdiscs``: rows of interface, kind and QdiscCounts, root and ingress. ``driver``: the driver's statistics (ethtool
    -S) whose name may indicate trouble and whose value is not 0, or None if not available. Equal names are summed; "#"
    in a name replaces a number so that more could be summed. ``drivers``: the name of each interface's driver. ``cut``:
    interfaces with more such statistics than are kept. Both are None if the agent is too old to report them.
    """

    ip: Optional[Annotated[Dict[str, Count], Most(MAX_IP_STATISTICS)]]
    filters: Optional[Annotated[List[DroppingRule], Most(MAX_FILTERS)]]
    qdiscs: Annotated[List[Annotated[List[Any], Rule(_qdisc_row)]], Most(MAX_INTERFACES)]
    driver: Annotated[
        Dict[str, Optional[Annotated[Dict[str, Unsigned], Most(MAX_DRIVER_STATISTICS)]]], Most(MAX_INTERFACES)
    ]
    drivers: Optional[Annotated[Dict[str, Optional[Name]], Most(MAX_INTERFACES)]] = None
    cut: Optional[WordList] = None


class DropCounters(Message):
    """``softnet``: rows of processor or None, processed, dropped and squeezed, for the whole kernel."""

    monotonic_ns: Count
    softnet: Optional[Annotated[List[Annotated[List[Any], Rule(_softnet_row)]], Most(MAX_CPUS)]]
    namespaces: Annotated[Dict[str, NamespaceDrops], Most(MAX_NAMESPACES)]


class ReadDrops(Request[DropCounters], op="drops.read"):
    """Request the drop counters, and those of these interfaces' drivers."""

    interfaces: WordList
