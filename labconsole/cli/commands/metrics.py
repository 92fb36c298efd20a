"""``labconsole metrics``: metrics of a store for Prometheus and Grafana. docs/metrics.md."""

from __future__ import annotations

import argparse
import signal
import sys

from labconsole.cli.commands import About
from labconsole.cli.options import add_common
from labconsole.cli.output import print_error

about = About(
    130,
    "serve metrics of the saved runs for Prometheus",
    description="Serve OpenMetrics about the saved runs on this machine alone, until Ctrl-C: how many there are, by "
    "verdict, and the forwarding rate of every design point with its interval. No node is contacted. replay "
    "--metrics serves the progress of plans.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--store")
    parser.add_argument(
        "--listen",
        default="127.0.0.1:9477",
        metavar="WHERE",
        help="loopback address, which every user of this machine can read, or unix:PATH for a socket that only you "
        "can open (default: 127.0.0.1:9477)",
    )
    parser.add_argument("--once", action="store_true", help="print them once instead of serving them")


def run(args: argparse.Namespace) -> int:
    """Serve until stopped, then return 0."""
    from labconsole.api.metrics import StoreMetrics, exposition, served
    from labconsole.store.open import open_store

    with open_store(args.store, write=False) as store:
        metrics = StoreMetrics(store)
        if args.once:
            sys.stdout.write(exposition(metrics))
            return 0
        ending = {signal.SIGINT, signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, ending)
        with served(args.listen, "--listen", metrics) as place:
            print_error(f"metrics of {store.name}: {place}")
            ended = signal.sigwait(ending)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ending)
    return 0 if ended == signal.SIGTERM else 130
