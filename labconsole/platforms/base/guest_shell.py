"""A shell inside a guest: one dialogue, through any entry into the guest, and the marks that it sends."""

from __future__ import annotations

import asyncio
import re
import secrets
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from labconsole.contracts.crew import BootMark
from labconsole.contracts.driver import Ask, SecondGuest
from labconsole.contracts.ports import AgentLink
from labconsole.errors import AgentError, NodeError
from labconsole.measure.external_timing import Nonce
from labconsole.model.cpus import cpu_set
from labconsole.wire.guests import AskGuest, GuestStarted, GuestState, GuestStatus, StartGuest, StopGuest

# -- shells ------------------------------------------------------------------------------------------------------------
# ``sh`` reads lines from its standard input and runs each by itself, so a guest needs no address and no SSH. The output
# of a line is between two marks that no other line has: a serial console also shows kernel messages, and may return the
# end of one line with the next.

READY = "LABCONSOLE-GUEST-READY"
"""Printed by a guest that is up and accepts lines."""

DONE = "LABCONSOLE-DONE"
"""Printed after each line, with the line's exit status."""

ASK_S = 30.0
"""A guest may be an emulated machine of one processor that twelve others compete for."""

OPEN_S = 20.0
STOP_AGAIN_S = 0.1
"""Interval of attempts to end guests whose programs the agent may not have started yet."""

MAX_LINE_BYTES = 3000
"""A terminal, such as a serial console, cuts lines off after 4095 bytes."""

_MAX_SHOWN = 300
_ALLOWED_CPUS = "while read -r k v; do case $k in Cpus_allowed_list:) echo $v;; esac; done </proc/self/status"
LOOP = (
    f"echo {READY[:10]}''{READY[10:]}; "
    f'while read -r line; do sh -c "$line" 3<&0 </dev/null 2>&1; echo {DONE[:10]}"{DONE[10:]} $?"; done'
)
"""Both marks are split by quotes: a console may echo its input before the shell reads it. Descriptor 3 is the console,
for a line that waits for another (build_simultaneous_line).
"""

NO_BUSYBOX = "no_busybox"
"""The code of a guest without busybox, which can send no mark."""

LACKS = "LABCONSOLE-NO-BUSYBOX"
"""Printed by such a guest instead of READY."""

WITH_BUSYBOX = f"command -v busybox >/dev/null || {{ echo {LACKS[:10]}''{LACKS[10:]}; exit 1; }}"
CREW_LOOP = f"{WITH_BUSYBOX}; {LOOP}"
"""The loop of a guest that sends marks."""

WAITS = "LABCONSOLE-WAITS"
"""Printed by a guest that has read its line and begins at the next one."""


def build_simultaneous_line(lines: Sequence[str]) -> str:
    """One line that runs these side by side once the console receives another, empty line, so that several guests begin
    together. By then the line has been read and the shells are running.
    """
    waits = f"echo {WAITS[:10]}''{WAITS[10:]}"
    if len(lines) == 1:
        return f"{waits}; read -r go <&3; exec 3<&-; {lines[0]}"
    go = "; ".join("echo" for _ in lines)
    each = " ".join(f"( read -r go <&3; exec 3<&-; {line} ) &" for line in lines)
    return f"{{ read -r go <&3; {go}; }} | {{ exec 3<&0 </dev/null; {each} {waits}; wait; }}"


def build_taskset_prefix(cpus: str | None) -> list[str]:
    """Prefix of a command line that runs on these CPUs only; None allows all CPUs."""
    return [] if cpus is None else ["taskset", "-c", cpus]


