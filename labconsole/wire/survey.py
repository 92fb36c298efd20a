"""Requests that only checks use: a survey of the node, cleaning up, listening for marked frames."""

from __future__ import annotations

from typing import Annotated, Dict, List, Optional

from labconsole.wire.facts import LoadAverages
from labconsole.wire.links import MAX_INTERFACES
from labconsole.wire.message import Done, Message, Request
from labconsole.wire.rules import Amount, Count, Key, Most, Name, Port, Sentence, Signed, Word, WordList
from labconsole.wire.session import MAX_FAILURES

MAX_LISTED = 200
MAX_TABLES = 100
MAX_TOOLS = 100
MAX_HEARD = 1000


class ClockState(Message):
    """The kernel's report of its own clock."""

    synchronised: bool
    offset_ns: Signed
    max_error_us: Count
    estimated_error_us: Count


class Conntrack(Message):
    """Tracked connections, and their maximum number."""

    entries: Optional[Count]
    limit: Optional[Count]


class Disk(Message):
    """The capture directory's file system."""

    directory: Sentence
    error: Optional[Sentence]
    free_bytes: Optional[Count]
    total_bytes: Optional[Count]


class Heat(Message):
    """``throttled``: how often a processor was slowed down because of heat."""

    throttled: Optional[Count]
    hottest_millidegrees: Optional[Count]


class IcmpCounts(Message):
    """ICMP messages that the node sent to senders of frames."""

    sent_unreachable: Optional[Count]
    sent_redirects: Optional[Count]


class Leftover(Message):
    """A leftover of an earlier session: a pktgen device or a link."""

    kind: Name
    name: Sentence


class Management(Message):
    """The interface that SSH uses, and the addresses of every interface."""

    address: Optional[Name]
    interface: Optional[Name]
    addresses: Annotated[Dict[str, Annotated[List[Name], Most(MAX_LISTED)]], Most(MAX_INTERFACES)]


class Memory(Message):
    """Memory of the machine."""

    total_bytes: Optional[Count]
    available_bytes: Optional[Count]


class DisturbingProcess(Message):
    """A sniffer, sender or guest (``kind``)."""

    pid: Count
    kind: Name
    name: Name
    command: Sentence
    same_network: Optional[bool]


class WatchdogState(Message):
    """Whether silence ends the session, and how long ago the console was heard."""

    armed: bool
    heard_before_s: Optional[Amount]


class Survey(Message):
    """None is unknown. ``iptables``: tables with rules. ``tools``: paths of programs, None for missing ones."""

    clock: Optional[ClockState]
    conntrack: Conntrack
    disk: Disk
    heat: Heat
    icmp: IcmpCounts
    iptables: Annotated[List[Name], Most(MAX_TABLES)]
    leftovers: Annotated[List[Leftover], Most(MAX_LISTED)]
    load: Optional[LoadAverages]
    management: Management
    memory: Memory
    namespaces: Annotated[List[Name], Most(MAX_LISTED)]
    pktgen_devices: Annotated[List[Name], Most(MAX_INTERFACES)]
    processes: Annotated[List[DisturbingProcess], Most(MAX_LISTED)]
    tools: Annotated[Dict[str, Optional[Sentence]], Most(MAX_TOOLS)]
    watchdog: WatchdogState


class TakeSurvey(Request[Survey], op="survey"):
    """Request everything else that a check needs; starts no program. ``guests``: as in ``surroundings``."""

    tools: Annotated[List[Key], Most(MAX_TOOLS)]
    capture_directory: Optional[Word] = None
    guests: Optional[WordList] = None


class Removed(Message):
    """Removed leftovers, in sentences."""

    removed: Annotated[List[Sentence], Most(MAX_FAILURES)]


class RemoveLeftovers(Request[Removed], op="clean"):
    """Remove the leftovers that a survey lists, permanently."""


class HeardStream(Message):
    """Test frames of one stream that arrived at one interface."""

    interface: Name
    source_ip: Name
    sink_ip: Name
    udp_sink_port: Port
    packets: Count


class Heard(Message):
    """The test frames (they have pktgen's magic) that arrived since listening began.

    ``complete``: false if there were more than the agent counts, so that some are missing.
    """

    heard: Annotated[List[HeardStream], Most(MAX_HEARD)]
    complete: bool


class StartListening(Request[Done], op="listen.start"):
    """Start to count arriving test frames on these interfaces, in promiscuous mode.

    ``source_ip``: only frames from this address; the kernel drops all others, however many.
    """

    interfaces: WordList
    source_ip: Optional[Word] = None


class ReadListening(Request[Heard], op="listen.read"):
    """Request the test frames that have arrived so far."""


class StopListening(Request[Heard], op="listen.stop"):
    """Stop listening."""
