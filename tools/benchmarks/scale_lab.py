"""A hundred nodes of eight interfaces on one machine, as light as they can be and still be what they are for a console.

Each node is a network namespace with veth pairs, a real agent in it, started through a real SSH login on a port of its
own. What the small lab has beyond that is left out: one SSH server stands for all nodes, and there are no guests and no
shapers. Frames keep every counter moving, because a table that stands still costs nothing to paint.

    python tools/benchmarks/scale_lab.py --directory DIR [--nodes 100] [--interfaces 8]

Writes DIR/hosts.yaml, prints {"hosts": ...} once it serves, and goes when its standard input ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncssh

sys.path.insert(0, str(Path(__file__).parents[2]))

from labconsole.lab.files import user_name
from labconsole.lab.nodes import kernel
from labconsole.lab.nodes.node import environment, home_directory
from labconsole.lab.nodes.processes import Children
from labconsole.lab.nodes.sshd import (
    NodeServer,
    ServerSettings,
    new_keys,
)
from labconsole.lab.spec import LabSpec

STREAMS = 8
TICK_S = 0.1
FRAME = b"\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x88\xb5".ljust(64, b"\0")  # 0x88b5: for experiments


class InNamespace:
    """The machine's one reaper of children, for a node whose processes live in a network namespace."""

    def __init__(self, children: Children, descriptor: int) -> None:
        self._children, self._descriptor = children, descriptor

    def start(self, argv: Sequence[str], *, before_exec: Callable[[], None] | None = None, **rest: Any) -> Any:
        """As Children.start, inside the namespace and with a /sys that shows it."""

        def enter() -> None:
            kernel.setns(self._descriptor, kernel.CLONE_NEWNET)
            kernel.unshare(kernel.CLONE_NEWNS)
            kernel.make_mounts_private()
            kernel.mount("sysfs", "/sys", "sysfs", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
            if before_exec is not None:
                before_exec()

        return self._children.start(argv, before_exec=enter, **rest)


def make_node(interfaces: int) -> tuple[int, list[socket.socket]]:
    """A namespace with this many interfaces: its descriptor, and a socket for frames on one end of every pair."""
    kernel.unshare(kernel.CLONE_NEWNET)
    lines = ["link set lo up"]
    for i in range(0, interfaces, 2):
        lines.append(f"link add eth{i} type veth peer eth{i + 1}")
        lines += [f"link set eth{i} addrgenmode none up", f"link set eth{i + 1} addrgenmode none up"]
    subprocess.run(["ip", "-batch", "-"], input="\n".join([*lines, ""]), text=True, check=True)
    sockets = []
    for i in range(interfaces):
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # protocol 0: sends, receives nothing
        opened.bind((f"eth{i}", 0))
        opened.setblocking(False)
        sockets.append(opened)
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC), sockets


def send_frames(sockets: list[socket.socket], lifeline: int) -> None:
    """A few frames on every link in every tick, never the same number twice running, until the lab goes."""
    import select
    import time

    due_s = time.monotonic()
    while True:
        numbers = random.choices((0, 1, 1, 2, 3), k=len(sockets))
        for opened, number in zip(sockets, numbers, strict=True):
            for _ in range(number):
                try:
                    opened.send(FRAME)
                except OSError:
                    break  # no carrier yet, or the queue is full: this link rests for a tick
        due_s = max(due_s + TICK_S, time.monotonic())
        if select.select([lifeline], [], [], max(0.0, due_s - time.monotonic()))[0]:
            os._exit(0)


