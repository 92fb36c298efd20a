"""Targets: words of programs and agents on nodes. Hypervisors' answers, lines of the wire, what the kernel prints."""

from __future__ import annotations

import asyncio
import gzip
import json
import shlex
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

from hypothesis import strategies as st

from fuzz.files import JSON_WORDS, change_json
from fuzz.target import Read, Target
from labconsole.contracts.ports import AgentLink
from labconsole.errors import NodeError
from labconsole.network.control_groups import Limits
from labconsole.nodes.channel import decode_line
from labconsole.platforms.base.installed_guests import InstalledGuestDriver
from labconsole.platforms.base.shell import Shell
from labconsole.platforms.drivers.command import CommandDriver
from labconsole.wire.codec import WireError, decode
from labconsole.wire.message import Request
from support.asking import Asking
from support.fuzzing import HOSTILE, changed_text, harmful, mutated_bytes
from support.hypervisor_cases import CASES, HYPERV, PROXMOX
from support.kept_messages import kept_event, kept_hello, kept_reply
from support.replayed_node import RECORDINGS, parse_recording
from support.requests import REQUESTS
from support.untrusted_agents import HELLO, listen_to_agent
from support.untrusted_samples import PARSERS, PROGRAM_OUTPUTS

# --- hypervisors

HYPERVISORS: dict[str, tuple[str, Callable[[], InstalledGuestDriver]]] = {
    **{f"{case.driver}-{case.guest}": (case.recording or case.driver, case.make) for case in CASES},
    "libvirt-xen": ("libvirt-others", lambda: CASES[0].make(guest="hvtest-lvxen", uri="xen:///system")),
    "libvirt-lxc": ("libvirt-others", lambda: CASES[0].make(guest="hvtest-lvlxc", uri="lxc:///system")),
    "command-regex": ("command", lambda: CommandDriver("pve", PROXMOX)),
    "command-json": ("command", lambda: CommandDriver("hv", HYPERV)),
}
"""Each with its recording, and what makes a driver."""

NEEDED_QUESTIONS = 4
LIMITS = Limits(group="g", cpu_shares=100, cpu_quota_ratio=0.5)
HYPERVISOR_WORDS = (
    " ",
    "  ",
    "\n",
    "\t",
    "-",
    "=",
    '"',
    "'",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "|",
    "0",
    "9" * 30,
    "running",
    "(null)",
    "02:00:00:00:0a:01",
    HOSTILE.encode("utf-8", "replace").decode(),
    "$ ",
    "\n[rc=1]\n",
    "\n2> ",
    " " * 200,
)


class AnsweringNode(Asking):
    """A node whose commands answer from the text of a recording; others fail."""

    name = "uut"

    def __init__(self, replies: dict[str, dict[str, Any]]) -> None:
        self._replies = replies

    async def request(self, op: str, args: dict[str, Any] | None = None, *, timeout_s: float = 30.0) -> dict[str, Any]:
        assert op == "exec" and args is not None, op
        command = shlex.join(args["argv"])
        for said, reply in self._replies.items():
            if said == command or (said.endswith(" …") and command.startswith(said[:-1])):
                return reply
        return {"exit_status": 1, "stdout": "", "stderr": "no such command", "truncated": False}


def hypervisor_seeds() -> Sequence[bytes]:
    """The name of a hypervisor, then its recording in one phase."""
    seeds = []
    for name, (recording, _) in HYPERVISORS.items():
        text = (RECORDINGS / f"{recording}.txt").read_text()
        begin, *phases = text.split("\n## ")
        seeds += [f"{name}\n{begin}\n{phase.partition(chr(10))[2]}\n".encode() for phase in phases or [""]]
    return seeds


def change_recording(data: st.DataObject, seed: bytes) -> bytes:
    """Other words in the answers; mostly below one command, as a recording is long."""
    name, _, text = seed.decode().partition("\n")
    parts = text.split("\n$ ")
    number = data.draw(st.integers(0, len(parts) - 1))
    parts[number] = changed_text(data, parts[number], HYPERVISOR_WORDS)
    changed = "\n$ ".join(parts)
    return f"{name}\n{changed}".encode("utf-8", "replace")


def question_driver(driver: InstalledGuestDriver, shell: Shell, guest: str) -> list[Awaitable[Any]]:
    """Everything that a driver asks, without waiting for a guest: first what no trial can do without."""
    return [
        driver.probe(shell),
        driver.guests(shell),
        driver.state(shell, guest),
        driver.nics(shell, guest),
        driver.facts(shell, guest),
        driver.pinning(shell, guest),
        driver.pid(shell, guest),
        driver.nics_to_be(shell, guest),
        driver.memory_word(shell, [guest]),
        driver.limit_settings(shell, guest, LIMITS),
    ]


