"""Record what console and agents say to each other in real sessions on a lab: tests/golden/agent-messages.

    PYTHONPATH=.:tests python tools/record_agent_messages.py [--out FILE.jsonl.gz]        root, some six minutes

The messages are taken off the link in this process, where a request is made and where a reply or an event is checked,
and thrown away but for the first few of every shape: types and known words by key, with the digits in names left out.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import gzip
import json
import os
import re
import socket
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from labconsole.api.testbed import open_session
from labconsole.cli.main import main
from labconsole.engine.live.events import Phase, PhaseChanged
from labconsole.engine.testbed import Testbed
from labconsole.errors import AgentError, LabError
from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.model.design_point import DesignPoint, FrameSize
from labconsole.model.inventory import Inventory, load_inventory
from labconsole.nodes import channel as sessions
from labconsole.nodes import link as links
from labconsole.nodes.channel import read_event, read_hello, read_reply
from labconsole.store.open import open_store
from labconsole.wire.message import Request
from support.asking import asked
from support.kept_messages import kept_event, kept_hello, kept_reply

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "tests" / "golden" / "agent-messages" / "messages.jsonl.gz"
LAB = "messages"
WORDS = {
    "event",
    "op",
    "answer",
    "do",
    "code",
    "kind",
    "hook",
    "stopped_by",
    "generator",
    "family",
    "forwarding",
    "format",
}
"""Keys whose text is one of a few words, each of which makes a shape of its own."""

OF_A_SHAPE, MOST = 3, 60
"""Messages kept of one shape, and of one operation or event: some have keys that other software names."""

Message = dict[str, Any]


def kept(kind: str, op: str, message: Message) -> Message:
    """What the console keeps of a message, which is what its checks leave in place. Raises WireError."""
    if kind == "request":
        return message
    ways: dict[str, Callable[[Message], Message | None]] = {
        "hello": kept_hello,
        "event": kept_event,
        "reply": partial(kept_reply, op),
    }
    found = ways[kind](copy.deepcopy(message))
    return message if found is None else found


def shape(value: Any, key: str = "") -> str:
    """Types all the way down: a list by the shapes in it, keys without their digits."""
    if isinstance(value, dict):
        parts = {re.sub(r"[0-9a-f]*\d+", "#", name) + ":" + shape(item, name) for name, item in value.items()}
        return "{" + ",".join(sorted(parts)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(sorted({shape(item) for item in value})) + "]"
    if isinstance(value, str):
        return repr(value) if key in WORDS else "text" if value else "empty"
    if isinstance(value, int) and not isinstance(value, bool):
        return "negative" if value < 0 else "whole"
    return type(value).__name__


class Tap:
    """Stands where the link asks and checks, and keeps the first messages of every shape as they were."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], list[tuple[str, Message]]] = {}
        self.heard = 0
        ask = links.NodeLink.ask

        async def asking(link: links.NodeLink, request: Request[Any], **more: Any) -> Any:
            op = request.op
            asked = {"op": op, "args": request.arguments()}
            try:
                ok = await ask(link, request, **more)
            except AgentError as exc:
                self.keep("request", op, {**asked, "answer": exc.code})
                raise
            self.keep("request", op, {**asked, "answer": "ok"})
            return ok

        def reading_event(message: Message) -> Any:
            self.keep("event", str(message.get("event")), message)
            return read_event(message)

        def reading_reply(op: str, check: Any, message: Message) -> Any:
            self.keep("reply", op, message)
            return read_reply(op, check, message)

        def reading_hello(message: Message) -> Any:
            self.keep("hello", "", message)
            return read_hello(message)

        patched: Any = links
        patched.read_event, patched.read_reply = reading_event, reading_reply
        patched.NodeLink.ask = asking
        patched = sessions
        patched.read_hello = reading_hello

    def keep(self, kind: str, op: str, message: Message) -> None:
        self.heard += 1
        known, form = self.seen.setdefault((kind, op), []), shape(message)
        if len(known) < MOST and sum(form == each for each, _ in known) < OF_A_SHAPE:
            known.append((form, copy.deepcopy(message)))

    def write(self, out: Path, home: Path) -> None:
        """One object a line: ``kind``, ``op``, ``message``, and ``kept`` where that is not the message itself.

        Requests have ``answer`` instead: ok, or the code with which the agent refused.
        """
        lines = []
        for (kind, op), known in sorted(self.seen.items()):
            for _, heard in known:
                message = anonymous(heard, home)
                line = {"kind": kind, "op": op, "message": message}
                if kind == "request":
                    line["answer"] = message.pop("answer")
                if kind != "request" and (after := kept(kind, op, message)) != message:
                    line["kept"] = after
                lines.append(json.dumps(line, separators=(",", ":")) + "\n")
        out.write_bytes(gzip.compress("".join(lines).encode(), 9, mtime=0))
        print(f"{self.heard} messages heard, {len(lines)} kept, {out.stat().st_size} bytes")


