"""From machines to a hosts.yaml, asking before anything is sent or written: the command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from labconsole.cli.output import complain, json_line, plain_lines
from labconsole.errors import ConfigError

if TYPE_CHECKING:
    from labconsole.engine.discovery.finding import DiscoveryRequest, FoundTestbed
    from labconsole.engine.discovery.ports import LeftAlone, Port


def discover(args: argparse.Namespace) -> int:
    """With the command's options. 0 when the file is written, 1 when there is nothing to write. Raises LabError."""
    import asyncio
    from pathlib import Path

    from labconsole.engine.discovery.finding import DiscoveryRequest
    from labconsole.engine.discovery.machines import read_words
    from labconsole.model.inventory import NAME

    request = DiscoveryRequest(read_words(args.machine), args.ssh_config, args.become, args.take_over)
    if NAME.match(args.testbed) is None:
        raise ConfigError(
            "is not a name", key="--testbed", value=args.testbed, allowed="letters, digits, '.', '_', '-'"
        )
    if args.ssh_config is not None and not Path(args.ssh_config).expanduser().is_file():
        raise ConfigError("no such file", key="--ssh-config", value=args.ssh_config)
    if args.out.exists():
        raise ConfigError("already exists; name another with --out", key="--out", value=str(args.out))
    if not args.out.absolute().parent.is_dir():
        raise ConfigError("cannot be written: its directory does not exist", key="--out", value=str(args.out))
    if not args.yes and not sys.stdin.isatty():
        raise ConfigError("needs --yes: nobody can be asked", key="discover")
    if args.json and not args.yes:
        raise ConfigError("needs --yes: nobody can be asked", key="--json")
    found = asyncio.run(_tried(args, request))
    return 1 if found is None else _write(args, found)


async def _tried(args: argparse.Namespace, request: DiscoveryRequest) -> FoundTestbed | None:
    from labconsole.api.discovering import held_nodes
    from labconsole.engine.discovery import told
    from labconsole.engine.discovery.finding import find
    from labconsole.engine.discovery.probing import tell_nobody

    async def agreed(ports: Sequence[Port], alone: Sequence[LeftAlone]) -> bool:
        _say(args, told.before(ports, alone))
        if not ports and args.json:
            json_line(told.alone_json(alone))
        return bool(ports) and await _agreed_meanwhile(args, told.question(ports))

    found = await find(request, held_nodes, agreed, tell_nobody)
    if found is not None:
        for sentence in found.not_undone:
            complain(f"not put back: {sentence}")
        if args.json:
            json_line(told.to_json(found))
        _say(args, told.after(found.wiring, found.proposal))
    return found


def _write(args: argparse.Namespace, found: FoundTestbed) -> int:
    from labconsole.engine.discovery.hosts_file import write_new

    written = found.hosts_text(args.testbed)
    if not _agreed(args, f"Write {args.out}?"):
        return 1
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
