"""Process 1 of a lab node: private mounts, its network, the SSH server, the supervisor's requests.

A node is a network, mount, PID, UTS and IPC namespace. Private are /proc, /sys (which shows the network namespace it
was mounted in), /run, /tmp and /var/tmp; everything else is the machine's own file system.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

import asyncssh

from labconsole.errors import LabSetupError
from labconsole.lab import control
from labconsole.lab.files import interpreter
from labconsole.lab.images import cache_directory
from labconsole.lab.nodes import kernel, network, sshd
from labconsole.lab.nodes.processes import Children
from labconsole.lab.nodes.sshd import NodeServer, ServerSettings
from labconsole.lab.prerequisites import SYSTEM_PATH
from labconsole.lab.spec import LabNode, LabSpec
from labconsole.lab.state import labs_directory

CABLE_OPS = ("unplug", "plug", "carrier")
_CARRIER_S = 20.0
_EXEC_LIMIT_BYTES = 4 * 1024 * 1024
_PRIVATE = ("/run", "/tmp", "/var/tmp")


@dataclass(frozen=True)
class NodeSetup:
    """Everything a node's process starts with."""

    node: LabNode
    spec: LabSpec
    listener: socket.socket
    host_key: str
    client_key: str
    user: str
    host: NodeSetup | None = None
    """For a machine: the node that its case is."""


class MachineHost(Protocol):
    """The processes in a node's namespaces if the node itself is a machine."""

    def configure(
        self, node: LabNode, spec: LabSpec, counted: Mapping[str, Mapping[str, int]] | None = None, /
    ) -> None:
        """Connect the links that the lab made to the machine's NICs. Raises LabSetupError."""

    def start(self) -> None:
        """Switch the machine on."""

    def await_boot(self) -> None:
        """Wait for the system inside, and make it the node. Raises LabSetupError."""

    async def serve(self, channel: socket.socket, cables: control.Handler) -> None:
        """Pass sessions and requests to the machine until it, or the lab, is gone. ``cables`` handles requests for the
        links.
        """


def run(setup: NodeSetup, channel: socket.socket, case: MachineHost | None) -> NoReturn:
    """Run the node, or the case of the machine that is the node, until the supervisor goes away."""
    status = 1
    try:
        listeners = [setup.listener] if setup.host is None else [setup.listener, setup.host.listener]
        _close_all_but(channel.fileno(), *(each.fileno() for each in listeners))
        kernel.set_process_name(f"node-{setup.node.name}")
        _enter_namespaces(setup)
        control.send(channel, {"state": "namespaces"})
        control.read_line(channel)  # the supervisor has made the links
        configure = network.configure if case is None else case.configure
        configure(setup.node, setup.spec)
        if case is not None:
            case.start()
        control.send(channel, {"state": "configured"})
        control.read_line(channel)  # the other ends are up too
        network.await_links(setup.node, _CARRIER_S)
        if case is None:
            asyncio.run(_serve(setup, channel, _Cables(setup, configure)))
        else:
            case.await_boot()
            # The machine itself injects the loss: its rules stay in place when cables are pulled.
            outside = replace(setup, spec=replace(setup.spec, loss={}))
            asyncio.run(case.serve(channel, _Cables(outside, configure).answer))
        status = 0
    except (OSError, LabSetupError, EOFError) as exc:
        with contextlib.suppress(OSError):
            control.send(channel, {"state": "failed", "message": f"{setup.node.name}: {exc}"})
    finally:
        # Never run the exit handlers of the process that this one was copied from.
        sys.stderr.flush()
        os._exit(status)


def _close_all_but(*descriptors: int) -> None:
    """Close other nodes' listeners and channels: while a copy is open, their end is not seen."""
    for number in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if number > 2 and number not in descriptors:
            with contextlib.suppress(OSError):
                os.close(number)


def _enter_namespaces(setup: NodeSetup) -> None:
    kernel.unshare(kernel.CLONE_NEWNET | kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC)
    socket.sethostname(setup.node.name)
    kernel.make_mounts_private()
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    _mount_own_sys()
    _mount_private_directories()
    network.set_defaults()


