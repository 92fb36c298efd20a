"""Guests' marks: each is a ping of unpredictable size and pattern (measure/external_timing.py finds it)."""

from __future__ import annotations

import secrets

from labconsole.contracts.crew import BootMark
from labconsole.measure.external_timing import Nonce
from labconsole.platforms.base.guest_shell import CREW_LOOP, LOOP, WITH_BUSYBOX

LEAST_PAYLOAD_BYTES, MOST_PAYLOAD_BYTES = 64, 1400


def nonces(count: int) -> list[Nonce]:
    """Draw ``count`` unpredictable nonces, no two alike."""
    found: dict[Nonce, None] = {}
    while len(found) < count:
        span = MOST_PAYLOAD_BYTES - LEAST_PAYLOAD_BYTES + 1
        found[Nonce(LEAST_PAYLOAD_BYTES + secrets.randbelow(span), secrets.randbelow(256))] = None
    return list(found)


SEEK_STEP_S = 0.02
SEEK = (
    f"for each in /proc/sys/net/ipv4/neigh/*; do echo {SEEK_STEP_S * 1000:.0f} >$each/retrans_time_ms; "
    "echo 50 >$each/mcast_solicit; done 2>/dev/null"
)
"""Before a mark that is the first packet of all: a bridge forwards none before it has seen that the guest's NIC is up,
and a failed address request is only repeated after a second.
"""


def mark_line(nonce: Nonce, timekeeper: str) -> str:
    """A shell line that sends the mark and waits for the answer. It works with any ping that busybox has."""
    return f"busybox ping -q -c 1 -W 1 -s {nonce.payload_bytes} -p {nonce.pattern:02x} {timekeeper} >/dev/null 2>&1"


def marked_loop(mark: BootMark | None) -> str:
    """The loop of a guest's shell (guest_shell.py), after its mark if it has one."""
    return CREW_LOOP if mark is None else f"{WITH_BUSYBOX}; {SEEK}; {mark_line(mark.nonce, mark.address)}; {LOOP}"


def installed_loop(mark: BootMark, mac: str, address: str) -> str:
    """The same for an installed guest's shell, which has to find its NIC and set it up first. It pings until the
    timekeeper's address answers, because its NIC may not be joined to the UUT's yet. That ping is the mark, which is
    not sent again. It prints the number of pings.
    """
    nic = f"nic=$(ip -o link | while read -r n i r; do case $r in (*'ether {mac} '*) echo ${{i%%[@:]*}};; esac; done)"
    return (
        f"{WITH_BUSYBOX}; "
        f'until {nic}; test "$nic"; do test "$t" || echo there is no NIC {mac}; t=1; busybox sleep 0.1; done; '
        f"ip address add {address} dev $nic 2>/dev/null; ip link set $nic up; {SEEK}; t=0; "
        f"while t=$((t + 1)); ! {mark_line(mark.nonce, mark.address)}; do while :; do "
        f"case $(ip neigh show {mark.address}) in (*lladdr*) break 2;; (*INCOMPLETE*) busybox sleep 0.02;; (*) break;; "
        f"esac; done; done; echo mark $t; {LOOP}"
    )


def format_mark_argument(mark: BootMark | None) -> str:
    """The same for an image that reads its kernel's command line."""
    if mark is None:
        return ""
    return f" lc.mark={mark.address},{mark.nonce.payload_bytes},{mark.nonce.pattern:02x}"