def open_hypervisors(directory: Path) -> Read:
    """Asks a driver all its questions; the answers are in the input, as recordings have them."""

    def read(content: bytes) -> None:
        first, _, rest = content.partition(b"\n")
        name = first.decode("ascii", "replace")
        if name not in HYPERVISORS:
            name = list(HYPERVISORS)[sum(first) % len(HYPERVISORS)]
        driver = HYPERVISORS[name][1]()
        guest = driver.options.guest
        driver.planned = {guest: None}
        replies = parse_recording(rest.decode("utf-8", "replace"))
        answers = {command: reply for phase in replies.values() for command, reply in phase.items()}
        shell = Shell(cast("AgentLink", AnsweringNode(answers)), "p")

        async def converse() -> None:
            for number, question in enumerate(question_driver(driver, shell, guest)):
                try:
                    await question
                except NodeError as error:
                    assert len(str(error)) < 20_000 and not harmful(str(error)), str(error)[:200]
                    if number < NEEDED_QUESTIONS:
                        refused.append(error)

        refused: list[NodeError] = []
        asyncio.run(converse())
        if refused:
            raise refused[0]

    return read


# --- the wire

MESSAGES = Path(__file__).parents[2] / "tests" / "golden" / "agent-messages" / "messages.jsonl.gz"


def wire_seeds() -> Sequence[bytes]:
    """The shortest message of each kind: the kind and the operation, a line feed, the message."""
    shortest: dict[tuple[str, str], bytes] = {("hello", "hello"): b"hello hello\n" + HELLO}
    for line in map(json.loads, gzip.decompress(MESSAGES.read_bytes()).splitlines()):
        seed = f"{line['kind']} {line['op']}\n{json.dumps(line['message'])}".encode()
        key = (line["kind"], line["op"])
        shortest[key] = min(shortest.get(key, seed), seed, key=len)
    return list(shortest.values())


def change_message(data: st.DataObject, seed: bytes) -> bytes:
    """Another message under the same kind and operation."""
    head, _, message = seed.partition(b"\n")
    return head + b"\n" + change_json(data, message)


def read_request(op: str, message: dict[str, Any]) -> None:
    """A request as an agent reads it. Raises WireError."""
    kind: type[Request[Any]] | None = REQUESTS.get(op)
    if kind is not None:
        kind.parse(message.get("args", {}))


def open_wire(directory: Path) -> Read:
    """Gives a line to a session, to both decoders and to the reader of its kind."""

    def read(content: bytes) -> None:
        head, _, line = content.partition(b"\n")
        kind, _, op = head.decode("ascii", "replace").partition(" ")
        listen_to_agent([HELLO + b"\n", line + b"\n"])
        try:
            message = decode(line)
        except WireError as refusal:
            try:
                decode_line(line)
            except WireError as error:
                assert error.message == refusal.message
            else:
                raise AssertionError("only one of both decoders takes it") from refusal
            raise
        assert decode_line(line) == message
        if kind == "request":
            read_request(op, message)
        elif kind == "reply":
            kept_reply(op, message)
        elif kind == "hello":
            kept_hello(message)
        else:
            kept_event(message)

    return read


# --- what programs and the kernel print


def open_programs(directory: Path) -> Read:
    """Gives a text to every parser of programs' output on nodes. Refused: by more than half of them."""

    def read(content: bytes) -> None:
        text = content.decode("utf-8", "replace")
        refusals: list[ValueError] = []
        for parse in PARSERS:
            try:
                parse(text)
            except ValueError as error:
                refusals.append(error)
        if 2 * len(refusals) > len(PARSERS):
            raise refusals[0]

    return read


WORD_TARGETS = (
    Target(
        name="hypervisors",
        summary="answers of xl, virsh, VBoxManage, ESXi, OpenVZ, LXC, VServer, templates",
        load_seeds=hypervisor_seeds,
        open_reader=open_hypervisors,
        draw=change_recording,
        words=HYPERVISOR_WORDS,
    ),
    Target(
        name="wire",
        summary="lines between console and agents, both ways",
        load_seeds=wire_seeds,
        open_reader=open_wire,
        refusals=(WireError,),
        draw=change_message,
        words=JSON_WORDS,
    ),
    Target(
        name="programs",
        summary="output of tcpdump and pktgen, files of /proc",
        load_seeds=lambda: PROGRAM_OUTPUTS,
        open_reader=open_programs,
        refusals=(ValueError,),
        draw=mutated_bytes,
    ),
)
