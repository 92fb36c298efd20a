"""Logging in and starting an agent: configuration, host keys, keys, jumps, and every way in which it can fail."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest
import pytest_asyncio

from labconsole.errors import CapabilityMissing, NodeUnreachable
from labconsole.nodes import link, ssh_connection
from labconsole.nodes.link import connect
from labconsole.nodes.ssh_route import CLIENT, shell_argv
from support.asking import asked
from support.requirements import old_python
from support.ssh_servers import (
    HOST,
    PYTHON,
    SERVERS,
    USER,
    Server,
    World,
    free_port,
    openssh_accepts,
    require,
    ssh_agent,
    start_with,
)

pytestmark = pytest.mark.asyncio

REAL_PROGRAM = link.program


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World.make(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    start_with(world, monkeypatch)
    return world


@pytest_asyncio.fixture(params=list(SERVERS))
async def server(request: pytest.FixtureRequest, world: World) -> AsyncIterator[Server]:
    server = SERVERS[request.param](world)
    await server.start()
    yield server
    await server.stop()


async def log_in(world: World, nodes: dict[str, dict[str, Any]], name: str = "uut", **defaults: Any) -> None:
    async with asyncio.timeout(30):
        node = await connect(name, world.inventory(nodes, **defaults), lambda *_: None)
        await asked(node, "echo", {})
        await node.close()


async def refused(
    world: World, nodes: dict[str, dict[str, Any]], error: type[Exception] = NodeUnreachable, **defaults: Any
) -> str:
    with pytest.raises(error) as caught:
        await log_in(world, nodes, **defaults)
    await world.agents_gone()
    assert str(caught.value).isprintable()
    return str(caught.value)


def at(server: Server, **node: Any) -> dict[str, dict[str, Any]]:
    return {"uut": {"address": HOST, "port": server.port, **node}}


# --- host keys ---------------------------------------------------------------------------------------------------


async def test_an_unknown_host_key_is_refused_with_its_fingerprint_and_the_command_that_accepts_it(
    world: World, server: Server
) -> None:
    told = await refused(world, at(server))
    where = f"[{HOST}]:{server.port}"
    fingerprint = asyncssh.read_public_key(world.directory / "host.pub").get_fingerprint()
    assert f"the host key of {where} is not in any known_hosts file (it showed ssh-ed25519 {fingerprint})" in told
    assert f"accept it once by: {' '.join(CLIENT)} -F {world.directory}/ssh_config -p {server.port} -- {HOST}" in told
    assert (world.directory / "known_hosts").read_text() == ""


async def test_a_changed_host_key_is_refused_with_the_line_and_the_command_that_removes_it(
    world: World, server: Server
) -> None:
    world.key("other")
    (world.directory / "known_hosts").write_text("# mine\n\n")
    world.trust(server, key="other")
    told = await refused(world, at(server))
    known = world.directory / "known_hosts"
    assert f"is not the one in {known} line 3 (it showed ssh-ed25519 SHA256:" in told
    assert f"ssh-keygen -R '[{HOST}]:{server.port}' -f {known}" in told


async def test_a_host_without_a_key_of_the_known_type_counts_as_changed(world: World, server: Server) -> None:
    world.key("other", algorithm="ecdsa-sha2-nistp256")
    world.trust(server, key="other")
    assert "line 1" in await refused(world, at(server))


async def test_a_revoked_host_key_is_refused(world: World, server: Server) -> None:
    world.trust(server)
    known = world.directory / "known_hosts"
    known.write_text(known.read_text() + "@revoked " + known.read_text())
    assert "revoked" in await refused(world, at(server))


async def test_no_setting_of_ssh_config_turns_checking_off(world: World, server: Server) -> None:
    for setting in ("UserKnownHostsFile none", "UserKnownHostsFile /dev/null", "StrictHostKeyChecking no"):
        world.config(f"Host *\n  {setting}\n")
        assert "is not in any known_hosts file" in await refused(world, at(server))


async def test_known_hosts_of_the_inventory_wins_and_hashed_names_count(world: World, server: Server) -> None:
    elsewhere = world.directory / "lab_known_hosts"
    world.trust(server)
    (world.directory / "known_hosts").rename(elsewhere)
    assert "not in any known_hosts" in await refused(world, at(server))
    process = await asyncio.create_subprocess_exec(
        require("ssh-keygen"),
        "-q",
        "-H",
        "-f",
        str(elsewhere),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert await process.wait() == 0
    await log_in(world, at(server), known_hosts=str(elsewhere))


async def test_a_host_certificate_of_a_trusted_authority_is_accepted(world: World) -> None:
    world.key("authority")
    authority = asyncssh.read_private_key(world.directory / "authority")
    host = world.key("host")
    certificate = authority.generate_host_certificate(asyncssh.read_public_key(f"{host}.pub"), "h", principals=[HOST])
    certificate.write_certificate(f"{host}-cert.pub")
    server = SERVERS["asyncssh"](world)
    await server.start()
    public = (world.directory / "authority.pub").read_text()
    (world.directory / "known_hosts").write_text(f"@cert-authority [{HOST}]:{server.port} {public}")
    await log_in(world, at(server))
    await server.stop()


# --- known_hosts as OpenSSH reads it: each case on both servers, and what ssh itself says -------------------------


KNOWN_HOSTS: dict[str, tuple[str, str, str | None]] = {
    # lines with {at}, {key}, {other}; further ssh_config; None for accepted, or a part of the refusal
    "a line with one field": ("{at}\n{at} {key}", "", None),
    "an unknown marker": ("@nonsense {at} {key}\n{at} {key}", "", None),
    "a hashed name that is none": ("|1|x {key}\n|2|a|b {key}\n{at} {key}", "", None),
    "a key that is none": ("{at} ssh-ed25519 AAAAnonsense\n{at} {key}", "", None),
    "only a bad line": ("{at} ssh-ed25519 AAAAnonsense", "", "known_hosts line 1 cannot be read and is ignored"),
    "revoked before": ("@revoked * {key}\n{at} {key}", "", "revoked"),
    "revoked after, by a pattern": ("{at} {key}\n@revoked [127.0.0.?]:* {key}", "", "revoked"),
    "known without the port": ("127.0.0.1 {key}", "", None),
    "known otherwise with the port": ("127.0.0.1 {key}\n{at} {other}", "", "is not the one in"),
    "another key of the host revoked": ("@revoked * {other}\n{at} {key}", "", None),
    "an alias": ("lab {key}", "HostKeyAlias LAB", None),
    "an alias, in capitals there": ("LAB {key}", "HostKeyAlias lab", None),
    "an alias, hashed": (
        "|1|AAECAwQFBgcICQoLDA0ODxAREhM=|i6h71cgafVwMLqfmjP/cnauu+qM= {key}",
        "HostKeyAlias LAB",
        None,
    ),
    "an alias has no port": ("[lab]:{port} {key}", "HostKeyAlias lab", "not in any known_hosts file"),
    "an alias, but the address is known": ("{at} {key}", "HostKeyAlias lab", "not in any known_hosts file"),
    "negation": ("[127.*]:*,!{at} {key}", "", "not in any known_hosts file"),
    "upper case and brackets in a pattern": ("[LAB]*,[127.0.0.1]:* {key}", "", None),
    "a file named by a token": ("", "UserKnownHostsFile {directory}/by-%p", None),
    "RevokedHostKeys": ("{at} {key}", "RevokedHostKeys {directory}/revoked", "revoked"),
}


@pytest.mark.parametrize("case", KNOWN_HOSTS)
async def test_known_hosts_as_openssh_reads_them(world: World, case: str) -> None:
    server = SERVERS["sshd"](world)
    await server.start()
    world.key("other")
    key, other = ((world.directory / f"{name}.pub").read_text().strip() for name in ("host", "other"))
    at_port = f"[{HOST}]:{server.port}"
    lines, setting, expected = KNOWN_HOSTS[case]
    text = lines.format(at=at_port, key=key, other=other, port=server.port)
    (world.directory / "known_hosts").write_text(text + "\n")
    (world.directory / f"by-{server.port}").write_text(f"{at_port} {key}\n")
    (world.directory / "revoked").write_text(f"# lost\n{key}\n")
    world.config(setting.format(directory=world.directory))
    assert await openssh_accepts(world, server) == (expected is None)
    if expected is None:
        await log_in(world, at(server))
    else:
        assert expected in await refused(world, at(server))
    await server.stop()


async def test_a_key_known_for_the_address_does_not_pass_for_the_name(world: World, server: Server) -> None:
    """OpenSSH refuses the key, too: another one is known for the name."""
    world.key("other")
    world.trust(server, "localhost", key="other")
    world.trust(server, HOST)
    nodes = {"uut": {"address": "localhost", "port": server.port}}
    assert f"the host key of [localhost]:{server.port} is not the one in" in await refused(world, nodes)


@pytest.mark.parametrize("revoked", ["authority", "host"])
async def test_a_certificate_of_a_revoked_authority_or_key_is_refused(world: World, revoked: str) -> None:
    """With a real sshd that shows the certificate. OpenSSH's client refuses it, too."""
    world.key("authority")
    authority, host = asyncssh.read_private_key(world.directory / "authority"), world.key("host")
    certificate = authority.generate_host_certificate(asyncssh.read_public_key(f"{host}.pub"), "h", principals=[HOST])
    certificate.write_certificate(f"{host}-cert.pub")
    server = SERVERS["sshd"](world)
    await server.start()
    known = world.directory / "known_hosts"
    known.write_text(f"@cert-authority [{HOST}]:* {(world.directory / 'authority.pub').read_text()}")
    await log_in(world, at(server))
    with known.open("a") as file:
        file.write(f"@revoked * {(world.directory / f'{revoked}.pub').read_text()}")
    assert not await openssh_accepts(world, server)
    assert "is marked as revoked" in await refused(world, at(server))
    await server.stop()


