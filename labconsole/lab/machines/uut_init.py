"""``python -m labconsole.lab.machines.uut_init``: process 1 of the QEMU machine that is a lab's UUT.

The UUT is the whole machine, in no namespace: its kernel, its NICs and all of its processes. The host specifies the
node and sends requests through a virtio port. When this process ends the kernel panics and QEMU exits.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from labconsole.lab.machines import uut, virtio_port
from labconsole.lab.machines.uut import MACHINE_ADDRESS, MACHINE_PORT
from labconsole.lab.nodes import network
from labconsole.lab.nodes.node import NodeSetup, answer_exec, serve_ssh
from labconsole.lab.spec import LabNode, LabSpec, lay_out

_BACKLOG = 64
_CONTROLLERS = ("cpuset", "cpu", "memory", "pids")
DESCRIPTION = Path("/run/labconsole/machine.json")
"""Description of this machine for records; an agent's facts read it."""


def main() -> int:
    """Run the UUT. Every error is reported to the host: this process may not end."""
    port = virtio_port.open_port()
    virtio_port.say(port, {"state": "hello", "kernel": os.uname().release})
    try:
        setup = _set_up(virtio_port.read_message(port))
        asyncio.run(_serve(setup, port))
    except Exception as exc:
        traceback.print_exc()
        virtio_port.say(port, {"state": "failed", "message": f"{type(exc).__name__}: {exc}"})
    return 1


def _set_up(message: dict[str, Any]) -> NodeSetup:
    spec = LabSpec.from_json(message["spec"])
    node = lay_out(spec, int(message["index"])).node(str(message["node"]))
    socket.sethostname(node.name)
    network.set_defaults()
    _let_groups_control()
    network.ip_batch(rename_lines(node, _links()))
    network.configure(node, replace(spec, link_speed_bps=None))
    if spec.boot == "xen":
        uut.start_tools()
    DESCRIPTION.parent.mkdir(exist_ok=True)
    DESCRIPTION.write_text(json.dumps({"emulated": True, "accel": spec.accel, "boot": spec.boot}))
    listener = socket.create_server((MACHINE_ADDRESS, MACHINE_PORT), backlog=_BACKLOG)
    return NodeSetup(
        node=node,
        spec=spec,
        listener=listener,
        host_key=str(message["host_key"]),
        client_key=str(message["client_key"]),
        user=str(message["user"]),
    )


def _links() -> dict[str, str]:
    """Map the MAC of each existing link to its name."""
    return {(link / "address").read_text().strip(): link.name for link in Path("/sys/class/net").iterdir()}


def rename_lines(node: LabNode, links: dict[str, str]) -> list[str]:
    """Return lines for ``ip -batch`` that give each NIC its name in the lab, in two steps: one's name may be
    another's.
    """
    renamed = [(links[i.mac], i.name) for i in node.interfaces if links[i.mac] != i.name]
    away = [f"link set {now} name was-{now}" for now, _ in renamed]
    return [*away, *(f"link set was-{now} name {name}" for now, name in renamed)]


def _let_groups_control() -> None:
    """Enable controllers of control groups, which give containers their share of CPUs and memory."""
    for controller in _CONTROLLERS:
        with contextlib.suppress(OSError):  # a kernel without this controller
            Path("/sys/fs/cgroup/cgroup.subtree_control").write_text(f"+{controller}")


async def _serve(setup: NodeSetup, port: int) -> None:
    settings, server = await serve_ssh(setup)
    virtio_port.say(port, {"state": "ready"})
    await virtio_port.serve(port, lambda message: answer_exec(message, settings))
    server.close()


if __name__ == "__main__":
    sys.exit(main())
