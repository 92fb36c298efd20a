"""A shell inside a guest: one conversation, whatever leads into the guest.

``sh`` reads lines from its standard input and runs each by itself, so a guest needs no address and no SSH. What a line
prints is found between two marks that no other line has: a serial console shows kernel messages, too, and may give the
last words of one line with the next.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from labconsole.contracts.driver import Ask, SecondGuest
from labconsole.contracts.ports import AgentLink
from labconsole.errors import AgentError, NodeError
from labconsole.model.cpus import cpu_set
from labconsole.wire.guests import AskGuest, GuestStarted, GuestState, GuestStatus, StartGuest, StopGuest

READY = "LABCONSOLE-GUEST-READY"
"""What a guest prints when it is up, and takes lines."""

DONE = "LABCONSOLE-DONE"
"""What it prints after each line, with the line's exit status."""

ASK_S = 30.0
"""A guest may be an emulated machine of one processor that twelve others compete for."""

OPEN_S = 20.0
STOP_AGAIN_S = 0.1
"""Between two attempts to end guests whose programs the agent may not have come to start."""

MAX_LINE_BYTES = 3000
"""A terminal, which a serial console is, cuts off what is beyond 4095 bytes."""

_MAX_TOLD = 300
_ALLOWED_CPUS = "while read -r k v; do case $k in Cpus_allowed_list:) echo $v;; esac; done </proc/self/status"
LOOP = (
    f"echo {READY[:10]}''{READY[10:]}; "
    f'while read -r line; do sh -c "$line" 3<&0 </dev/null 2>&1; echo {DONE[:10]}"{DONE[10:]} $?"; done'
)
"""Both marks quoted apart: a console may echo what it is given while nobody reads it yet. Descriptor 3 is the console,
for a line that waits for another (at_once)."""

NO_BUSYBOX = "no_busybox"
"""The code of a guest that has none: it can send no mark."""

LACKS = "LABCONSOLE-NO-BUSYBOX"
"""What such a guest says instead of being up."""

WITH_BUSYBOX = f"command -v busybox >/dev/null || {{ echo {LACKS[:10]}''{LACKS[10:]}; exit 1; }}"
CREW_LOOP = f"{WITH_BUSYBOX}; {LOOP}"
"""The loop of a guest that sends marks."""

WAITS = "LABCONSOLE-WAITS"
"""What a guest prints that has read its line, and begins once it is given another."""


def build_simultaneous_line(lines: Sequence[str]) -> str:
    """One line that runs these side by side once the console is given another, empty one: several guests begin together
    that way. The line is read, and the shells are started, by then.
    """
    waits = f"echo {WAITS[:10]}''{WAITS[10:]}"
    if len(lines) == 1:
        return f"{waits}; read -r go <&3; exec 3<&-; {lines[0]}"
    go = "; ".join("echo" for _ in lines)
    each = " ".join(f"( read -r go <&3; exec 3<&-; {line} ) &" for line in lines)
    return f"{{ read -r go <&3; {go}; }} | {{ exec 3<&0 </dev/null; {each} {waits}; wait; }}"


def build_taskset_prefix(cpus: str | None) -> list[str]:
    """What a command line begins with that runs on these CPUs only. None: on any."""
    return [] if cpus is None else ["taskset", "-c", cpus]


