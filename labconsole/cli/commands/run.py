"""``labconsole run``: measure one design point now."""

from __future__ import annotations

import argparse

from labconsole.cli.commands import About
from labconsole.cli.options import (
    add_common,
    add_configuration,
    add_shared,
    hosts_path,
    naming_options,
    number,
    parse_request,
    whole_number,
)
from labconsole.cli.output import print_json_line, print_lines
from labconsole.errors import Aborted, ConfigError

about = About(40, "measure one design point")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--hosts", "--store", "--json", "--take-over")
    add_configuration(parser)
    parser.add_argument(
        "--target",
        default="10Mbit",
        metavar="RATE",
        help="bandwidth on the wire per source, such as 100Mbit, max, or 1ns: a delay of 1 ns (default: 10Mbit)",
    )
    parser.add_argument(
        "--background",
        default="none",
        metavar="KIND",
        help="load on a second guest: idle, light, heavy, forwarding-50, forwarding-95 (default: none)",
    )
    parser.add_argument("--duration", type=number, default=10.0, metavar="S", help="seconds of traffic (default: 10)")
    parser.add_argument(
        "--repetitions", type=whole_number, default=1, metavar="N", help="number of repetitions (default: 1)"
    )
    add_shared(parser, "--generator", "--observe", "--drop-reasons", "--packet-times")
    parser.add_argument(
        "--telemetry",
        action="store_true",
        help="record the UUT's processor time per packet and why its kernel dropped packets; the run enters no mean",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the commands that would set up the platform, and change nothing"
    )


def run(args: argparse.Namespace) -> int:
    """Return 0 if it was measured, 1 if a run is invalid."""
    from labconsole.api.testbed import load_testbed, open_session
    from labconsole.cli.session_runner import build_narrator, run_session, show_set_ups
    from labconsole.cli.text.runs import run_lines
    from labconsole.engine.live.events import Event, TrialFinished
    from labconsole.engine.testbed import Testbed
    from labconsole.model.inventory import load_inventory
    from labconsole.model.record.run import Role
    from labconsole.store.writing import RunStore

    if args.dry_run:
        inventory = load_inventory(hosts_path(args.hosts))
        show_set_ups([parse_request(args, inventory)], inventory, as_json=args.json)
        return 0
    if args.telemetry and args.drop_reasons is not None:
        raise ConfigError(
            "cannot be combined with --telemetry, which always asks", key="--drop-reasons", value=args.drop_reasons
        )
    inventory, store = load_testbed(
        hosts_path(args.hosts), args.store, drop_reasons=args.drop_reasons, packet_times=args.packet_times
    )
    request = parse_request(args, inventory)

    async def work(session: Testbed[RunStore]) -> int:
        role: Role = "telemetry" if args.telemetry else "measured"
        records = await session.run(request, args.repetitions, take_over=args.take_over, role=role)
        if session.stopping:
            return Aborted.exit_code
        return 1 if any(record.verdict.status == "invalid" for record in records) else 0

    def show(event: Event) -> None:
        if isinstance(event, TrialFinished):
            if args.json:
                print_json_line(event.record.to_json())
            else:
                print_lines(*run_lines(event.record, saved=event.saved))

    session = open_session(inventory, store)
    session.check_background(request)
    with naming_options():
        return run_session(session, session.nodes_of(request), work, [show, build_narrator(args)])
