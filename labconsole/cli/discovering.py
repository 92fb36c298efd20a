"""From machines to a hosts.yaml, asking before anything is sent or written: for the command, and for a first start."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labconsole.cli.output import complain, json_line, plain_lines
from labconsole.errors import ConfigError

if TYPE_CHECKING:
    from labconsole.engine.discovery.machines import AskedMachine
    from labconsole.engine.discovery.proposal import Proposal
    from labconsole.engine.discovery.wiring import Wiring


def discover(args: argparse.Namespace) -> int:
    """With the command's options. 0 when the file is written, 1 when there is nothing to write. Raises LabError."""
    import asyncio

    from labconsole.engine.discovery.machines import read_words
    from labconsole.model.inventory import NAME

    asked = read_words(args.machine)
    if NAME.match(args.testbed) is None:
        raise ConfigError(
            "is not a name", key="--testbed", value=args.testbed, allowed="letters, digits, '.', '_', '-'"
        )
    if args.out.exists():
        raise ConfigError("already exists; name another with --out", key="--out", value=str(args.out))
    if not args.yes and not sys.stdin.isatty():
        raise ConfigError("needs --yes: nobody can be asked", key="discover")
    if args.json and not args.yes:
        raise ConfigError("needs --yes: nobody can be asked", key="--json")
    found = asyncio.run(_tried(args, asked))
    if found is None:
        return 1
    return _write(args, asked, *found)


async def _tried(args: argparse.Namespace, asked: Sequence[AskedMachine]) -> tuple[Wiring, Proposal] | None:
    from labconsole.api.discovering import held_nodes
    from labconsole.cli.text import discovery as text
    from labconsole.engine.discovery.machines import said_roles
    from labconsole.engine.discovery.probing import probe, read_ports
    from labconsole.engine.discovery.proposal import propose
    from labconsole.engine.discovery.wiring import find_wiring

    async with held_nodes(asked, ssh_config=args.ssh_config, become=args.become, take_over=args.take_over) as links:
        ports, alone = await read_ports(links)
        _say(args, text.before(ports, alone))
        if not ports:
            if args.json:
                json_line(text.alone_json(alone))
            return None
        question = f"Send 5 frames from each of these {len(ports)} ports?"
        if not await _agreed_meanwhile(args, question):
            return None
        found = await probe(links, ports)
    for sentence in found.not_undone:
        complain(f"not put back: {sentence}")
    wiring = find_wiring(found.ports, found.heard, found.refused)
    proposal = propose([each.name for each in asked], said_roles(asked), wiring)
    if args.json:
        json_line(text.to_json(found.ports, alone, wiring, proposal) | {"not_undone": found.not_undone})
    _say(args, text.after(wiring, proposal))
    return wiring, proposal


def _write(args: argparse.Namespace, asked: Sequence[AskedMachine], wiring: Wiring, proposal: Proposal) -> int:
    from datetime import UTC, datetime

    from labconsole.engine.discovery.hosts_file import write_new
    from labconsole.engine.discovery.hosts_text import HostsNode, hosts_text

    if not proposal.streams:
        raise ConfigError(
            "no path through the unit under test was found: it takes a cable from a source's port to one of its, and "
            "one from another of its ports to a sink's"
        )
    if not _agreed(args, f"Write {args.out}?"):
        return 1
    nodes = [
        HostsNode(each.name, each.address, proposal.roles[each.name], each.user, each.port)
        for each in asked if each.name in proposal.roles
    ]  # fmt: skip
    written = hosts_text(
        args.testbed, nodes, proposal.streams, become=args.become,
        found=f"Its cables were found by `labconsole discover` on {datetime.now(UTC):%Y-%m-%d}.",
        defaults={} if args.ssh_config is None else {"ssh_config": str(Path(args.ssh_config).absolute())},
    )  # fmt: skip
    write_new(args.out, written, key="--out")
    _say(args, [f"{args.out} is written; next: labconsole check --hosts {args.out}"])
    return 0


def _say(args: argparse.Namespace, lines: Sequence[str]) -> None:
    if not args.json:
        plain_lines(*lines)


async def _agreed_meanwhile(args: argparse.Namespace, question: str) -> bool:
    """The same while links are kept alive. Who interrupts does not wait for the thread that reads."""
    import asyncio
    import threading

    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bool] = loop.create_future()

    def tell(agreed: bool) -> None:
        if not answer.done():
            answer.set_result(agreed)

    def ask() -> None:
        agreed = _agreed(args, question)
        loop.call_soon_threadsafe(tell, agreed)

    threading.Thread(target=ask, daemon=True).start()
    return await answer


def _agreed(args: argparse.Namespace, question: str) -> bool:
    if args.yes:
        return True
    plain_lines(question + " [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
