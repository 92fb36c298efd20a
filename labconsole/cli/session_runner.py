"""Shared parts of the commands that measure: a dry run's store, running a session, narrating its events on stderr."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from labconsole.api.measuring import connected
from labconsole.cli.output import print_error, print_json_line, print_lines, print_progress
from labconsole.engine.live.events import Event, NodeChanged, NodeState, Notice, PhaseChanged, TrialStarted
from labconsole.engine.testbed import Testbed
from labconsole.engine.trial.platform import set_up_commands, set_ups
from labconsole.errors import Aborted, LeaseHeld
from labconsole.model.design_point import DesignPoint
from labconsole.model.inventory import Inventory
from labconsole.platforms.loading import build_driver
from labconsole.store.location import would_create
from labconsole.store.writing import RunStore

# -- dry run store -----------------------------------------------------------------------------------------------------
# The store that a dry run reads: the real one, or a temporary empty one if there is none yet.


def find_dry_run_store(opened: ExitStack, place: str | None) -> tuple[str | None, bool]:
    """Where to look, and whether that may be written to. ``opened`` removes what is made for it.

    A dry run makes nothing, and changes nothing. Raises StoreError.
    """
    if not would_create(place):
        return place, False
    return str(Path(opened.enter_context(TemporaryDirectory())) / "runs.sqlite"), True


# -- sessions ----------------------------------------------------------------------------------------------------------


def show_set_ups(requests: Iterable[DesignPoint], inventory: Inventory, *, as_json: bool) -> None:
    """Print how the platforms of these requests would be set up on the UUT: once for each, as all else is the same."""
    for request in set_ups(requests):
        commands = set_up_commands(request, inventory, build_driver)
        second_guest = request.background != "none"
        if as_json:
            event = {"platform": request.platform, "second_guest": second_guest, "commands": commands}
            print_json_line({"event": "set_up", **event})
            continue
        with_second = " with a second guest" if second_guest else ""
        lines = [f"  {line}" for line in commands or ["# nothing"]]
        print_lines(f"{request.platform}{with_second}, on {inventory.uut}:", *lines)


def run_session(
    session: Testbed[RunStore],
    nodes: list[str],
    work: Callable[[Testbed[RunStore]], Coroutine[Any, Any, int]],
    listeners: list[Callable[[Event], None]],
    *,
    kept: str = "what was measured is saved",
    finish: Callable[[], None] | None = None,
) -> int:
    """Connect, work, close. The first Ctrl-C or TERM stops in order and saves; the second gives up at once.

    With ``finish``, the first TERM (or HUP) during trials calls that, which lets the running trial end.

    In both cases every agent reverts its changes: it notices the end of its link by itself.
    """

    async def body() -> int:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        interrupted = finishing = False

        def interrupt(number: signal.Signals) -> None:
            nonlocal interrupted, finishing
            if (
                finish is not None
                and number is not signal.SIGINT
                and session.running
                and not (interrupted or finishing)
            ):
                finishing = True
                print_error("the running trial will finish first (repeat, or press Ctrl-C, to stop it now)")
                finish()
                return
            if interrupted:
                task.cancel()
                return
            interrupted = True
            print_error(f"stopping; {kept} (repeat to give up at once)")
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
            async with connected(session, nodes):
                return await work(session)
        except LeaseHeld as exc:
            raise LeaseHeld(
                exc.node, f"{exc.message}; use --take-over to take the testbed from them", code=exc.code
            ) from None

    try:
        return asyncio.run(body())
    except asyncio.CancelledError:
        return Aborted.exit_code


def build_narrator(args: argparse.Namespace, *, quiet: bool = False) -> Callable[[Event], None]:
    """Narrate events on stderr: notices and lost nodes always, phases with -v."""

    def tell(event: Event) -> None:
        if isinstance(event, Notice) and not event.is_raised:
            where = f"{event.node}: " if event.node else ""
            print_error(f"{event.severity}: {where}{event.message}")
        elif isinstance(event, NodeChanged) and event.state is NodeState.LOST:
            print_error(f"{event.node} lost: {event.message}")
        elif isinstance(event, TrialStarted) and not quiet:
            print_progress(f"{event.request.words()} ({event.repetition}/{event.repetitions})")
        elif args.verbose and isinstance(event, (PhaseChanged, NodeChanged)):
            text = f"{event.node} {event.state}" if isinstance(event, NodeChanged) else str(event.phase)
            print_progress(f"  {text}")

    return tell


async def read_typed_lines(interrupt: str) -> AsyncIterator[str]:
    """Yield typed lines, and ``interrupt`` for Ctrl-C.

    A thread reads, because a terminal cannot be awaited with everything else.
    """
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def read() -> None:
        try:
            sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
            for line in sys.stdin:
                loop.call_soon_threadsafe(queue.put_nowait, line)
        finally:
            with suppress(RuntimeError):  # the loop is closed: there is no listener any more
                loop.call_soon_threadsafe(queue.put_nowait, None)

    loop.add_signal_handler(signal.SIGINT, queue.put_nowait, interrupt)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, queue.put_nowait, None)
    threading.Thread(target=read, daemon=True).start()
    while (line := await queue.get()) is not None:
        yield line
