"""Flows of guests on a real lab: trials through the command, and what must not be left of them."""

from __future__ import annotations

import json
from pathlib import Path

from labconsole.experiments.flow.record import FlowRecord
from labconsole.lab import commands as lab
from support.live_lab import labconsole


def taken(hosts: Path, store: Path, *words: str, status: int = 0, platform: str = "container") -> list[FlowRecord]:
    told = ("experiment", "flow", "--platforms", platform, "--json", *words)
    done = labconsole(*told, hosts=hosts, store=store)
    assert done.returncode == status, done.stderr + done.stdout[:3000]
    return [FlowRecord.model_validate(json.loads(line)["flow"]) for line in done.stdout.splitlines()]


def stored(store: Path) -> list[FlowRecord]:
    done = labconsole("experiment", "flow", "--list", "--json", store=store)
    return [FlowRecord.model_validate(json.loads(line)["flow"]) for line in reversed(done.stdout.splitlines())]


def on(hosts: Path, node: str, *argv: str) -> str:
    done = lab.execute(hosts.parent.name, node, list(argv))
    assert done.status == 0, done.stderr
    return done.stdout


def carries(rate_bps: float | None, limit_bps: float, over_ratio: float = 0.005) -> bool:
    """As much as a link or a limiter lets through: never more, and less by what a busy machine's senders are late. The
    rows of `make validate`, which are taken again on a machine that others use, have both ends close.
    """
    return rate_bps is not None and 0.8 * limit_bps <= rate_bps <= (1 + over_ratio) * limit_bps


def nothing_left(hosts: Path) -> None:
    """No limiter, no guest's interface, no neighbour, no address of the guests' network."""
    links = on(hosts, "uut", "ip", "-o", "link")
    assert "lcq" not in links and "lcg" not in links
    assert "ingress" not in on(hosts, "uut", "tc", "qdisc", "show")
    for node in ("uut", "snk1"):
        assert "198.18.127.1" not in on(hosts, node, "ip", "neigh")
        assert "198.18.64." not in on(hosts, node, "ip", "-4", "-o", "address")
