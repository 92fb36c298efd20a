"""The keys of a lab: one for the client, one per node, made afresh at every ``up``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import asyncssh


@dataclass(frozen=True)
class LabKeys:
    """Private keys in OpenSSH's format, public ones as a line."""

    client_private: str
    client_public: str
    host_private: dict[str, str]
    host_public: dict[str, str]


def new_keys(nodes: Sequence[str]) -> LabKeys:
    """Make Ed25519 keys: one takes a tenth of a millisecond, so each node has its own even in a lab of two hundred."""
    client = asyncssh.generate_private_key("ssh-ed25519", comment="labconsole-lab")
    hosts = {name: asyncssh.generate_private_key("ssh-ed25519", comment=name) for name in nodes}
    return LabKeys(
        client.export_private_key().decode(),
        client.export_public_key().decode(),
        {name: key.export_private_key().decode() for name, key in hosts.items()},
        {name: key.export_public_key().decode() for name, key in hosts.items()},
    )
