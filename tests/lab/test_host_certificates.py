"""Host certificates: each case on a real sshd, held against what OpenSSH's own client says of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh
import pytest
import pytest_asyncio

from labconsole.errors import NodeUnreachable
from labconsole.nodes.link import connect
from support.ssh_servers import HOST, SERVERS, Server, World, openssh_accepts, start_with

pytestmark = pytest.mark.asyncio


@dataclass(frozen=True)
class Case:
    """What the server shows and what is known. ``known``: lines with {at}, {name}, {host}, {authority}, {other}."""

    known: str
    accepted: bool
    setting: str = ""
    signer: str = "authority"
    signature: str = "rsa-sha2-512"
    certificate: dict[str, Any] = field(default_factory=dict)


CASES = {
    "of a known authority": Case("@cert-authority {at} {authority}", True),
    "of an authority known without the port": Case("@cert-authority {name} {authority}", True),
    "of an authority of all hosts": Case("@cert-authority * {authority}", True),
    "of an authority of other hosts": Case("@cert-authority *.lab {authority}", False),
    "of an authority of a negated name": Case("@cert-authority *,!{at},!{name} {authority}", False),
    "of another authority": Case("@cert-authority {at} {other}", False),
    "of one of two authorities": Case("@cert-authority {at} {other}\n@cert-authority {at} {authority}", True),
    "of an authority known as a host's key": Case("{at} {authority}", False),
    "of no known authority, but the key itself is known": Case("{at} {host}", True),
    "of another authority, but the key itself is known": Case("@cert-authority {at} {other}\n{at} {host}", True),
    "of a known authority, but another key is known": Case("@cert-authority {at} {authority}\n{at} {other}", True),
    "of a revoked authority": Case("@cert-authority {at} {authority}\n@revoked * {authority}", False),
    "of a revoked authority, but the key itself is known": Case(
        "@cert-authority {at} {authority}\n{at} {host}\n@revoked * {authority}", False
    ),
    "of a revoked key": Case("@cert-authority {at} {authority}\n@revoked * {host}", False),
    "of a key that another host revoked": Case("@cert-authority {at} {authority}\n@revoked *.lab {host}", True),
    "for another host": Case("@cert-authority {at} {authority}", False, certificate={"principals": ["other.lab"]}),
    "for another host, but the key itself is known": Case(
        "@cert-authority {at} {authority}\n{at} {host}",
        True,
        certificate={"principals": ["other.lab"]},
    ),
    "for any host": Case("@cert-authority {at} {authority}", True, certificate={"principals": []}),
    "for a pattern of hosts": Case("@cert-authority {at} {authority}", False, certificate={"principals": ["127.*"]}),
    "for the alias": Case(
        "@cert-authority lab {authority}", True, "HostKeyAlias lab", certificate={"principals": ["lab"]}
    ),
    "for the address, with an alias": Case("@cert-authority lab {authority}", False, "HostKeyAlias lab"),
    "that has expired": Case("@cert-authority {at} {authority}", False, certificate={"valid_before": 1}),
    "that is not yet valid": Case(
        "@cert-authority {at} {authority}", False, certificate={"valid_after": 4_000_000_000}
    ),
    "signed by SHA-1": Case("@cert-authority {at} {authority}", False, signature="ssh-rsa"),
    "signed by SHA-1, but the key itself is known": Case(
        "@cert-authority {at} {authority}\n{at} {host}", True, signature="ssh-rsa"
    ),
    "of a user": Case("@cert-authority {at} {authority}", False, certificate={"user": True}),
}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World.make(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    start_with(world, monkeypatch)
    return world


@pytest_asyncio.fixture
async def server(world: World, case: str) -> AsyncIterator[Server]:
    """An sshd with the certificate of the case."""
    told = CASES[case]
    world.key("authority", algorithm="ssh-rsa")
    world.key("other")
    authority, host = asyncssh.read_private_key(world.directory / "authority"), world.key("host")
    options = {"principals": [HOST], "sig_alg": told.signature, **told.certificate}
    make = authority.generate_user_certificate if options.pop("user", False) else authority.generate_host_certificate
    make(asyncssh.read_public_key(f"{host}.pub"), "h", **options).write_certificate(f"{host}-cert.pub")
    server = SERVERS["sshd"](world)
    await server.start()
    yield server
    await server.stop()


async def we_accept(world: World, server: Server) -> bool:
    nodes = {"uut": {"address": HOST, "port": server.port}}
    async with asyncio.timeout(30):
        try:
            node = await connect("uut", world.inventory(nodes), lambda *_: None)
        except NodeUnreachable as exc:
            assert "host key of" in exc.message, exc.message
            return False
        await node.close()
        return True


@pytest.mark.parametrize("case", CASES)
async def test_a_host_certificate_is_judged_as_by_openssh(world: World, server: Server, case: str) -> None:
    told = CASES[case]
    keys = {name: (world.directory / f"{name}.pub").read_text().strip() for name in ("host", "authority", "other")}
    lines = told.known.format(at=f"[{HOST}]:{server.port}", name=HOST, **keys)
    (world.directory / "known_hosts").write_text(lines + "\n")
    world.config(told.setting)
    assert await openssh_accepts(world, server) is told.accepted
    assert await we_accept(world, server) is told.accepted