async def start_all(
    uut: AgentLink, argvs: Mapping[str, Sequence[str]], *, timeout_s: float, namespaced: bool = False
) -> dict[str, GuestStarted]:
    """Start guests side by side, each in the namespace of its name where they are ``namespaced``; returns once all say
    that they are up. Raises NodeError."""

    async def start(name: str, argv: Sequence[str]) -> GuestStarted:
        namespace = name if namespaced else None
        wish = StartGuest(guest=name, argv=list(argv), ready=READY, timeout_s=timeout_s, namespace=namespace)
        with _report_missing_busybox(name):
            return await uut.ask(wish, timeout_s=timeout_s + 10)

    # All are waited for: one that is still being started could not be ended.
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
    """A guest that has no busybox is told of as such, and not by what became of its shell."""
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

    ``namespace``: one that the agent made, which it runs in; not ``own_session``: all such are one session, the
    agent's. It ends with the agent, or by ``close_shell``. Raises NodeError.
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
    """A command line that has one line run in a guest, by what leads into it. A console takes no command: it gets the
    line as its input, and a second to pass it on; one that is busy with a job never does.
    """
    fed = '{ printf "%s\\n" "$0"; sleep 1; } | "$@"'
    return ["sh", "-c", fed, line, *lead, "sh", "-c", line]


def ask_on_console(name: str, limit_s: float = ASK_S) -> Ask:
    """Asks a guest that runs already and whose console runs such a loop. A line that fails raises NodeError."""

    async def ask(uut: AgentLink, line: str) -> str:
        mark = secrets.token_hex(6)
        # Quoted apart, so that a console that echoes what it is given shows no mark.
        told = f"echo '<'{mark}; sh -c {shlex.quote(line)} </dev/null 2>&1; s=$?; echo; echo '>'{mark} $s"
        if "\n" in line or len(told.encode()) > MAX_LINE_BYTES:
            raise NodeError(
                uut.name, f"a command for guest {name} is too long or has several lines", operation="guest.ask"
            )
        request = AskGuest(guest=name, line=told, until=DONE, timeout_s=limit_s)
        printed = (await uut.ask(request, timeout_s=limit_s + 10)).printed.replace("\r\n", "\n")
        answer, _, ending = printed.partition(f"<{mark}\n")[2].rpartition(f"\n>{mark} ")
        status = re.match(r"(\d{1,3})\s", ending)
        if status is None:
            end = " ".join(printed[-_MAX_TOLD:].split())
            raise NodeError(
                uut.name, f"guest {name} did not answer completely; its answer ends: {end}", operation="guest.ask"
            )
        answer = answer.removesuffix("\n")
        if status[1] != "0":
            end = " ".join(answer[-_MAX_TOLD:].split()) or "it said nothing"
            raise NodeError(uut.name, f"in guest {name}, status {status[1]}: {end}", operation="guest.ask")
        return answer

    return ask


async def close_shell(uut: AgentLink, name: str) -> None:
    """End it; nothing happens when it has ended before."""
    try:
        await uut.ask(StopGuest(guest=name))
    except NodeError as exc:
        if getattr(exc, "code", "") != "no_such_guest":
            raise


async def guest_state(uut: AgentLink, name: str) -> GuestState | None:
    """None: nothing of that name runs."""
    try:
        return await uut.ask(GuestStatus(guest=name))
    except AgentError as exc:
        if exc.code == "no_such_guest":
            return None
        raise


async def shell_as_guest(uut: AgentLink, name: str, cpus: str | None, *, namespace: str = "") -> SecondGuest:
    """A second guest that is nothing but processes of the UUT's own kernel, pinned to ``cpus`` where these are told."""
    ask = await open_shell(uut, name, build_taskset_prefix(cpus), namespace=namespace)
    pid = (await uut.ask(GuestStatus(guest=name))).pid
    allowed = await allowed_cpus(uut, ask)
    if cpus is not None and cpu_set(allowed or "") != cpu_set(cpus):
        raise NodeError(uut.name, f"the second guest, {name}, may run on CPUs {allowed}, but should run on {cpus}")
    return SecondGuest(name=name, cpus=cpus, ask=ask, pid=pid, same_pids=True)


async def allowed_cpus(uut: AgentLink, ask: Ask) -> str | None:
    """The CPUs on which what is started inside may run, in the kernel's words; None when it does not say."""
    said = (await ask(uut, _ALLOWED_CPUS)).strip()
    return said if cpu_set(said) is not None else None