def anonymous(message: Message, home: Path) -> Message:
    """The message without what this machine and its directories are called."""
    text = json.dumps(message)
    places = ((home, "/tmp/home"), (ROOT, "/opt/labconsole"), (sys.prefix, "/opt/venv"), (sys.base_prefix, "/usr"))
    for place, name in (*places, (Path.home(), "/home/op")):
        text = text.replace(str(place), name)
    text = re.sub(rf"(@|\"){re.escape(socket.gethostname())}\b", r"\1console", text)
    found: Message = json.loads(text)
    return found


def point(platform: str, duration_s: float = 0.3, **more: Any) -> DesignPoint:
    given = {"frame": FrameSize(64), "sources": 1, "target": 2_000_000, **more}
    return DesignPoint(platform=platform, duration_s=duration_s, **given)


async def sending(session: Testbed[Any], work: Awaitable[Any], then: Callable[[], Awaitable[Any]]) -> None:
    """Do ``then`` in the middle of the traffic of what ``work`` measures."""
    begun = asyncio.Event()

    def listen(event: object) -> None:
        if isinstance(event, PhaseChanged) and event.phase is Phase.SENDING:
            begun.set()

    unsubscribe = session.subscribe(listen)
    running = asyncio.ensure_future(work)
    await asyncio.wait({running, asyncio.ensure_future(begun.wait())}, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(0.3)
    try:
        await then()
    except LabError as exc:
        print(f"  {exc}")
    try:
        await running
    except LabError as exc:
        print(f"  {exc}")
    unsubscribe()


async def end_programs(node: str, program: str) -> None:
    """End a program of a node: of its own process namespace, where nobody else's are."""
    done = await asyncio.to_thread(lab.execute, LAB, node, ["sh", "-c", f"kill -9 $(pgrep {program})"])
    print(f"  ended {program} on {node}: {done.status}")


async def take_down(node: str, interface: str) -> None:
    """Take an interface down, and up again a little later."""
    await asyncio.to_thread(lab.execute, LAB, node, ["ip", "link", "set", interface, "down"])
    await asyncio.sleep(0.5)
    await asyncio.to_thread(lab.execute, LAB, node, ["ip", "link", "set", interface, "up"])


async def two_sessions(hosts: Path, directory: Path) -> None:
    """Inspection, a lease that is held and one that is taken over, an abort, programs that end by themselves."""
    inventory = load_inventory(hosts)
    with open_store(str(directory / "a.sqlite")) as store, open_store(str(directory / "b.sqlite")) as other:
        one, two = open_session(inventory, store), open_session(inventory, other)
        try:
            await one.connect()
            await two.connect()
            for node in inventory.nodes:
                await one.inspect(node)
                await one.inspect(node)
            long = point("raw", 4.0, sources=2)
            await sending(one, one.run(long), lambda: two.run(point("raw")))
            await sending(one, one.run(long), lambda: two.run(point("raw"), take_over=True))
            await sending(one, one.run(long), one.abort)
            await sending(one, one.run(long), lambda: end_programs("snk1", "tcpdump"))
            await sending(one, one.run(long), lambda: take_down("src1", "eth1"))
            await sending(one, one.run(long), lambda: take_down("uut", "eth5"))
            await sending(one, one.run(point("uml", 4.0)), lambda: end_programs("uut", "linux"))
        finally:
            await two.close()
            await one.close()


REFUSED: tuple[tuple[str, Message], ...] = (
    ("no.such", {}),
    ("generator.wait", {}),
    ("generator.start", {"at_monotonic_ns": None, "progress_interval_s": 0.1}),
    ("generator.prepare", {"streams": [{"stream": "s1"}]}),
    ("generator.prepare", {"streams": "s1"}),
    ("capture.drain", {"capture": "none"}),
    ("capture.stop", {"capture": "none"}),
    (
        "capture.start",
        {
            "capture": "c",
            "interface": "eth99",
            "filter": "udp",
            "snap_bytes": 64,
            "buffer_kib": 1024,
            "directory": None,
            "expected_packets": 10,
        },
    ),
    (
        "capture.start",
        {
            "capture": "c",
            "interface": "eth1",
            "filter": "no filter",
            "snap_bytes": 64,
            "buffer_kib": 1024,
            "directory": None,
            "expected_packets": 10,
        },
    ),
    (
        "capture.start",
        {
            "capture": "c",
            "interface": "eth1",
            "filter": "udp",
            "snap_bytes": 64,
            "buffer_kib": 1024,
            "directory": "/nonexistent",
            "expected_packets": 10,
        },
    ),
    ("counters.start", {"interval_s": "soon"}),
    ("guest.ask", {"guest": "none", "line": "", "until": "x", "timeout_s": 1}),
    ("guest.ask_all", {"asked": [{"guest": "none", "line": ""}], "until": "x", "timeout_s": 1}),
    ("guest.status", {"guest": "none"}),
    ("guest.start", {"guest": "g", "argv": ["/bin/false"], "ready": "never", "timeout_s": 5}),
    ("guest.start", {"guest": "g", "argv": ["/bin/cat"], "ready": "never", "timeout_s": 0.2}),
    ("exec", {"argv": ["/nonexistent"], "timeout_s": 1, "stdin": None, "namespace": ""}),
    ("exec", {"argv": ["sleep", "5"], "timeout_s": 0.1, "stdin": None, "namespace": ""}),
    (
        "exec",
        {
            "argv": ["sh", "-c", "printf '\\033[1mbold\\a\\n'; echo oops >&2; exit 3"],
            "timeout_s": 5,
            "stdin": "x",
            "namespace": "",
        },
    ),
    ("exec", {"argv": ["true"], "timeout_s": 1, "stdin": None, "namespace": "none"}),
    ("net.apply", {"token": "t", "changes": [{"do": "link_up", "interface": "eth99", "namespace": ""}]}),
    ("net.apply", {"token": "t", "changes": [{"do": "nothing"}]}),
    ("net.apply", {"token": "t", "changes": [{"do": "sysctl", "name": "net.no.such", "value": "1", "namespace": ""}]}),
    ("net.apply", {"token": "t", "changes": [{"do": "tap", "name": "eth1"}]}),
    (
        "net.apply",
        {
            "token": "t",
            "changes": [
                {"do": "address", "address": "198.18.5.1/24", "interface": "eth1", "namespace": ""},
                {"do": "tap", "name": "lcti9"},
                {"do": "link_up", "interface": "lcti9", "namespace": ""},
            ],
        },
    ),
    ("net.read", {"sysctls": ["net.ipv4.ip_forward", "net.no.such"], "routes": True, "neighbours": True}),
    ("net.undo", {"token": None}),
    ("process.usage", {"pids": [1, 4_000_000]}),
    ("marks.start", {"marks": "m", "interface": "lo", "address": "198.18.127.1"}),
    ("marks.stop", {"marks": "m"}),
    ("marks.stop", {"marks": "m"}),
    ("lease.read", {}),
    ("watchdog", {"silence_s": 0}),
    ("watchdog", {"silence_s": None}),
    ("counters.stop", {}),
    ("counters.read", {}),
    ("clean", {}),
)
"""What a console does not ask as a rule, and what an agent refuses."""


async def ask_one(inventory: Inventory) -> None:
    """One link without a session: refusals, and a line that is not of the protocol."""
    link = await links.connect("uut", inventory, lambda node, event: None)
    try:
        for op, args in REFUSED:
            try:
                await asked(link, op, args)
            except AgentError as exc:
                print(f"  {op}: {exc.code}")
        link._write(b"not a request\n", "")
        await asked(link, "ping")
    finally:
        await link.close()


PLAN = """\
plan: messages
platforms: [raw, raw-bridge, container]
frame_sizes: [64]
targets: [2Mbit, max]
include:
  - {platform: container, frame_size: 64, target: 2Mbit, background: [idle, light, heavy, forwarding-50]}
duration_s: 0.3
set_ups: 1
warm_up: {duration_s: 0.2}
"""


SPEC = LabSpec(name=LAB, sources=3, loss={"uut/out": 0.02}, platforms=("raw", "raw-bridge", "container", "lxc", "uml"))


def record(tap: Tap, home: Path) -> None:
    """Everything, on a lab of its own."""
    status = lab.up(SPEC)
    try:
        hosts, store, plan = str(status.hosts_file), str(home / "runs.sqlite"), home / "plan.yaml"
        plan.write_text(PLAN)
        where = ["--hosts", hosts, "--store", store]
        short = ["--trial-duration", "0.2", "--duration-sum", "0.2", "--width", "0.5"]
        for words in (
            ["check", *where],
            ["check", "--fix", "--plan", str(plan), *where],
            ["calibrate", "--frame-size", "64", "--duration", "0.3", "--time-limit", "5", *where],
            ["replay", str(plan), "--json", *where],
            ["run", "--platform", "raw", "--sources", "3", "--target", "max", "--duration", "0.5", *where],
            ["run", "--platform", "raw", "--observe", "live", "--target", "5Mbit", "--duration", "1", *where],
            ["run", "--platform", "lxc", "--target", "2Mbit", "--duration", "0.5", "--background", "light", *where],
            ["run", "--platform", "uml", "--target", "1Mbit", "--duration", "0.5", "--background", "light", *where],
            [
                "search",
                "--goals",
                "pdr-5%,back-to-back,latency",
                "--repetitions",
                "1",
                "--max-trials",
                "9",
                *short,
                *where,
            ],
            [
                "experiment",
                "job",
                "--platforms",
                "raw,container,uml",
                "--jobs",
                "wait",
                "--size",
                "2",
                "--guests",
                "3",
                "--working",
                "all,one-two",
                *where,
            ],
        ):
            print(words[:4], tap.heard, flush=True)
            print("  exit status", main(words), flush=True)
        for work in (two_sessions(Path(hosts), home), ask_one(load_inventory(Path(hosts)))):
            try:
                asyncio.run(work)
            except Exception:
                traceback.print_exc()
    finally:
        lab.down(LAB)


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT)
    out: Path = parser.parse_args().out
    with tempfile.TemporaryDirectory(prefix="messages-") as name:
        home = Path(name)
        for variable in ("XDG_STATE_HOME", "XDG_DATA_HOME"):
            os.environ[variable] = str(home / variable.lower())
        tap = Tap()
        try:
            record(tap, home)
        finally:
            tap.write(out, home)


if __name__ == "__main__":
    run()