def hosts_yaml(nodes: Sequence[str], ports: Mapping[str, int], directory: Path, interfaces: int) -> str:
    """One UUT, half of the rest sources and half sinks; streams on some of them."""
    uut, others = nodes[0], nodes[1:]
    sources, sinks = others[: len(others) // 2], others[len(others) // 2 :]
    role = {uut: "uut", **dict.fromkeys(sources, "source"), **dict.fromkeys(sinks, "sink")}
    lines = ["testbed: scale", "emulated: true", "nodes:"]
    lines += [
        f"  {n}: {{address: 127.0.0.1, port: {ports[n]}, user: {user_name()}, key: '{directory / 'key'}', "
        f"roles: [{role[n]}], python: '{os.path.realpath(sys.executable)}'}}"
        for n in nodes
    ]
    lines.append("streams:")
    for i in range(min(STREAMS, interfaces // 2, len(sources), len(sinks))):
        lines.append(
            f"  - {{name: s{i + 1}, source: {sources[i]}/eth0, uut_in: eth{2 * i}, uut_out: eth{2 * i + 1}, "
            f"sink: {sinks[i]}/eth0, source_ip: 198.18.{i + 1}.1, sink_ip: 198.19.{i + 1}.1, link_speed: 10Gbit}}"
        )
    lines += ["platforms:", "  raw: {driver: raw, forwarding: route}", "defaults:"]
    lines += [f"  known_hosts: '{directory / 'known_hosts'}'", f"  ssh_config: '{directory / 'ssh_config'}'"]
    lines.append("  connect_timeout_s: 120")
    return "\n".join(lines) + "\n"


async def serve(
    listeners: dict[str, socket.socket], spaces: dict[str, int], host_keys: Mapping[str, str], client: str
) -> None:
    """One SSH server per node in this one process, until standard input ends."""
    loop = asyncio.get_running_loop()
    children = Children(loop)
    login = environment(LabSpec(), user_name())
    servers = []
    for name, listener in listeners.items():
        settings = ServerSettings(InNamespace(children, spaces[name]), login, home_directory(), "/bin/sh")  # type: ignore[arg-type]
        servers.append(
            await asyncssh.listen(
                sock=listener,
                server_factory=lambda settings=settings: NodeServer(settings),
                server_host_keys=[asyncssh.import_private_key(host_keys[name])],
                authorized_client_keys=asyncssh.import_authorized_keys(client),
                password_auth=False,
                kbdint_auth=False,
                gss_host=None,
                agent_forwarding=False,
                x11_forwarding=False,
                compression_algs=None,
                line_editor=False,
                login_timeout=120,
            )
        )
    ended = asyncio.Event()
    loop.add_reader(0, lambda: None if os.read(0, 4096) else ended.set())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    await ended.wait()
    for server in servers:
        server.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--interfaces", type=int, default=8)
    args = parser.parse_args()
    args.directory.mkdir(parents=True, exist_ok=True)
    names = [f"n{number:03}" for number in range(1, args.nodes + 1)]
    listeners, ports = {}, {}
    for name in names:
        listeners[name] = socket.create_server(("127.0.0.1", 0), backlog=8)
        ports[name] = listeners[name].getsockname()[1]
    if os.geteuid() != 0:
        kernel.enter_user_namespace()
    ours = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    spaces, sockets = {}, []
    for name in names:
        spaces[name], of_node = make_node(args.interfaces)
        sockets += of_node
    kernel.setns(ours, kernel.CLONE_NEWNET)
    keys = new_keys(names)
    key = args.directory / "key"
    key.write_text(keys.client_private)
    key.chmod(0o600)
    known = "".join(f"[127.0.0.1]:{ports[name]} {keys.host_public[name].strip()}\n" for name in names)
    (args.directory / "known_hosts").write_text(known)
    (args.directory / "ssh_config").write_text("Host *\n    IdentitiesOnly yes\n    IdentityAgent none\n")
    (args.directory / "hosts.yaml").write_text(hosts_yaml(names, ports, args.directory, args.interfaces))
    lifeline, held = os.pipe()
    sender = os.fork()
    if sender == 0:
        os.close(held)
        for listener in listeners.values():
            listener.close()
        send_frames(sockets, lifeline)
    os.close(lifeline)
    for opened in sockets:
        opened.close()
    print(json.dumps({"hosts": str(args.directory / "hosts.yaml")}), flush=True)
    asyncio.run(serve(listeners, spaces, keys.host_private, keys.client_public))
    os.close(held)
    os.waitpid(sender, 0)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
