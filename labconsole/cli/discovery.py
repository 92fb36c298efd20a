"""The discover command: from machines to a hosts.yaml, with a confirmation before anything is sent or written."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from labconsole.cli.output import print_error, print_json_line, print_lines
from labconsole.errors import ConfigError

if TYPE_CHECKING:
    from labconsole.engine.discovery.discovery import DiscoveryRequest, DiscoveryResult
    from labconsole.engine.discovery.probing import ExcludedPort, Port


def discover(args: argparse.Namespace) -> int:
    """Run discovery with the command's options. 0 if the file is written, 1 if there is nothing to write. Raises
    LabError.
    """
    import asyncio
    from pathlib import Path

    from labconsole.engine.discovery.discovery import DiscoveryRequest
    from labconsole.engine.discovery.machines import parse_machines
    from labconsole.model.inventory import NAME

    request = DiscoveryRequest(parse_machines(args.machine), args.ssh_config, args.become, args.take_over)
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
        raise ConfigError("needs --yes: it cannot prompt for confirmation", key="discover")
    if args.json and not args.yes:
        raise ConfigError("needs --yes: it cannot prompt for confirmation", key="--json")
    found = asyncio.run(_discover_testbed(args, request))
    return 1 if found is None else _write(args, found)


async def _discover_testbed(args: argparse.Namespace, request: DiscoveryRequest) -> DiscoveryResult | None:
    from labconsole.api.discovery import leased_nodes
    from labconsole.engine.discovery import discovery
    from labconsole.engine.discovery.discovery import discover_testbed
    from labconsole.engine.discovery.probing import ignore_progress

    async def agreed(ports: Sequence[Port], alone: Sequence[ExcludedPort]) -> bool:
        _say(args, discovery.describe_ports(ports, alone))
        if not ports and args.json:
            print_json_line(discovery.build_excluded_ports_json(alone))
        return bool(ports) and await _ask_agreement_waiting(args, discovery.format_question(ports))

    found = await discover_testbed(request, leased_nodes, agreed, ignore_progress)
    if found is not None:
        for sentence in found.not_undone:
            print_error(f"not restored: {sentence}")
        if args.json:
            print_json_line(discovery.to_json(found))
        _say(args, discovery.describe_findings(found.wiring, found.proposal))
    return found


def _write(args: argparse.Namespace, found: DiscoveryResult) -> int:
    from labconsole.engine.discovery.hosts_file import write_new

    written = found.hosts_text(args.testbed)
    if not _ask_agreement(args, f"Write {args.out}?"):
        return 1
    write_new(args.out, written, key="--out")
    _say(args, [f"{args.out} is written; next: labconsole check --hosts {args.out}"])
    return 0


def _say(args: argparse.Namespace, lines: Sequence[str]) -> None:
    if not args.json:
        print_lines(*lines)


async def _ask_agreement_waiting(args: argparse.Namespace, question: str) -> bool:
    """Ask for agreement while links are kept alive. An interrupt does not wait for the thread that reads."""
    import asyncio
    import threading

    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bool] = loop.create_future()

    def tell(agreed: bool) -> None:
        if not answer.done():
            answer.set_result(agreed)

    def ask() -> None:
        agreed = _ask_agreement(args, question)
        loop.call_soon_threadsafe(tell, agreed)

    threading.Thread(target=ask, daemon=True).start()
    return await answer


def _ask_agreement(args: argparse.Namespace, question: str) -> bool:
    if args.yes:
        return True
    print_lines(question + " [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
