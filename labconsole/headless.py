"""The headless commands run, replay and runs. stdout carries results, stderr the narration."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from labconsole.engine.campaign import Outcome, Progress, remaining, run_campaign
from labconsole.engine.events import Event, NodeChanged, NodeState, Notice, PhaseChanged, TrialFinished, TrialStarted
from labconsole.engine.session import Session
from labconsole.engine.stamps import operator_name
from labconsole.errors import Aborted, ConfigError, LeaseHeld, NodeUnreachable, StoreError
from labconsole.model.inventory import Inventory
from labconsole.model.note import exported
from labconsole.model.plan import Plan
from labconsole.model.plan_estimate import Estimate, estimate
from labconsole.model.plan_load import load_plan
from labconsole.model.record import RunRecord
from labconsole.model.request import TrialRequest, check_request
from labconsole.store import RunStore
from labconsole.terminal import harmless, undisguised
from labconsole.testbed import hosts_path, load_testbed, open_session
from labconsole.text_report import note_lines, run_lines, run_row, runs_table
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
                _json_line(event.record.to_json())
            else:
                sys.stdout.write("\n".join(run_lines(event.record, saved=event.saved)) + "\n")
                sys.stdout.flush()

    session = open_session(inventory, store)
    streams = inventory.streams[: request.sources]
    needed = [inventory.uut, *(s.source.node for s in streams), *(s.sink.node for s in streams)]
    return drive(session, list(dict.fromkeys(needed)), work, [show, _narrator(args)])


def replay(args: argparse.Namespace) -> int:
    """``labconsole replay``: a plan, headless, resumable."""
    inventory, store = load_testbed(hosts_path(args.hosts), args.store)
    plan = load_plan(args.plan, inventory)
    session = open_session(inventory, store)
    if args.dry_run:
        todo = remaining(plan, session)
        return _show_schedule(plan, todo, estimate(plan, inventory, todo), as_json=args.json)
    needed = [inventory.uut]
    for stream in inventory.streams[: max(plan.sources)]:
        needed += [stream.source.node, stream.sink.node]

    async def work(session: Session[RunStore]) -> int:
        with _ReplayScreen(plan, as_json=args.json) as screen:
            outcome = await run_campaign(plan, session, screen.update, take_over=args.take_over)
        return _report_outcome(plan, outcome, as_json=args.json)

    return drive(session, list(dict.fromkeys(needed)), work, [_narrator(args, quiet=True)])


def runs(args: argparse.Namespace) -> int:
    """``labconsole runs``: what is saved and noted; out of the store as JSON lines, and back in without doubles."""
    from labconsole.store import open_store
    from labconsole.store.exchange import read_jsonl

    needed = {"show": "a run's id", "note": "a run's id", "import": "a file of JSON lines"}.get(args.action)
    if needed and not args.what:
        raise ConfigError(f"runs {args.action} needs {needed}")
    if args.text is not None and args.action != "note":
        raise ConfigError(f"runs {args.action} takes no further word", value=args.text)
    writes = args.action == "import" or (args.action == "note" and args.text is not None)
    with open_store(args.store, write=writes) as store:
        if args.action == "import":
            result = store.import_records(read_jsonl(Path(args.what)))
            if args.json:
                _json_line({"added": result.added, "present": result.present, "notes": result.notes})
            else:
                notes = f", {result.notes} notes taken" if result.notes else ""
                sys.stdout.write(f"{result.added} runs added, {result.present} were there already{notes}\n")
        elif args.action == "export":
            notes_by_run = store.notes()
            for record in store.iterate(unreadable=_tell_unreadable):
                _json_line(exported(record, notes_by_run.get(record.run_id)))
        elif args.action == "show":
            record = store.get(args.what)
            if args.json:
                _json_line(exported(record, store.note(record.run_id)))
            else:
                lines = run_lines(record, saved=True, details=True)
                sys.stdout.write("\n".join(lines + note_lines(store.note(record.run_id))) + "\n")
        elif args.action == "note":
            _note(store, args)
        else:
            summaries = store.list(limit=args.limit)
            if args.json:
                for summary in summaries:
                    try:
                        _json_line(exported(store.get(summary.run_id), store.note(summary.run_id)))
                    except StoreError as exc:
                        _tell_unreadable(exc)
            else:
                sys.stdout.write("\n".join(runs_table(summaries)) + "\n")
    return 0


def _note(store: RunStore, args: argparse.Namespace) -> None:
    """``labconsole runs note ID [TEXT]``: write the note on a run (an empty text removes it), or show it."""
    if args.text is not None:
        store.set_note(args.what, args.text, author=operator_name())
    note = store.note(args.what)
    if args.json:
        _json_line({"run_id": store.get(args.what).run_id, "note": None if note is None else note.to_json()})
    else:
        sys.stdout.write("\n".join(note_lines(note) or ["no note"]) + "\n")


def _tell_unreadable(problem: StoreError) -> None:
    sys.stderr.write(f"labconsole: left out: {problem}\n")


def drive(
    session: Session[RunStore],
    nodes: list[str],
    work: Callable[[Session[RunStore]], Coroutine[Any, Any, int]],
    listeners: list[Callable[[Event], None]],
    *,
    kept: str = "what was measured is kept",
) -> int:
    """Connect, work, close. The first Ctrl-C or TERM stops in order and saves; the second gives up at once.

    Either way every agent undoes what it did: it notices the end of its link by itself.
    """

    async def body() -> int:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        told = False

        def interrupt() -> None:
            nonlocal told
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
            loop.add_signal_handler(number, interrupt)
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


def _json_line(data: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(data) + "\n")
    sys.stdout.flush()


def _narrator(args: argparse.Namespace, *, quiet: bool = False) -> Callable[[Event], None]:
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


class _ReplayScreen:
    """Progress of a replay: a rich bar with rate and time left for people, JSON lines for machines."""

    def __init__(self, plan: Plan, *, as_json: bool) -> None:
        self._plan, self._as_json = plan, as_json
        if not as_json:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._console = Console(file=undisguised(sys.stderr))
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
                console=self._console,
            )
            self._task = self._bar.add_task(plan.name, total=plan.trials, rate="", left="")

    def __enter__(self) -> _ReplayScreen:
        if not self._as_json:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._as_json:
            self._bar.stop()

    def update(self, progress: Progress) -> None:
        """One trial begins (``last`` is None) or has ended."""
        if self._as_json:
            if progress.last is not None:
                _json_line(progress.last.to_json())
            return
        done = progress.done + progress.skipped
        elapsed_s = self._bar.tasks[0].elapsed or 0
        rate = f"{progress.done / elapsed_s * 60:.1f} runs/min" if progress.done and elapsed_s else ""
        left = f"{_minutes(progress.left_s)} left" if progress.left_s is not None else ""
        self._bar.update(self._task, completed=done, rate=rate, left=left)
        if progress.last is not None:
            # Plain text: a record's words come from nodes and must not be read as markup.
            self._console.print(harmless(run_row(progress.last)), markup=False, highlight=False, soft_wrap=True)


def _minutes(seconds: float) -> str:
    return f"{int(seconds // 3600)}:{int(seconds % 3600 // 60):02d}:{int(seconds % 60):02d}"


def _show_schedule(plan: Plan, todo: list[tuple[int, int]], time: Estimate, *, as_json: bool) -> int:
    for index, repetition in todo:
        request = plan.points[index].request
        if as_json:
            _json_line(
                {
                    "point": index,
                    "repetition": repetition,
                    "platform": request.platform,
                    "frame_size_bytes": request.frame_size_bytes,
                    "sources": request.sources,
                    "target_bps": request.target_bps,
                    "background": request.background,
                    "duration_s": request.duration_s,
                }
            )
        else:
            sys.stdout.write(f"{index:>5}  #{repetition:<3} {request.describe()}\n")
    summary = {
        "plan": plan.name,
        "hash": plan.hash(),
        "trials": plan.trials,
        "remaining": len(todo),
        "per_trial_s": time.per_trial_s,
        "total_s": time.total_s,
    }
    if as_json:
        _json_line(summary)
    else:
        done = plan.trials - len(todo)
        sys.stdout.write(
            f"{plan.name}: {len(todo)} of {plan.trials} trials to take ({done} stored already), "
            f"{time.per_trial_s:.1f} s each, about {_minutes(time.total_s)} in all\n"
        )
    return 0


def _report_outcome(plan: Plan, outcome: Outcome, *, as_json: bool) -> int:
    verdicts = dict(outcome.verdicts)
    if as_json:
        _json_line(
            {
                "plan": plan.name,
                "taken": outcome.taken,
                "skipped": outcome.skipped,
                "redone": outcome.redone,
                "verdicts": verdicts,
                "invalid": [record.run_id for record in outcome.invalid],
                "stopped": outcome.stopped,
            }
        )
    else:
        counts = ", ".join(f"{count} {word}" for word, count in sorted(verdicts.items())) or "nothing to do"
        word = "stopped" if outcome.stopped else "done"
        sys.stdout.write(
            f"{plan.name}: {word}; {outcome.taken} taken ({counts}), {outcome.skipped} stored before, "
            f"{outcome.redone} redone\n"
        )
        for record in outcome.invalid:
            sys.stdout.write(f"  invalid: {_why(record)}\n")
    if outcome.stopped:
        return Aborted.exit_code
    return 1 if outcome.invalid else 0


def _why(record: RunRecord) -> str:
    return f"{record.run_id}: " + "; ".join(reason.detail for reason in record.verdict.reasons)
