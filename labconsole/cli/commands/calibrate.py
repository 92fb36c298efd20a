"""``labconsole calibrate``: bypass the UUT (a lab by itself, else by the operator), calibrate, save and show it."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from labconsole.cli.commands import About
from labconsole.cli.options import (
    ONE_OR_MORE,
    add_common,
    add_shared,
    choices_of_generators,
    hosts_path,
    naming_options,
    number,
)
from labconsole.cli.output import answer
from labconsole.errors import ConfigError, MeasurementError
from labconsole.text.sanitize import single_line, unwrap_stream

if TYPE_CHECKING:
    from labconsole.engine.calibration import Bypass, CalibrationProgress, CalibrationRequest
    from labconsole.engine.testbed import Testbed
    from labconsole.model.inventory import Inventory
    from labconsole.model.record.envelope import Envelope
    from labconsole.store.writing import RunStore

about = About(
    80,
    "measure what generators, sinks and captures can do, with the UUT bypassed",
    description="Measure the instrument itself, with the UUT bypassed. A local lab is rewired and restored "
    "automatically; for any other testbed the command says which cables to move and checks the result.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_common(parser, "--hosts", "--store", "--json")
    parser.add_argument("--show", action="store_true", help="print the last calibration and exit")
    parser.add_argument("--wired", action="store_true", help="the UUT is already bypassed; do not rewire or ask")
    parser.add_argument(
        "--frame-size",
        type=ONE_OR_MORE,
        action="append",
        metavar="BYTES",
        help="frame size; may be repeated (default: the plan's, else 64, 500, 1000 and 1500)",
    )
    parser.add_argument("--includes-fcs", action="store_true", help="frame sizes include the FCS, as in RFC 2544")
    parser.add_argument(
        "--plan", type=Path, metavar="FILE", help="calibrate the frame sizes and numbers of sources of this plan"
    )
    parser.add_argument(
        "--sources",
        type=ONE_OR_MORE,
        action="append",
        metavar="N",
        help="number of simultaneous sources; may be repeated (default: all; on an emulated testbed 1 and all)",
    )
    parser.add_argument(
        "--duration", type=number, default=0.5, metavar="S", help="duration of each trial (default: 0.5)"
    )
    parser.add_argument(
        "--time-limit",
        type=number,
        default=120.0,
        metavar="S",
        help="stop narrowing the bounds after this time (default: 120)",
    )
    parser.add_argument(
        "--generator",
        **choices_of_generators(),
        help="traffic generator (default: the plan's, else the testbed file's)",
    )
    add_shared(parser, "--take-over")


def run(args: argparse.Namespace) -> int:
    """Measure a calibration, or show the last one."""
    from labconsole.api.testbed import load_testbed, open_session
    from labconsole.cli.session_runner import run_session
    from labconsole.engine.calibration import add_bypass, calibrate

    inventory, store = load_testbed(hosts_path(args.hosts), args.store)
    if args.show:
        return _show(inventory, store, as_json=args.json)
    wanted = _request(args, inventory)
    with _bypassed(args, inventory, wanted) as how:
        session = open_session(add_bypass(inventory)[1], store, calibrated=False)  # not compared with the previous one

        async def work(session: Testbed[RunStore]) -> int:
            envelope = await calibrate(session, wanted, inventory.fingerprint(), how, _progress(args))
            store.save_calibration(envelope.to_json())
            if sys.stderr.isatty():
                sys.stderr.write("\n")
            _print(envelope, as_json=args.json)
            return 0

        streams = inventory.streams[: max(wanted.source_counts)]
        needed = [inventory.uut, *(s.source.node for s in streams), *(s.sink.node for s in streams)]
        needed += [] if inventory.host is None else [inventory.host]
        with naming_options() if args.frame_size else contextlib.nullcontext():
            return run_session(
                session, list(dict.fromkeys(needed)), work, [], kept="nothing of this calibration is saved"
            )


def _request(args: argparse.Namespace, inventory: Inventory) -> CalibrationRequest:
    from labconsole.engine.calibration import calibration_request
    from labconsole.model.plan.loader import load_plan

    plan = load_plan(args.plan, inventory) if args.plan is not None else None
    if args.duration < 0.1:
        raise ConfigError(
            "is too short for a reliable count", key="--duration", value=args.duration, allowed="0.1 or more"
        )
    if args.time_limit <= 0:
        raise ConfigError("must be more than 0", key="--time-limit", value=args.time_limit)
    return calibration_request(
        inventory,
        sizes_bytes=args.frame_size or (),
        includes_fcs=args.includes_fcs,
        source_counts=args.sources or (),
        points=[point.request for point in plan.points] if plan is not None else (),
        duration_s=args.duration,
        time_limit_s=args.time_limit,
        generator=args.generator,
        take_over=args.take_over,
    )


@contextmanager
def _bypassed(args: argparse.Namespace, inventory: Inventory, wanted: CalibrationRequest) -> Iterator[Bypass]:
    """Keep the UUT bypassed: a lab is rewired and restored, an operator is instructed what to connect."""
    from labconsole.api.testbed import rewiring
    from labconsole.engine.calibration import calibration_offer

    if args.wired:
        yield "patched"
        return
    rewired = rewiring(inventory)
    if rewired is not None:
        sys.stderr.write("the lab wires every source straight to its sink; this is undone at the end\n")
        with rewired:
            yield "lab"
        return
    offer = calibration_offer(inventory, wanted, rewired=False)
    if offer.bypass == "inventory":
        yield offer.bypass
        return
    sys.stderr.write("calibration needs the unit under test to be bypassed:\n")
    sys.stderr.writelines(f"  {line}\n" for line in offer.cables)
    if sys.stdin.isatty():
        sys.stderr.write("Press Enter when this is done, or Ctrl-C to leave: ")
        sys.stderr.flush()
        sys.stdin.readline()
    yield "patched"
    sys.stderr.write("put the cables back before you measure\n")


def _progress(args: argparse.Namespace) -> Callable[[CalibrationProgress], None]:
    """One line per trial on stderr; on a terminal, one line that is overwritten."""
    over = sys.stderr.isatty() and not args.verbose
    stream = unwrap_stream(sys.stderr)

    def tell(progress: CalibrationProgress) -> None:
        left = f", about {progress.left_s:.0f} s left" if progress.left_s is not None else ""
        which = f"{progress.trial}/{progress.expected} " if progress.trial else ""
        text = single_line(f"{which}{progress.doing}{left}")
        stream.write(f"\r\x1b[K{text}" if over else f"{text}\n")
        stream.flush()

    return tell


def _print(envelope: Envelope, *, as_json: bool) -> None:
    from labconsole.cli.text.calibration import envelope_lines

    answer(envelope.to_json(), envelope_lines(envelope), as_json=as_json)


def _show(inventory: Inventory, store: RunStore, *, as_json: bool) -> int:
    """Show the last calibration of this testbed. Raises MeasurementError if there is no valid one."""
    from labconsole.model.record.envelope import parse_envelope

    record = store.latest_calibration(inventory.fingerprint())
    if record is not None:
        _print(parse_envelope(record), as_json=as_json)
        return 0
    others = [each for each in store.calibrations() if each.get("testbed") == inventory.testbed]
    why = "it has never been calibrated"
    if others:
        with contextlib.suppress(KeyError):
            why = (
                f"the last one, {others[0]['calibration_id']}, is of fingerprint {others[0]['testbed_fingerprint']}, "
                f"and hosts.yaml now has {inventory.fingerprint()}"
            )
    raise MeasurementError(f"there is no valid calibration of {inventory.testbed}: {why}; run `labconsole calibrate`")