def _mount_own_sys() -> None:
    """Mount a fresh /sys, which shows this node's interfaces; the control groups below it are the machine's."""
    groups = "/sys/fs/cgroup"
    keep = os.open(groups, os.O_PATH | os.O_DIRECTORY) if os.geteuid() == 0 and Path(groups).is_dir() else None
    kernel.mount("sysfs", "/sys", "sysfs", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    if keep is not None:
        kernel.mount(f"/proc/self/fd/{keep}", groups, None, kernel.MS_BIND | kernel.MS_REC)
        os.close(keep)


def _mount_private_directories() -> None:
    """Mount tmpfs on these, and restore in them what the node needs from the machine: interpreter, package, home,
    guests.
    """
    needed = sorted({os.path.realpath(p) for p in _needed_paths() if Path(p).is_dir()})
    kept = [
        (path, os.open(path, os.O_PATH | os.O_DIRECTORY))
        for path in needed
        if any(path.startswith(private + "/") for private in _PRIVATE)
    ]
    for private in _PRIVATE:
        flags = kernel.MS_NOSUID | kernel.MS_NODEV
        kernel.mount("tmpfs", private, "tmpfs", flags, "mode=0755" if private == "/run" else "mode=1777")
    covered = ""
    for path, descriptor in kept:
        if not (covered and path.startswith(covered + "/")):
            Path(path).mkdir(parents=True, exist_ok=True)
            kernel.mount(f"/proc/self/fd/{descriptor}", path, None, kernel.MS_BIND | kernel.MS_REC)
            covered = path
        os.close(descriptor)
    Path("/run/lock").mkdir(exist_ok=True)


def _needed_paths() -> list[str]:
    package = Path(__file__).resolve().parents[3]
    guests = [str(labs_directory()), str(cache_directory())]
    return [sys.prefix, sys.base_prefix, str(package), home_directory(), *guests, *(p for p in sys.path if p)]


def home_directory() -> str:
    """Return $HOME if it exists, else the root directory, as login programs do."""
    home = os.environ.get("HOME", "/")
    return home if Path(home).is_dir() else "/"


def environment(spec: LabSpec, user: str) -> dict[str, str]:
    """Return the initial environment of a session. The directory of the lab's own interpreter comes first in PATH, so
    that ``python3`` is that one and not a shim that takes half a second to find it.
    """
    return {
        "PATH": f"{Path(interpreter(spec)).parent}:{SYSTEM_PATH}",
        "HOME": home_directory(),
        "USER": user,
        "LOGNAME": user,
        "SHELL": _shell(),
        "LANG": "C.UTF-8",
    }


def _shell() -> str:
    shell = os.environ.get("SHELL", "")
    return shell if shell.startswith("/") and os.access(shell, os.X_OK) else "/bin/sh"


async def serve_ssh(setup: NodeSetup) -> tuple[ServerSettings, Any]:
    """Serve SSH sessions on the node's listener; return their shared settings, and the server."""
    loop = asyncio.get_running_loop()
    children = Children(loop)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, lambda: None)  # only the supervisor ends a node
    settings = ServerSettings(children, environment(setup.spec, setup.user), home_directory(), _shell())
    server: Any
    if setup.spec.ssh_server == "openssh":
        server = sshd.serve(setup.listener, settings, host_key=setup.host_key, client_key=setup.client_key)
    else:
        server = await asyncssh.listen(
            sock=setup.listener,
            server_factory=lambda: NodeServer(settings),
            server_host_keys=[asyncssh.import_private_key(setup.host_key)],
            authorized_client_keys=asyncssh.import_authorized_keys(setup.client_key),
            password_auth=False,
            kbdint_auth=False,
            gss_host=None,
            agent_forwarding=False,
            x11_forwarding=False,
            compression_algs=None,
            line_editor=False,
            login_timeout=30,
        )
    return settings, server


async def _serve(setup: NodeSetup, channel: socket.socket, cables: _Cables) -> None:
    settings, server = await serve_ssh(setup)

    async def answer(message: dict[str, Any]) -> dict[str, Any]:
        if message["op"] in CABLE_OPS:
            return await cables.answer(message)
        return await answer_exec(message, settings)

    peer = await control.open_peer(channel, answer)
    peer.announce({"state": "ready"})
    await peer.serve()
    server.close()


class _Cables:
    """The node's data interfaces, removed and set up again when the lab is rewired.

    Blocks the event loop on purpose while a command runs: it is short, and only then can no other code reap it.
    """

    def __init__(self, setup: NodeSetup, configure: Callable[..., None]) -> None:
        self._setup, self._configure = setup, configure
        self._counted: dict[str, dict[str, int]] | None = None

    async def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Do one step; the lab's first process completes each with all nodes before the next. Raises control.Refused.

        ``only`` some of the interfaces, when the node at their other end comes back.
        """
        op, only = message["op"], message.get("only")
        node, spec = self._setup.node, self._setup.spec
        if only is not None:
            node = replace(node, interfaces=tuple(i for i in node.interfaces if i.name in only))
        try:
            if op == "unplug":
                if self._counted is None and node.role == "uut" and spec.loss:
                    self._counted = network.read_loss_counts()
                network.remove_links(node)
            elif op == "plug":
                self._configure(node, spec, self._counted)
                self._counted = None
            else:
                await asyncio.to_thread(network.await_links, node, _CARRIER_S)
        except LabSetupError as exc:
            raise control.Refused(str(exc)) from exc
        return {}


async def answer_exec(message: dict[str, Any], settings: ServerSettings) -> dict[str, Any]:
    """Run a command for the lab's owner. Raises control.Refused."""
    if message["op"] != "exec":
        raise control.Refused(f"unknown request to a node: {message['op']!r}")
    argv = [str(word) for word in message["argv"]]
    try:
        done = await settings.children.run(
            argv,
            environment=settings.environment,
            directory=settings.directory,
            timeout_s=float(message["timeout_s"]),
            limit_bytes=_EXEC_LIMIT_BYTES,
        )
    except TimeoutError:
        raise  # an OSError, too, but not from starting the command
    except OSError as exc:
        raise control.Refused(f"{argv[0]}: {exc.strerror}") from exc
    return {
        "status": done.status,
        "stdout": done.stdout.decode(errors="replace"),
        "stderr": done.stderr.decode(errors="replace"),
        "truncated": done.truncated,
    }
