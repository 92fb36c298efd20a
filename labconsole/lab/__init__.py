"""The local testbed: network namespaces, SSH servers, link speed, injected ground truth. See docs/lab.md."""

from __future__ import annotations

from labconsole.lab.commands import (
    ExecResult,
    LabSpec,
    LabStatus,
    NodeStatus,
    bypassed,
    down,
    kill_node,
    names,
    of_inventory,
    revive_node,
    status,
    truth,
    up,
    wire,
)
from labconsole.lab.commands import execute as exec

__all__ = [
    "ExecResult",
    "LabSpec",
    "LabStatus",
    "NodeStatus",
    "bypassed",
    "down",
    "exec",
    "kill_node",
    "names",
    "of_inventory",
    "revive_node",
    "status",
    "truth",
    "up",
    "wire",
]
