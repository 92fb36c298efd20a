"""A running agent under fire from its own console's side, and what a real run leaves of a secret: nothing."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labconsole.lab import commands as lab
from labconsole.lab.spec import LabSpec
from labconsole.wire.codec import WireError
from support.agent_process import AgentProcess, Net
from support.fuzzing import JSON, TEXT, tries  # noqa: E402
from support.kept_messages import kept_event, kept_reply  # noqa: E402
from support.live_lab import COMMAND
from support.ssh_servers import World, ssh_agent

OPERATIONS = {
    "ping": {},
    "facts": {},
    "links": {},
    "settings": {"namespace": ""},
    "survey": {"capture_directory": "/nowhere", "tools": ["x"]},
    "clean": {"capture_directory": "/nowhere"},
    "listen.start": {"interfaces": ["d0"]},
    "listen.read": {},
    "listen.stop": {},
    "lease.read": {},
    "lease.take": {"owner": "o", "purpose": "p"},
    "lease.release": {},
    "counters.read": {},
    "counters.start": {"interval_s": 0.5},
    "counters.stop": {},
    "counters.quiet": {"on": False},
    "drops.read": {"interfaces": ["d0"]},
    "surroundings": {"begin": True},
    "generator.wait": {},
    "generator.stop": {},
    "generator.prepare": {"streams": [{"stream": "s", "interface": "d0"}]},
    "generator.start": {},
    "generator.close": {},
    "capture.start": {"capture": "c", "interface": "d0", "filter": "udp", "snap_bytes": 96, "buffer_kib": 64},
    "capture.drain": {"capture": "c"},
    "capture.stop": {"capture": "c"},
    "net.apply": {"token": "t", "changes": [{"do": "x"}]},
    "net.undo": {"token": "t"},
    "net.read": {"sysctls": ["net.ipv4.ip_forward"], "routes": True},
    "exec": {"argv": ["/nowhere/x"], "timeout_s": 1, "stdin": ""},
}
NEVER = {"argv"}
"""What would run programs if it were changed to something that exists."""


@pytest.fixture(scope="module")
def agent() -> Iterator[AgentProcess]:
    net = Net()
    made = AgentProcess(net)
    yield made
    made.close()
    net.close()


@tries(300)
@given(st.data())
def test_whatever_is_asked_of_an_agent_it_answers_in_its_own_words(agent: AgentProcess, data: st.DataObject) -> None:
    op = data.draw(st.sampled_from(sorted(OPERATIONS)))
    args: Any = json.loads(json.dumps(OPERATIONS[op]))
    changed = [key for key in args if key not in NEVER]
    if bool(changed) and data.draw(st.booleans()):
        args[data.draw(st.sampled_from(changed))] = data.draw(JSON)
    elif data.draw(st.integers(0, 9)) == 0:
        args = data.draw(JSON)
    agent._number += 1
    try:
        line = json.dumps({"id": agent._number, "op": op, "args": args}, allow_nan=False).encode()
    except ValueError:
        return  # no JSON: refused as a line, by the next test
    agent.write(line + b"\n")
    message = agent.reply(agent._number)
    assert message.get("error", {}).get("code") != "internal", (op, args, message)
    kept_reply(op, message)
    while agent.events:
        event = agent.events.pop()
        assert event.get("code") != "internal", event
        kept_event(event)


@tries(100)
@given(
    st.one_of(
        st.binary(max_size=80),
        JSON.map(lambda value: json.dumps({"id": value, "op": "x"}).encode()),
        TEXT.map(lambda text: text.encode("utf-8", "replace")),
    )
)
def test_a_line_that_is_no_request_is_told_and_the_next_one_is_answered(agent: AgentProcess, line: bytes) -> None:
    agent.write(line.replace(b"\n", b" ") + b"\n")
    assert "monotonic_ns" in agent.ok("ping")
    try:
        for event in agent.events:
            if "event" in event:
                kept_event(event)
    except WireError as error:
        pytest.fail(error.message)
    agent.events.clear()


# --- secrets

PLANTED = "correct-horse-battery-7f3a9c"


def process_words() -> str:
    """The command line of every process, and the environment of every agent."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes()
            if PLANTED.encode() in line:  # caught within execve, a process may show its environment for an instant
                time.sleep(0.1)
                line = (entry / "cmdline").read_bytes()
            found.append(line)
            if b"labconsole-agent" in line:
                found.append((entry / "environ").read_bytes())
        except OSError:
            continue
    return b"\n".join(found).decode("utf-8", "replace")


