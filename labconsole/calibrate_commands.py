"""``labconsole calibrate``: bypasses the UUT (a lab by itself, else the operator), calibrates, saves, and shows it."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from labconsole import lab
from labconsole.calibration_report import envelope_lines
from labconsole.engine.bypass import cabling
from labconsole.engine.calibration import CalibrationProgress, CalibrationRequest, calibrate
from labconsole.engine.session import Session
from labconsole.errors import ConfigError, MeasurementError
from labconsole.headless import drive
from labconsole.model.envelope import Envelope, parse_envelope
from labconsole.model.inventory import Inventory, Platform
from labconsole.model.plan_load import load_plan
from labconsole.store import RunStore
from labconsole.terminal import undisguised
from labconsole.testbed import hosts_path, load_testbed, open_session

PAPER_FRAME_SIZES = (64, 500, 1000, 1500)
DRIVER = "bypass"
BYPASS = Literal["lab", "patched", "inventory"]


def run(args: argparse.Namespace) -> int:
    """Take a calibration, or show the last one."""
    hosts = hosts_path(args.hosts)
    inventory, store = load_testbed(hosts, args.store)
    if args.show:
        return _show(inventory, store, as_json=args.json)
    platform, with_bypass = _with_bypass(inventory)
    wanted = _request(args, inventory, platform)
    with _bypassed(args, inventory, wanted, given=platform in inventory.platforms) as how:
        session = open_session(with_bypass, store)
        session.envelope = None  # a calibration is not held against the one before

        async def work(session: Session[RunStore]) -> int:
            envelope = await calibrate(session, wanted, inventory.fingerprint(), how, _progress(args))
            store.save_calibration(envelope.to_json())
            if sys.stderr.isatty():
                sys.stderr.write("\n")
            _print(envelope, as_json=args.json)
            return 0

        streams = inventory.streams[: max(wanted.source_counts)]
        needed = [inventory.uut, *(s.source.node for s in streams), *(s.sink.node for s in streams)]
        return drive(session, list(dict.fromkeys(needed)), work, [], kept="nothing of the calibration is kept")


def _with_bypass(inventory: Inventory) -> tuple[str, Inventory]:
    """The name of the bypass, and the inventory with it: its own, or one added for this purpose only."""
    for name, platform in inventory.platforms.items():
        if platform.driver == DRIVER:
            return name, inventory
    platforms = {**inventory.platforms, DRIVER: Platform(driver=DRIVER)}
    return DRIVER, inventory.model_copy(update={"platforms": platforms})


def _request(args: argparse.Namespace, inventory: Inventory, platform: str) -> CalibrationRequest:
    plan = load_plan(args.plan, inventory) if args.plan is not None else None
    requests = [point.request for point in plan.points] if plan is not None else []
    sizes = tuple(args.frame_size or dict.fromkeys(r.frame_size_bytes for r in requests)) or PAPER_FRAME_SIZES
    includes_fcs = args.includes_fcs or inventory.defaults.frame_size_includes_fcs
    if requests and not args.frame_size:
        includes_fcs = requests[0].frame_size_includes_fcs
    everyone = len(inventory.streams)
    counts = tuple(args.sources or ((1, everyone) if inventory.emulated else (everyone,)))
    if requests and not args.sources:
        counts = tuple(sorted({request.sources for request in requests}))
    if args.duration < 0.1:
        raise ConfigError("is too short to count on", key="--duration", value=args.duration, allowed="0.1 or more")
    return CalibrationRequest(
        platform=platform,
        frame_sizes=tuple(dict.fromkeys(sizes)),
        frame_size_includes_fcs=includes_fcs,
        source_counts=tuple(dict.fromkeys(counts)),
        duration_s=args.duration,
        generator=args.generator or (requests[0].generator if requests else inventory.defaults.generator),
        time_limit_s=args.time_limit,
        take_over=args.take_over,
    )


@contextmanager
def _bypassed(
    args: argparse.Namespace, inventory: Inventory, wanted: CalibrationRequest, *, given: bool
) -> Iterator[BYPASS]:
    """With the UUT out of the way: a lab is rewired and wired back, an operator is told what to connect."""
    if args.wired:
        yield "patched"
        return
    name = lab.of_inventory({node: each.address for node, each in inventory.nodes.items()})
    if name is not None:
        sys.stderr.write(f"lab {name}: every source is wired straight to its sink, and back at the end\n")
        with lab.bypassed(name):
            yield "lab"
        return
    if given:
        yield "inventory"
        return
    lines = cabling(inventory, inventory.streams[: max(wanted.source_counts)])
    sys.stderr.write("calibration needs the unit under test out of the way:\n")
    sys.stderr.writelines(f"  {line}\n" for line in lines)
    if sys.stdin.isatty():
        sys.stderr.write("Enter when that is done, Ctrl-C to leave: ")
        sys.stderr.flush()
        sys.stdin.readline()
    yield "patched"
    sys.stderr.write("put the cables back before measuring\n")


def _progress(args: argparse.Namespace) -> Callable[[CalibrationProgress], None]:
    """One line per trial on stderr; on a terminal, one that is written over."""
    over = sys.stderr.isatty() and not args.verbose
    stream = undisguised(sys.stderr)  # what is written here is ours

    def tell(progress: CalibrationProgress) -> None:
        left = f", about {progress.left_s:.0f} s left" if progress.left_s is not None else ""
        text = f"{progress.done + 1}/{max(progress.expected, progress.done + 1)} {progress.doing}{left}"
        stream.write(f"\r\x1b[K{text}" if over else f"{text}\n")
        stream.flush()

    return tell


def _print(envelope: Envelope, *, as_json: bool) -> None:
    text = json.dumps(envelope.to_json()) if as_json else "\n".join(envelope_lines(envelope))
    sys.stdout.write(text + "\n")


def _show(inventory: Inventory, store: RunStore, *, as_json: bool) -> int:
    """The last calibration of this testbed. Raises MeasurementError where there is none that holds."""
    record = store.latest_calibration(inventory.fingerprint())
    if record is not None:
        _print(parse_envelope(record), as_json=as_json)
        return 0
    others = [each for each in store.calibrations() if each.get("testbed") == inventory.testbed]
    why = "it was never calibrated"
    if others:
        with contextlib.suppress(KeyError):
            why = (
                f"the last one, {others[0]['calibration_id']}, is of fingerprint {others[0]['testbed_fingerprint']}, "
                f"and hosts.yaml now has {inventory.fingerprint()}"
            )
    raise MeasurementError(f"no valid calibration of {inventory.testbed}: {why}; type: labconsole calibrate")
