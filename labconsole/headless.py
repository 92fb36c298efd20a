"""The headless command run, and what the commands that measure share. stdout carries results, stderr the narration."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from labconsole.engine.dry_run import set_up_commands, set_ups
from labconsole.engine.events import Event, NodeChanged, NodeState, Notice, PhaseChanged, TrialFinished, TrialStarted
from labconsole.engine.session import Session
from labconsole.errors import Aborted, ConfigError, LeaseHeld, NodeUnreachable
from labconsole.model.inventory import Inventory, load_inventory
from labconsole.model.request import TrialRequest, check_request
from labconsole.platforms import driver_for
from labconsole.store import RunStore
from labconsole.testbed import hosts_path, load_testbed, open_session
from labconsole.text_report import run_lines
from labconsole.units import parse_rate_bps


def request_from(args: argparse.Namespace, inventory: Inventory) -> TrialRequest:
    """The trial a ``run`` command line asks for. Raises ConfigError."""
    target: int | str = args.target
    if target != "max":
        try:
            target = parse_rate_bps(args.target)
        except ValueError as exc:
            raise ConfigError("is not a rate", key="--target", value=args.target, allowed=f"{exc}, or max") from None
    if args.repetitions < 1:
        raise ConfigError("must be 1 or more", key="--repetitions", value=args.repetitions)
    request = TrialRequest(
        platform=args.platform or next(iter(inventory.platforms)),
        frame_size_bytes=args.frame_size,
        frame_size_includes_fcs=args.includes_fcs or inventory.defaults.frame_size_includes_fcs,
        sources=args.sources,
        target_bps=target,  # type: ignore[arg-type]
        duration_s=args.duration,
        background=args.background,
        generator=args.generator or inventory.defaults.generator,
        observe=args.observe or inventory.defaults.observe,
    )
    check_request(request, inventory, where="--")
    return request


def run(args: argparse.Namespace) -> int:
    """``labconsole run``: one design point, now."""
    if args.dry_run:
        inventory = load_inventory(hosts_path(args.hosts))
        show_set_ups([request_from(args, inventory)], inventory, as_json=args.json)
        return 0
    inventory, store = load_testbed(hosts_path(args.hosts), args.store)
    request = request_from(args, inventory)

    async def work(session: Session[RunStore]) -> int:
        records = await session.run(request, args.repetitions, take_over=args.take_over)
        if session.stopping:
            return Aborted.exit_code
        return 1 if any(record.verdict.status == "invalid" for record in records) else 0

    def show(event: Event) -> None:
        if isinstance(event, TrialFinished):
            if args.json:
                json_line(event.record.to_json())
            else:
                sys.stdout.write("\n".join(run_lines(event.record, saved=event.saved)) + "\n")
                sys.stdout.flush()

    session = open_session(inventory, store)
    session.check_background(request)
    return drive(session, session.nodes_of(request), work, [show, narrator(args)])


def show_set_ups(requests: Iterable[TrialRequest], inventory: Inventory, *, as_json: bool) -> None:
    """What setting up the platforms of these requests would do on the UUT: once for each, all else is the same."""
    for request in set_ups(requests):
        commands = set_up_commands(request, inventory, driver_for)
        beside = request.background != "none"
        if as_json:
            told = {"platform": request.platform, "second_guest": beside, "commands": commands}
            json_line({"event": "set_up", **told})
            continue
        with_second = " with a second guest" if beside else ""
        sys.stdout.write(f"{request.platform}{with_second}, on {inventory.uut}:\n")
        sys.stdout.writelines(f"  {line}\n" for line in commands or ["# nothing"])


def drive(
    session: Session[RunStore],
    nodes: list[str],
    work: Callable[[Session[RunStore]], Coroutine[Any, Any, int]],
    listeners: list[Callable[[Event], None]],
    *,
    kept: str = "what was measured is kept",
    finish: Callable[[], None] | None = None,
) -> int:
    """Connect, work, close. The first Ctrl-C or TERM stops in order and saves; the second gives up at once.

    With ``finish``, the first TERM (or HUP) while trials are taken calls that, which lets the running trial end.

    Either way every agent undoes what it did: it notices the end of its link by itself.
    """

    async def body() -> int:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        told = finishing = False

        def interrupt(number: signal.Signals) -> None:
            nonlocal told, finishing
            if finish is not None and number is not signal.SIGINT and session.running and not (told or finishing):
                finishing = True
                sys.stderr.write("labconsole: the running trial ends first (again, or Ctrl-C: stop it)\n")
                finish()
                return
            if told:
                task.cancel()
                return
            told = True
            sys.stderr.write(f"labconsole: stopping; {kept} (again: give up at once)\n")
            if session.running:
                stopping.append(loop.create_task(session.abort()))
            else:
                task.cancel()

        stopping: list[asyncio.Task[None]] = []
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, interrupt, number)
        for listener in listeners:
            session.subscribe(listener)
        try:
            await session.connect(nodes)
            failed = [n for n in nodes if session.telemetry.nodes[n].state is not NodeState.CONNECTED]
            if failed:
                reasons = "; ".join(f"{n}: {session.telemetry.nodes[n].message}" for n in failed[1:])
                first = NodeUnreachable(failed[0], session.telemetry.nodes[failed[0]].message)
                raise NodeUnreachable(failed[0], first.message + (f"; {reasons}" if reasons else ""))
            return await work(session)
        except LeaseHeld as exc:
            raise LeaseHeld(exc.node, f"{exc.message}; --take-over takes it from them", code=exc.code) from None
        finally:
            await session.close()

    try:
        return asyncio.run(body())
    except asyncio.CancelledError:
        return Aborted.exit_code


def json_line(data: dict[str, Any]) -> None:
    """One object on stdout, at once."""
    sys.stdout.write(json.dumps(data) + "\n")
    sys.stdout.flush()


def narrator(args: argparse.Namespace, *, quiet: bool = False) -> Callable[[Event], None]:
    """What happens, on stderr: notices and lost nodes always, phases with -v."""

    def tell(event: Event) -> None:
        if isinstance(event, Notice):
            where = f"{event.node}: " if event.node else ""
            sys.stderr.write(f"labconsole: {event.severity}: {where}{event.message}\n")
        elif isinstance(event, NodeChanged) and event.state is NodeState.LOST:
            sys.stderr.write(f"labconsole: {event.node} lost: {event.message}\n")
        elif isinstance(event, TrialStarted) and not quiet:
            sys.stderr.write(f"{event.request.describe()} ({event.repetition}/{event.repetitions})\n")
        elif args.verbose and isinstance(event, (PhaseChanged, NodeChanged)):
            text = f"{event.node} {event.state}" if isinstance(event, NodeChanged) else str(event.phase)
            sys.stderr.write(f"  {text}\n")

    return tell