@pytest.mark.asyncio
async def test_a_passphrase_and_a_key_are_nowhere_after_a_real_run(lab_home: Path, tmp_path: Path) -> None:
    name = f"secret{os.getpid()}"
    world = World.make(tmp_path / "world")
    testbed = await asyncio.to_thread(lab.up, LabSpec(name=name, sources=1))
    try:
        mine = tmp_path / "mine"
        mine.mkdir()
        plain_key = (testbed.directory / "id_ed25519").read_text()
        key = asyncssh.import_private_key(plain_key)
        key.write_private_key(str(mine / "key"), passphrase=PLANTED)
        key.write_public_key(str(mine / "key.pub"))
        (mine / "key").chmod(0o600)
        config = testbed.ssh_config.read_text().replace(str(testbed.directory / "id_ed25519"), str(mine / "key"))
        (mine / "config").write_text(config.replace("    IdentityAgent none\n", ""))
        hosts = mine / "hosts.yaml"
        hosts.write_text(testbed.hosts_file.read_text().replace(str(testbed.ssh_config), str(mine / "config")))
        async with ssh_agent(world, mine / "key", PLANTED) as agent_socket:
            (world.directory / "askpass").unlink()
            environment = {**os.environ, "SSH_AUTH_SOCK": agent_socket, "SSHPASS": PLANTED, "LC_PLANTED": PLANTED}
            said, seen = await _run(
                [
                    "run",
                    "--duration",
                    "1",
                    "--json",
                    "-v",
                    "--hosts",
                    str(hosts),
                    "--store",
                    str(tmp_path / "runs" / "runs.sqlite"),
                ],
                environment,
                tmp_path,
            )
        record = json.loads(said[0])
        assert record["total"]["measured_packets"] > 0
        del environment["SSH_AUTH_SOCK"]
        refused, _ = await _run(
            ["run", "--duration", "1", "--hosts", str(hosts), "--store", str(tmp_path / "x.sqlite")],
            environment,
            tmp_path,
        )
        assert "has a passphrase" in refused[1]
        left = tmp_path / "left"
        shutil.copytree(testbed.directory, left, ignore=shutil.ignore_patterns("id_ed25519", "control"))
    finally:
        await asyncio.to_thread(lab.down, name)
    assert "labconsole-agent" in seen, "no agent was looked at"
    secrets = [PLANTED, *[line for line in plain_key.splitlines() if len(line) > 40 and "PRIVATE" not in line]]
    files = [
        path
        for place in (tmp_path, lab_home)
        for path in place.rglob("*")
        if path.is_file() and mine not in path.parents
    ]
    assert any(path.name == "runs.sqlite" for path in files) and any(path.parent == left for path in files)
    for secret in secrets:
        assert secret not in seen
        for text in (*said, *refused):
            assert secret not in text
        for path in files:
            if path.parent != world.directory:
                assert secret.encode() not in path.read_bytes(), path


async def _run(words: list[str], environment: dict[str, str], directory: Path) -> tuple[tuple[str, str], str]:
    """(stdout and stderr of the command, what was to be seen of processes while it ran)."""
    (directory / "runs").mkdir(exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    waiting = asyncio.ensure_future(process.communicate())
    seen = []
    while not waiting.done():
        seen.append(process_words())
        await asyncio.wait([waiting], timeout=0.3)
    out, err = waiting.result()
    return (out.decode(), err.decode()), "\n".join(seen)
