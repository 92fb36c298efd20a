"""Facts about a node: its kernel, its machine, its tools."""

from __future__ import annotations

from typing import Annotated, Dict, List, Optional

from labconsole.wire.message import Message, Request
from labconsole.wire.rules import Amount, Count, Most, Name, Rule, Sentence, whole

MAX_LOGINS = 1000
MAX_CAPABILITIES = 100
MAX_CPUS = 4096

LoadAverages = Annotated[List[Amount], Most(3)]
"""Averages over 1, 5 and 15 minutes."""

Governors = Annotated[Dict[str, Count], Most(MAX_CPUS)]
"""Number of processors by frequency governor."""


class Login(Message):
    """A user who is logged in."""

    user: Name
    line: Name
    host: Optional[Name]
    since_wall_s: Annotated[int, Rule(whole(-(2**31), 2**31 - 1))]


class NodeFacts(Message):
    """None is unknown. ``hypervisor_type``: the hypervisor the kernel reports it runs under (Xen's first domain reports
    one, too). ``network_namespace``: an inode. ``tcpdump`` and ``pktgen`` (None if not loaded): versions.
    """

    hostname: Sentence
    kernel: Sentence
    kernel_version: Sentence
    machine: Sentence
    os: Optional[Sentence]
    product: Optional[Sentence]
    vendor: Optional[Sentence]
    cpus: Count
    cpu_model: Optional[Sentence]
    hypervisor_flag: Optional[bool]
    memory_bytes: Optional[Count]
    python: Sentence
    tcpdump: Optional[Sentence]
    pktgen: Optional[Sentence]
    pktgen_loadable: bool
    load: Optional[LoadAverages]
    governors: Optional[Governors]
    logins: Optional[Annotated[List[Login], Most(MAX_LOGINS)]]
    capabilities: Optional[Annotated[List[Name], Most(MAX_CAPABILITIES)]]
    euid: Count
    clocksource: Optional[Sentence]
    uptime_s: Optional[Amount]
    boot_id: Optional[Sentence]
    network_namespace: Count
    hypervisor_type: Optional[Sentence] = None


class ReadFacts(Request[NodeFacts], op="facts", watches=True):
    """Request the facts about the node."""
