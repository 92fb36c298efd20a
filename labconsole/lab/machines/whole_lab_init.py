"""``python -m labconsole.lab.machines.whole_lab_init``: process 1 of a QEMU machine that runs a whole lab.

The same nodes as on the host, but under a kernel that has pktgen. The host specifies the lab and sends requests through
a virtio port; QEMU forwards the host's management addresses to its listeners. When this process ends the kernel panics
and QEMU exits.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import traceback
from typing import Any

from labconsole.lab.machines import virtio_port
from labconsole.lab.nodes.init import Blueprint, Lab
from labconsole.lab.spec import LabSpec, lay_out

GUEST_ADDRESS = "10.0.2.15"
"""QEMU's user network gives the guest this address and forwards to it."""

_BACKLOG = 64


def guest_port(number: int) -> int:
    """Return the port of a node's SSH server inside the machine."""
    return 10_000 + number


def main() -> int:
    """Build the lab that the host specifies, then serve. Every error is reported to the host: this process may
    not end.
    """
    port = virtio_port.open_port()
    virtio_port.say(port, {"state": "hello", "kernel": os.uname().release})
    try:
        lab = _build(virtio_port.read_message(port))
        virtio_port.say(port, {"state": "ready"})
        asyncio.run(_serve(lab, port))
    except Exception as exc:
        traceback.print_exc()
        virtio_port.say(port, {"state": "failed", "message": str(exc)})
    return 1


def _build(message: dict[str, Any]) -> Lab:
    spec = LabSpec.from_json(message["spec"])
    layout = lay_out(spec, int(message["index"]))
    listeners = {
        node.name: socket.create_server((GUEST_ADDRESS, guest_port(node.number)), backlog=_BACKLOG)
        for node in layout.nodes
    }
    lab = Lab(
        Blueprint(
            spec,
            layout,
            listeners,
            dict(message["host_keys"]),
            str(message["client_key"]),
            str(message["user"]),
            uut_case=None,
        )
    )
    lab.build()
    return lab


async def _serve(lab: Lab, port: int) -> None:
    await lab.connect()
    await virtio_port.serve(port, lab.answer)


if __name__ == "__main__":
    sys.exit(main())