async def test_a_bad_line_is_named_once_in_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    server = SERVERS["asyncssh"](world)
    await server.start()
    (world.directory / "known_hosts").write_text("# mine\nnonsense\n")
    world.trust(server)
    for _ in range(2):
        await log_in(world, at(server))
    told = "known_hosts line 2 cannot be read and is ignored: fields are missing; allowed: [marker] names key-type key"
    assert [told in record.getMessage() for record in caplog.records].count(True) == 1
    await server.stop()


async def test_a_node_gets_neither_environment_nor_display(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    server = SERVERS["asyncssh"](world)
    await server.start()
    world.trust(server)
    monkeypatch.setenv("SECRET_CANARY", "canary")
    world.config("SendEnv SECRET_*\nSetEnv A=b\nForwardX11 yes\nForwardX11Trusted yes\nForwardAgent yes\n")
    seen: list[tuple[Any, ...]] = []
    run = server._run  # type: ignore[attr-defined]

    async def observe(process: asyncssh.SSHServerProcess[bytes]) -> None:
        seen.append((dict(process.env), process.channel.get_x11_display(), process.channel.get_agent_path()))
        await run(process)

    monkeypatch.setattr(server, "_acceptor", server._acceptor)  # type: ignore[attr-defined]
    server._acceptor.update(process_factory=observe)  # type: ignore[attr-defined]
    await log_in(world, at(server))
    assert seen and all(row == ({}, None, None) for row in seen)
    await server.stop()


async def test_nothing_that_a_node_sends_is_unpacked_whatever_ssh_config_says(world: World) -> None:
    server = SERVERS["asyncssh"](world)
    await server.start()
    world.trust(server)
    world.config("Compression yes\n")
    server._acceptor.update(compression_algs="zlib@openssh.com,zlib,none")  # type: ignore[attr-defined]
    await log_in(world, at(server))
    (connection,) = server.connections  # type: ignore[attr-defined]
    assert {connection.get_extra_info(f"{way}_compression") for way in ("send", "recv")} == {"none"}
    server._acceptor.update(compression_algs="zlib@openssh.com,zlib")  # type: ignore[attr-defined]
    assert "compression" in await refused(world, at(server))
    await server.stop()


async def test_a_proxy_command_runs_in_a_shell_with_its_tokens(world: World, server: Server) -> None:
    world.trust(server, "lab")
    relay = f'{PYTHON} {world.directory}/relay.py %p "for %n" # by way of a relay'
    (world.directory / "relay.py").write_text(
        "import os, socket, sys, threading\n"
        f"s = socket.create_connection(('{HOST}', int(sys.argv[1]))); assert sys.argv[2] == 'for lab'\n"
        "def pump(read, write):\n    while data := read(65536): write(data)\n    os._exit(0)\n"
        "threading.Thread(target=pump, args=(s.recv, lambda d: os.write(1, d))).start()\n"
        "pump(lambda n: os.read(0, n), s.sendall)\n"
    )
    world.config(f"ProxyCommand {relay}\n")
    await log_in(world, {"uut": {"address": "lab", "port": server.port}})


# --- user keys ---------------------------------------------------------------------------------------------------


async def test_a_refused_key_is_told_with_user_host_and_what_was_tried(world: World, server: Server) -> None:
    world.trust(server)
    stranger = world.key("stranger")
    told = await refused(world, at(server, key=str(stranger)))
    assert f"uut: {USER}@{HOST}:{server.port} refused the login; tried: {stranger}" in told


async def test_a_key_of_the_inventory_wins_over_ssh_config(world: World, server: Server) -> None:
    world.trust(server)
    world.key("mine")
    world.authorize("mine")
    await refused(world, at(server))
    await log_in(world, at(server, key=str(world.directory / "mine")))


async def test_a_key_that_is_not_there_is_told_by_its_place_in_the_inventory(world: World, server: Server) -> None:
    world.trust(server)
    told = await refused(world, at(server, key="/nowhere/id"))
    assert "the key /nowhere/id (nodes.uut.key in hosts.yaml) does not exist" in told


async def test_a_key_with_a_passphrase_is_not_asked_for_but_used_from_an_agent(
    world: World, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.trust(server)
    locked = world.key("locked", passphrase="correct horse")
    world.authorize("locked")
    told = await refused(world, at(server, key=str(locked)))
    assert f"{locked} has a passphrase, and labconsole does not prompt for it: run ssh-add {locked}" in told
    async with ssh_agent(world, locked, "correct horse") as sock:
        monkeypatch.setenv("SSH_AUTH_SOCK", sock)
        await log_in(world, at(server, key=str(locked)))


async def test_an_ssh_agent_alone_is_enough(world: World, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    world.trust(server)
    world.config("", key=None)
    async with ssh_agent(world, world.directory / "client") as sock:
        await refused(world, at(server))
        monkeypatch.setenv("SSH_AUTH_SOCK", sock)
        await log_in(world, at(server))


async def test_a_user_certificate_beside_the_key_is_used(world: World, server: Server) -> None:
    world.trust(server)
    world.key("authority")
    world.authorize("authority", "cert-authority")
    await refused(world, at(server))
    authority = asyncssh.read_private_key(world.directory / "authority")
    public = asyncssh.read_public_key(world.directory / "client.pub")
    certificate = authority.generate_user_certificate(public, "c", principals=[USER])
    certificate.write_certificate(str(world.directory / "client-cert.pub"))
    await log_in(world, at(server))


async def test_keys_that_ssh_config_names_and_that_are_absent_are_passed_over(world: World, server: Server) -> None:
    world.trust(server)
    world.config("Host *\n  IdentityFile ~/.ssh/id_absent\n")
    await log_in(world, at(server))


# --- configuration -----------------------------------------------------------------------------------------------


async def test_an_alias_in_an_included_file_gives_host_port_and_user(world: World, server: Server) -> None:
    world.trust(server)
    included = world.directory / "conf.d" / "lab.conf"
    included.parent.mkdir()
    included.write_text(f"Host src*\n  HostName {HOST}\n  Port {server.port}\n  User {USER}\n  RequestTTY force\n")
    world.config(f"Include {included.parent}/*.conf\n")
    await log_in(world, {"uut": {"address": "src1"}})


async def test_a_missing_ssh_config_asks_whether_the_lab_is_up(world: World) -> None:
    told = await refused(world, {"uut": {"address": HOST}}, ssh_config="/nowhere/config")
    assert "/nowhere/config" in told and "does not exist: is the lab up? (run `labconsole lab up`)" in told


async def test_a_broken_ssh_config_is_told_with_its_line(world: World) -> None:
    world.config("Host *\n  Port lots\n")
    told = await refused(world, {"uut": {"address": HOST}})
    assert "ssh_config line 2: Bad port 'lots'; allowed: 1 to 65535" in told


async def test_nobody_listening_and_no_such_name_are_told_with_host_and_port(world: World) -> None:
    port = free_port()
    assert f"{HOST}:{port} refuses connections" in await refused(world, {"uut": {"address": HOST, "port": port}})
    told = await refused(world, {"uut": {"address": "no-such-host.invalid"}})
    assert "no-such-host.invalid:22: the host name no-such-host.invalid is unknown" in told


async def test_a_server_that_says_nothing_is_given_up_after_the_configured_time(world: World) -> None:
    with socket.create_server((HOST, 0)) as listening:  # the kernel accepts, nobody answers
        port = listening.getsockname()[1]
        told = await refused(world, {"uut": {"address": HOST, "port": port}}, connect_timeout_s=0.3)
    assert told == f"uut: {HOST}:{port} did not answer within 0.3 s"


async def test_a_server_that_drops_logins_at_random_is_tried_again(world: World, server: Server) -> None:
    world.trust(server)
    drops = 2

    async def moody(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal drops
        drops -= 1
        if drops >= 0:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(HOST, server.port)
        async with asyncio.TaskGroup() as group:
            group.create_task(pump(reader, back))
            group.create_task(pump(there, writer))

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except OSError:
            pass
        writer.transport.abort()

    listening = await asyncio.start_server(moody, HOST, 0)
    port = listening.sockets[0].getsockname()[1]
    with (world.directory / "known_hosts").open("a") as file:
        file.write(f"[{HOST}]:{port} {(world.directory / 'host.pub').read_text()}")
    await log_in(world, {"uut": {"address": HOST, "port": port}})
    drops = 10
    told = await refused(world, {"uut": {"address": HOST, "port": port}})
    assert "closed the connection during login, 3 times" in told
    listening.close()


# --- jumps -------------------------------------------------------------------------------------------------------


@pytest_asyncio.fixture
async def gateway(world: World, server: Server) -> AsyncIterator[Server]:
    gateway = type(server)(world, "gateway_host")
    await gateway.start()
    yield gateway
    await gateway.stop()


@pytest.mark.parametrize("how", ["ssh_config", "node", "host"])
async def test_a_jump_is_logged_in_to_once_for_all_its_targets(
    world: World, server: Server, gateway: Server, how: str
) -> None:
    world.trust(server)
    world.trust(gateway)
    nodes: dict[str, dict[str, Any]] = {f"n{n}": {"address": HOST, "port": server.port} for n in range(6)}
    if how == "ssh_config":
        world.config(
            f"Host n*\n  HostName {HOST}\n  Port {server.port}\n  ProxyJump gw\n"
            f"Host gw\n  HostName {HOST}\n  Port {gateway.port}\n"
        )
        nodes = {name: {"address": name} for name in nodes}
    elif how == "node":
        nodes = {name: {**node, "jump": "gw"} for name, node in nodes.items()}
        nodes["gw"] = {"address": HOST, "port": gateway.port}
    else:
        nodes = {name: {**node, "jump": f"{USER}@{HOST}:{gateway.port}"} for name, node in nodes.items()}
    inventory = world.inventory(nodes)
    async with asyncio.timeout(30):
        opened = await asyncio.gather(*(connect(f"n{n}", inventory, lambda *_: None) for n in range(6)))
        assert (gateway.logins(), server.logins()) == (1, 6)
        await opened[0].close()
        assert await asked(opened[1], "echo", {"n": 1}) == {"n": 1}
        await asyncio.gather(*(node.close() for node in opened))
        await world.agents_gone()
        again = await connect("n0", inventory, lambda *_: None)
        assert gateway.logins() == 2
        gateway.cut()
        assert "connection was lost" in await again.wait_lost()
        await again.close()


async def test_a_jump_that_cannot_be_opened_fails_all_behind_it_at_once(world: World, server: Server) -> None:
    port = free_port()
    nodes = {f"n{n}": {"address": HOST, "port": server.port, "jump": f"{USER}@{HOST}:{port}"} for n in range(5)}
    inventory = world.inventory(nodes)
    tries = (connect(name, inventory, lambda *_: None) for name in nodes)
    for name, failed in zip(nodes, await asyncio.gather(*tries, return_exceptions=True), strict=True):
        assert isinstance(failed, NodeUnreachable)
        assert f"{name}: jump host {HOST}: {HOST}:{port} refuses connections" in str(failed)


async def test_a_target_that_its_jump_cannot_reach_is_told(world: World, server: Server) -> None:
    world.trust(server)
    port = free_port()
    nodes = {"uut": {"address": HOST, "port": port, "jump": f"{USER}@{HOST}:{server.port}"}}
    assert f"the jump host cannot reach {HOST}:{port}" in await refused(world, nodes)


async def test_the_first_of_many_behind_a_jump_may_be_cancelled(
    world: World, server: Server, gateway: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.trust(server)
    world.trust(gateway)
    jump = f"{USER}@{HOST}:{gateway.port}"
    inventory = world.inventory({f"n{n}": {"address": HOST, "port": server.port, "jump": jump} for n in range(3)})
    login, who = ssh_connection._login, []

    async def slow_first_login(name: str, *args: Any) -> Any:
        who.append(name)
        if len(who) == 1:
            opening.set()
            await asyncio.Event().wait()
        return await login(name, *args)

    opening = asyncio.Event()
    monkeypatch.setattr(ssh_connection, "_login", slow_first_login)
    tasks = {name: asyncio.ensure_future(connect(name, inventory, lambda *_: None)) for name in inventory.nodes}
    async with asyncio.timeout(20):
        await opening.wait()
        first = tasks.pop(who[0])
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        for task in tasks.values():
            await (await task).close()
    await world.agents_gone()


async def test_jumps_that_lead_in_a_circle_are_refused(world: World) -> None:
    nodes: dict[str, dict[str, Any]] = {
        "uut": {"address": HOST, "jump": "b"},
        "b": {"address": HOST, "jump": "uut", "port": 1},
    }
    assert "form a loop" in await refused(world, nodes)


# --- starting the agent ------------------------------------------------------------------------------------------


async def test_no_python_is_told_with_what_to_install(
    world: World, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.trust(server)
    monkeypatch.setattr(link, "program", lambda python, become: (f"{python} -c x", b""))
    told = await refused(world, at(server, python="python-absent"), CapabilityMissing)
    assert (
        told.startswith("uut: python-absent is not installed there (")
        and "install Debian's python3 (" in told
        and "`python:`" in told
    )


@pytest.mark.parametrize("launcher", ["real", "other"])
async def test_an_old_python_is_told_with_its_version(
    world: World, server: Server, monkeypatch: pytest.MonkeyPatch, launcher: str
) -> None:
    python = old_python("3.8")
    world.trust(server)
    if launcher == "real":
        monkeypatch.setattr(link, "program", REAL_PROGRAM)
    else:
        monkeypatch.setattr(link, "program", lambda python, become: (f"{python} -c 'import tomllib'", b""))
    told = await refused(world, at(server, python=python), CapabilityMissing)
    assert "Python 3.8" in told and "too old" in told and "3.9 or newer is needed" in told and "`python:`" in told


async def test_a_program_in_python_s_place_that_prints_without_end_costs_no_memory(
    world: World, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts no agent, and is asked for its version then."""
    python = world.directory / "python"
    python.write_text('#!/bin/sh\ncase "$*" in *version_info*) exec head -c 134217728 /dev/zero;; esac\nexit 1\n')
    python.chmod(0o755)
    world.trust(server)
    monkeypatch.setattr(link, "program", lambda python, become: (f"{python} start", b""))
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = await refused(world, at(server, python=str(python)))
    assert "the agent did not start (exit status 1)" in told
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 64 * 1024


async def test_the_real_agent_starts_and_ends_with_its_link(
    world: World, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.trust(server)
    monkeypatch.setattr(link, "program", REAL_PROGRAM)
    async with asyncio.timeout(30):
        node = await connect("uut", world.inventory(at(server)), lambda *_: None)
        pid = node.hello.pid
        assert Path(f"/proc/{pid}").exists()
        await node.close()
    (world.directory / "agent-real.pid").write_text(str(pid))
    world.pid_files.append(world.directory / "agent-real.pid")
    await world.agents_gone()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("sudo: a password is required", f"sudo wants a password from {USER}"),
        ("sudo: sorry, you are not allowed to do that", f"sudo does not let {USER} in"),
        ("bob is not in the sudoers file.", f"sudo does not let {USER} in"),
        ("sudo: python3: command not found", "/usr/bin/python3 is not installed there"),
        ("sh: 1: sudo: not found", "sudo is not installed there"),
    ],
)
async def test_what_sudo_refuses_is_told_with_what_to_allow(
    world: World, server: Server, monkeypatch: pytest.MonkeyPatch, said: str, told: str
) -> None:
    world.trust(server)
    monkeypatch.setattr(link, "program", lambda python, become: (f"echo '{said}' >&2; exit 1", b""))
    message = await refused(world, at(server, become="sudo"), CapabilityMissing)
    assert told in message
    if "sudo wants" in told or "does not let" in told:
        assert f"{USER} ALL=(root) NOPASSWD: ALL" in message


async def test_a_login_shell_that_greets_is_tolerated(
    world: World, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.trust(server)
    start_with(world, monkeypatch, before="seq 50; printf 'Welcome to \\033[31mthe lab! '; ")
    await log_in(world, at(server))


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("crash", "the agent did not start (exit status 1): RuntimeError: broken on purpose"),
        ("chatter", "the login shell prints too much before the agent starts"),
        ("endless line", "a line is longer than 65536 bytes"),
        ("old protocol", "the agent speaks protocol 0, this console 1"),
    ],
)
async def test_an_agent_that_does_not_start_is_told_with_its_words(
    world: World, server: Server, monkeypatch: pytest.MonkeyPatch, mode: str, told: str
) -> None:
    world.trust(server)
    start_with(world, monkeypatch, mode)
    assert told in await refused(world, at(server))


async def test_a_library_that_is_found_to_be_missing_after_the_hello_is_named_with_what_to_install(
    world: World, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's hello comes before its imports. OpenWrt has asyncio in a package of its own, python3-asyncio."""
    world.trust(server)
    start_with(world, monkeypatch, "no asyncio")
    with pytest.raises(CapabilityMissing, match="lacks asyncio of the standard library: install Debian's python3"):
        await log_in(world, at(server))


async def test_an_agent_that_never_speaks_is_given_up(
    world: World, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.trust(server)
    start_with(world, monkeypatch, "mute")
    assert "no agent after 1.5 s" in await refused(world, at(server), connect_timeout_s=1.5)


# --- the operator's own shell ------------------------------------------------------------------------------------


async def test_a_shell_opens_by_the_same_way_through_a_jump(world: World) -> None:
    require("ssh")
    server, gateway = SERVERS["sshd"](world), SERVERS["sshd"](world, "gateway_host")
    for each in (server, gateway):
        await each.start()
        world.trust(each)
    key = world.key("jump key")
    world.config("", key=None)
    public = (world.directory / "client.pub").read_text() + Path(f"{key}.pub").read_text()
    (world.directory / "authorized_keys").write_text(public)
    nodes = at(server, jump="gw", key=str(world.directory / "client"))
    nodes["gw"] = {"address": HOST, "port": gateway.port, "key": str(key), "user": USER}
    argv = shell_argv("uut", world.inventory(nodes))
    assert argv[0] == "ssh" and argv[-2:] == ["--", HOST]
    process = await asyncio.create_subprocess_exec(
        *argv,
        "echo it is $((40 + 2))",
        stdout=asyncio.subprocess.PIPE,
        stdin=asyncio.subprocess.DEVNULL,
        env=os.environ | {"HOME": str(world.directory / "home")},
    )
    async with asyncio.timeout(20):
        stdout, _ = await process.communicate()
    assert stdout == b"it is 42\n"
    assert (gateway.logins(), server.logins()) == (1, 1)
    for each in (server, gateway):
        await each.stop()