async def start_all(
    uut: AgentLink, argvs: Mapping[str, Sequence[str]], *, timeout_s: float, namespaced: bool = False
) -> dict[str, GuestStarted]:
    """Start guests side by side, each in the namespace of its name if ``namespaced``; returns when all report that they
    are up. Raises NodeError.
    """

    async def start(name: str, argv: Sequence[str]) -> GuestStarted:
        namespace = name if namespaced else None
        wish = StartGuest(guest=name, argv=list(argv), ready=READY, timeout_s=timeout_s, namespace=namespace)
        with _report_missing_busybox(name):
            return await uut.ask(wish, timeout_s=timeout_s + 10)

    # Waits for all of them: one that is still starting could not be ended.
    starting = asyncio.gather(*(start(name, argv) for name, argv in argvs.items()), return_exceptions=True)
    try:
        outcomes = await asyncio.shield(starting)
    except asyncio.CancelledError:
        while not starting.done():
            await asyncio.gather(*(close_shell(uut, name) for name in argvs), return_exceptions=True)
            await asyncio.wait([starting], timeout=STOP_AGAIN_S)
        raise
    started: dict[str, GuestStarted] = {}
    for name, outcome in zip(argvs, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            raise outcome
        started[name] = outcome
    return started


@contextmanager
def _report_missing_busybox(name: str) -> Iterator[None]:
    """Report a guest without busybox as such, instead of its shell's failure."""
    try:
        yield
    except AgentError as exc:
        if LACKS not in exc.message:
            raise
        why = f"guest {name} has no busybox, by which it sends its marks (Debian: busybox-static)"
        raise AgentError(exc.node, why, code=NO_BUSYBOX) from exc


async def open_shell(
    uut: AgentLink, name: str, argv: Sequence[str], *, namespace: str = "", loop: str = LOOP, own_session: bool = True
) -> Ask:
    """Start the shell that ``argv`` leads to (``lxc-attach -n X --``; empty: the UUT's own), under ``name``.

    ``namespace``: one made by the agent, for the shell to run in. Shells without ``own_session`` share the agent's
    session. The shell ends with the agent, or by ``close_shell``. Raises NodeError.
    """
    start = StartGuest(
        guest=name,
        argv=[*argv, "sh", "-c", loop],
        ready=READY,
        timeout_s=OPEN_S,
        namespace=namespace or None,
        own_session=None if own_session else False,
    )
    with _report_missing_busybox(name):
        await uut.ask(start, timeout_s=OPEN_S + 10)
    return ask_on_console(name)


def build_single_command(lead: Sequence[str], line: str) -> list[str]:
    """A command that runs one line in a guest, through its entry. A console takes no command: it receives the line as
    its input, and a second line to pass it on, which fails while it is busy with a job.
    """
    fed = '{ printf "%s\\n" "$0"; sleep 1; } | "$@"'
    return ["sh", "-c", fed, line, *lead, "sh", "-c", line]


def ask_on_console(name: str, limit_s: float = ASK_S) -> Ask:
    """An Ask for a running guest whose console runs such a loop. It raises NodeError for a line that fails."""

    async def ask(uut: AgentLink, line: str) -> str:
        mark = secrets.token_hex(6)
        # Split by quotes, so that a console that echoes its input shows no mark.
        marked_line = f"echo '<'{mark}; sh -c {shlex.quote(line)} </dev/null 2>&1; s=$?; echo; echo '>'{mark} $s"
        if "\n" in line or len(marked_line.encode()) > MAX_LINE_BYTES:
            raise NodeError(
                uut.name, f"a command for guest {name} is too long or has several lines", operation="guest.ask"
            )
        request = AskGuest(guest=name, line=marked_line, until=DONE, timeout_s=limit_s)
        printed = (await uut.ask(request, timeout_s=limit_s + 10)).printed.replace("\r\n", "\n")
        answer, _, ending = printed.partition(f"<{mark}\n")[2].rpartition(f"\n>{mark} ")
        status = re.match(r"(\d{1,3})\s", ending)
        if status is None:
            end = " ".join(printed[-_MAX_SHOWN:].split())
            raise NodeError(
                uut.name, f"guest {name} did not answer completely; its answer ends: {end}", operation="guest.ask"
            )
        answer = answer.removesuffix("\n")
        if status[1] != "0":
            end = " ".join(answer[-_MAX_SHOWN:].split()) or "it said nothing"
            raise NodeError(uut.name, f"in guest {name}, status {status[1]}: {end}", operation="guest.ask")
        return answer

    return ask


async def close_shell(uut: AgentLink, name: str) -> None:
    """End the shell; does nothing if it has ended."""
    try:
        await uut.ask(StopGuest(guest=name))
    except NodeError as exc:
        if getattr(exc, "code", "") != "no_such_guest":
            raise


async def guest_state(uut: AgentLink, name: str) -> GuestState | None:
    """The state of a guest, or None if no guest of that name runs."""
    try:
        return await uut.ask(GuestStatus(guest=name))
    except AgentError as exc:
        if exc.code == "no_such_guest":
            return None
        raise


async def shell_as_guest(uut: AgentLink, name: str, cpus: str | None, *, namespace: str = "") -> SecondGuest:
    """A second guest of plain processes of the UUT's own kernel, pinned to ``cpus`` if given."""
    ask = await open_shell(uut, name, build_taskset_prefix(cpus), namespace=namespace)
    pid = (await uut.ask(GuestStatus(guest=name))).pid
    allowed = await allowed_cpus(uut, ask)
    if cpus is not None and cpu_set(allowed or "") != cpu_set(cpus):
        raise NodeError(uut.name, f"the second guest, {name}, may run on CPUs {allowed}, but should run on {cpus}")
    return SecondGuest(name=name, cpus=cpus, ask=ask, pid=pid, same_pids=True)


async def allowed_cpus(uut: AgentLink, ask: Ask) -> str | None:
    """The CPUs allowed inside, in the kernel's notation, or None if not reported."""
    said = (await ask(uut, _ALLOWED_CPUS)).strip()
    return said if cpu_set(said) is not None else None


# -- marks -------------------------------------------------------------------------------------------------------------
# Guests' marks: each is a ping of unpredictable size and pattern (measure/external_timing.py finds it).

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
