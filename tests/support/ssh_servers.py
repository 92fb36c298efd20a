"""Two SSH servers for the node suite, one interface: asyncssh's in this process, and OpenSSH's sshd on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import shlex
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from labconsole.model.inventory import Inventory
from labconsole.nodes import link

HOST = "127.0.0.1"
USER = getpass.getuser()
FAKE_AGENT = Path(__file__).with_name("fake_agent.py")
PYTHON = "/usr/bin/python3"
LAUNCHER = "import sys; exec(compile(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())), 'agent', 'exec'))"


def require(tool: str) -> str:
    """Path of a tool; without it the test fails in CI and is skipped elsewhere."""
    path = shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        told = f"{tool} is not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have this: {told}")
        pytest.skip(told)
    return path


@dataclass
class World:
    """Keys, known_hosts and ssh_config of one test, in a directory of its own."""

    directory: Path
    pid_files: list[Path] = field(default_factory=list)

    @classmethod
    def make(cls, directory: Path) -> World:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "home" / ".ssh").mkdir(parents=True)
        world = cls(directory)
        world.key("client")
        world.authorize("client")
        world.config("")
        (directory / "known_hosts").touch()
        return world

    def key(self, name: str, *, passphrase: str | None = None, algorithm: str = "ssh-ed25519") -> Path:
        path = self.directory / name
        key = asyncssh.generate_private_key(algorithm, comment=name)
        key.write_private_key(str(path), passphrase=passphrase)
        key.write_public_key(str(path) + ".pub")
        path.chmod(0o600)
        return path

    def authorize(self, name: str, options: str = "") -> None:
        public = (self.directory / f"{name}.pub").read_text()
        (self.directory / "authorized_keys").write_text(f"{options} {public}".lstrip())

    def config(self, extra: str, *, key: str | None = "client") -> None:
        lines = [extra, "Host *", f"  UserKnownHostsFile {self.directory}/known_hosts"]
        lines += ["  GlobalKnownHostsFile /dev/null"]
        if key:
            lines += [f"  IdentityFile {self.directory / key}", "  IdentitiesOnly yes"]
        (self.directory / "ssh_config").write_text("\n".join(lines) + "\n")

    def trust(self, server: Server, host: str = HOST, key: str | None = None) -> None:
        public = (self.directory / f"{key or server.host_key}.pub").read_text()
        with (self.directory / "known_hosts").open("a") as file:
            file.write(f"[{host}]:{server.port} {public}")

    def inventory(self, nodes: dict[str, dict[str, Any]], **defaults: Any) -> Inventory:
        nodes = {name: {"roles": ["uut"], "python": PYTHON, **node} for name, node in nodes.items()}
        ends = {"source": "a/e1", "uut_in": "e1", "uut_out": "e2", "sink": "b/e1"}
        stream = {"name": "s1", **ends, "source_ip": "198.18.0.1", "sink_ip": "198.19.0.1"}
        return Inventory.model_validate(
            {
                "testbed": "t",
                "nodes": nodes,
                "streams": [stream],
                "platforms": {"raw": {"driver": "raw"}},
                "defaults": {"ssh_config": str(self.directory / "ssh_config"), "connect_timeout_s": 10} | defaults,
            }
        )

    def program(self, mode: str = "") -> tuple[str, bytes]:
        """What labconsole.nodes.link.program returns, for the fake agent."""
        pid_file = self.directory / f"agent-{len(self.pid_files)}.pid"
        self.pid_files.append(pid_file)
        code = f"MODE, PID_FILE = {mode!r}, {str(pid_file)!r}\n".encode() + FAKE_AGENT.read_bytes()
        return shlex.join([PYTHON, "-c", LAUNCHER]), b"%d\n" % len(code) + code

    async def agents_gone(self) -> None:
        """Return once no fake agent of this test lives; fail after a bound."""
        pids = [int(path.read_text()) for path in self.pid_files if path.exists()]
        async with asyncio.timeout(10):
            while any(_alive(pid) for pid in pids):
                await asyncio.sleep(0.02)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def start_with(world: World, monkeypatch: pytest.MonkeyPatch, mode: str = "", *, before: str = "") -> None:
    """Make connect start the fake agent in this mode, after whatever ``before`` does in the shell."""

    def program(python: str, become: str | None) -> tuple[str, bytes]:
        command, payload = world.program(mode)
        return before + command, payload

    monkeypatch.setattr(link, "program", program)


class Server:
    """What both servers can do."""

    port: int

    def __init__(self, world: World, host_key: str = "host") -> None:
        self.world, self.host_key = world, host_key
        if not (world.directory / host_key).exists():
            world.key(host_key)

    async def start(self) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        raise NotImplementedError

    def cut(self) -> None:
        """Drop every connection without a word."""
        raise NotImplementedError

    def logins(self) -> int:
        """How many logins succeeded so far."""
        raise NotImplementedError


class AsyncsshServer(Server):
    """In this process; every exec is a local shell command."""

    async def start(self) -> None:
        self.connections: list[asyncssh.SSHServerConnection] = []
        self._children: list[asyncio.subprocess.Process] = []
        self._logins = 0
        outer = self

        class Handler(asyncssh.SSHServer):
            def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
                outer.connections.append(conn)

            def auth_completed(self) -> None:
                outer._logins += 1

            def connection_requested(self, *_: Any) -> bool:
                return True

        self._acceptor = await asyncssh.listen(
            HOST,
            0,
            server_factory=Handler,
            server_host_keys=[str(self.world.directory / self.host_key)],
            authorized_client_keys=str(self.world.directory / "authorized_keys"),
            config=None,
            process_factory=self._run,
            encoding=None,
        )
        self.port = self._acceptor.get_port()

    async def _run(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_shell(process.command or "", stdin=pipe, stdout=pipe, stderr=pipe)
        self._children.append(child)

        async def copy(reader: Any, writer: Any) -> None:
            with contextlib.suppress(OSError, asyncssh.Error):
                while data := await reader.read(65536):
                    writer.write(data)
                    await writer.drain()

        feeding = asyncio.create_task(copy(process.stdin, child.stdin))
        feeding.add_done_callback(lambda _: _shut(child))
        copying = asyncio.gather(copy(child.stdout, process.stdout), copy(child.stderr, process.stderr))
        gone = asyncio.create_task(process.channel.wait_closed())
        await asyncio.wait((copying, gone), return_when=asyncio.FIRST_COMPLETED)
        copying.cancel()
        gone.cancel()
        for descriptor in (1, 2):  # nobody reads any more: a child that still writes must hear of it
            child._transport.get_pipe_transport(descriptor).close()  # type: ignore[attr-defined]
        status = await child.wait()
        feeding.cancel()
        process.exit(status if status >= 0 else 255)

    async def stop(self) -> None:
        self.cut()
        self._acceptor.close()
        await self._acceptor.wait_closed()
        for child in self._children:
            if child.returncode is None:
                _shut(child)
                async with asyncio.timeout(10):  # whatever a test started ends with its stdin or its output
                    await child.wait()

    def cut(self) -> None:
        for connection in self.connections:
            connection.abort()

    def logins(self) -> int:
        return self._logins


class Sshd(Server):
    """OpenSSH on an unprivileged port with a configuration of its own."""

    async def start(self) -> None:
        directory = self.world.directory
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.port = free_port()
        self._log = directory / f"sshd-{self.port}.log"
        config = directory / f"sshd-{self.port}.conf"
        certificate = directory / f"{self.host_key}-cert.pub"
        config.write_text(
            f"ListenAddress {HOST}\nPort {self.port}\nHostKey {directory / self.host_key}\nUsePAM no\nStrictModes no\n"
            f"AuthorizedKeysFile {directory}/authorized_keys\nPasswordAuthentication no\nPidFile none\n"
            f"KbdInteractiveAuthentication no\nPermitRootLogin yes\nMaxStartups 100\nLogLevel VERBOSE\n"
            # The operator's own ~/.bashrc is none of the test's business.
            f"SetEnv HOME={directory}/home\n" + (f"HostCertificate {certificate}\n" if certificate.exists() else "")
        )
        sshd = require("sshd")
        self._process = await asyncio.create_subprocess_exec(
            sshd, "-D", "-E", str(self._log), "-f", str(config), start_new_session=True
        )
        async with asyncio.timeout(10):
            while "Server listening" not in (self._log.read_text() if self._log.exists() else ""):
                if self._process.returncode is not None:
                    pytest.fail(f"sshd ended: {self._log.read_text()}")
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        self.cut()
        if self._process.returncode is None:
            self._process.terminate()
        await self._process.wait()

    def cut(self) -> None:
        for pid in _children(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def logins(self) -> int:
        return self._log.read_text().count("Accepted publickey")


def _shut(child: asyncio.subprocess.Process) -> None:
    assert child.stdin is not None
    child.stdin.close()


def _children(parent: int) -> list[int]:
    path = Path(f"/proc/{parent}/task/{parent}/children")
    try:
        return [int(pid) for pid in path.read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def free_port() -> int:
    with socket.create_server((HOST, 0)) as listening:
        return int(listening.getsockname()[1])


SERVERS: dict[str, type[Server]] = {"asyncssh": AsyncsshServer, "sshd": Sshd}


@contextlib.asynccontextmanager
async def ssh_agent(world: World, key: Path, passphrase: str | None = None) -> Any:
    """A running ssh-agent that holds one key; yields its socket."""
    sock = world.directory / "agent.sock"
    process = await asyncio.create_subprocess_exec(
        require("ssh-agent"), "-D", "-a", str(sock), stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        async with asyncio.timeout(10):
            while not sock.exists():
                await asyncio.sleep(0.02)
        ask = world.directory / "askpass"
        ask.write_text(f"#!/bin/sh\necho {passphrase or ''}\n")
        ask.chmod(0o755)
        environment = os.environ | {"SSH_AUTH_SOCK": str(sock), "SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force"}
        adding = await asyncio.create_subprocess_exec(
            require("ssh-add"), "-q", str(key), env=environment, stdin=subprocess.DEVNULL
        )
        assert await adding.wait() == 0
        yield str(sock)
    finally:
        process.terminate()
        await process.wait()


@contextlib.asynccontextmanager
async def relay(port: int) -> Any:
    """A TCP relay to ``port`` that can be told to swallow everything: yields (its port, an event to set for that)."""
    deaf = asyncio.Event()
    tasks: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                if not deaf.is_set():
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass
        finally:
            writer.transport.abort()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(HOST, port)
        for pair in ((reader, back), (there, writer)):
            task = asyncio.create_task(pump(*pair))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(serve, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1], deaf
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def openssh_accepts(world: World, server: Server) -> bool:
    """Whether OpenSSH's own client accepts what the host shows."""
    process = await asyncio.create_subprocess_exec(
        require("ssh"),
        "-F",
        str(world.directory / "ssh_config"),
        "-o",
        "StrictHostKeyChecking=yes",
        "-o",
        "BatchMode=yes",
        "-p",
        str(server.port),
        "--",
        HOST,
        "true",
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(20):
        _, errors = await process.communicate()
    assert process.returncode == 0 or b"Host key verification failed" in errors, errors
    return process.returncode == 0
