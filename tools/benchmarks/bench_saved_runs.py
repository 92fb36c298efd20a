"""How the screens Runs and Curves behave with very many saved runs: what blocks, how long a key waits, how much memory.

``python tools/benchmarks/bench_saved_runs.py [RUNS]``. Times depend on the machine; look at ratios and at the longest gap
of the event loop, which is what an operator feels.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from textual import events

from labconsole.measure.curves import CurveSpec
from labconsole.model.query import parse_query
from labconsole.model.record.summary import RunSummary, Sorting
from labconsole.store.open import open_store
from labconsole.tui.app import ConsoleApp
from labconsole.tui.console.saved_runs import SavedRuns
from labconsole.tui.parts.filter_line import FilterLine
from labconsole.tui.parts.runs_table import SavedRunsTable
from labconsole.tui.screens.bench.screen import BenchScreen
from labconsole.tui.screens.curves.curves_table import CurveFeed, CurvesTable
from labconsole.tui.screens.curves.screen import CurvesScreen
from labconsole.tui.screens.runs.screen import RunsScreen
from support.fake_session import FakeSession
from support.store_samples import sample_record

PLATFORMS = ("raw", "container", "kvm-virtio", "kvm-e1000")
SIZES = (64, 128, 256, 500, 1000, 1500)
TARGETS = (10**7, 10**8, 2 * 10**8, 4 * 10**8, 6 * 10**8, 8 * 10**8, 10**9, None)

FINDS = (
    ("", Sorting()),
    ("size=64", Sorting()),
    ("size=64 verdict!=invalid kvm", Sorting("loss")),
    ("platform=kvm-virtio", Sorting("measured", False)),
    ("kvm", Sorting()),
    ("zebra", Sorting()),
)


def fill(path: Path, runs: int) -> None:
    """A store of that many runs: one real row, varied."""
    with open_store(str(path)) as store:
        store.save(sample_record(0), None)
    with sqlite3.connect(path) as connection:
        cursor = connection.execute("SELECT * FROM runs")
        names = [column[0] for column in cursor.description]
        row = dict(zip(names, cursor.fetchone(), strict=True))
        statement = f"INSERT INTO runs VALUES ({', '.join(':' + name for name in names)})"
        rows: list[dict[str, object]] = []
        for number in range(1, runs):
            seconds = 20 * number
            day, rest = divmod(seconds, 86400)
            started = f"{2026 + day // 336}-{1 + day // 28 % 12:02d}-{1 + day % 28:02d}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
            run_id = f"{started.replace('-', '').replace(':', '')}Z-{number:06x}"
            record = json.loads(row["record"])
            record["run_id"], record["started_at"] = run_id, f"{started}.000Z"
            share = 1 - (number % 7) / 1000
            rows.append(
                {
                    **row,
                    "run_id": run_id,
                    "started_at": f"{started}.000000Z",
                    "platform": PLATFORMS[number % 4],
                    "frame_size_bytes": SIZES[number // 4 % 6],
                    "sources": 1 + number // 24 % 3,
                    "target_bps": TARGETS[number // 72 % 8],
                    "measured_pps": row["offered_pps"] * share,
                    "forwarding_pps": row["offered_pps"] * share,
                    "forwarding_bps": row["offered_bps"] * share,
                    "verdict": "invalid" if number % 50 == 0 else "valid",
                    "record": json.dumps(record),
                }
            )
            if len(rows) == 10_000:
                connection.executemany(statement, rows)
                rows.clear()
        connection.executemany(statement, rows)
    connection.close()


def rss_mb() -> float:
    """Resident memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


class Gaps:
    """The longest time in which the event loop did nothing for anybody else."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            self.longest_s = max(self.longest_s, time.perf_counter() - before - 0.005)

    def take(self) -> str:
        """The longest since the last call."""
        longest, self.longest_s = self.longest_s, 0.0
        return f"longest gap {longest * 1000:6.0f} ms"


async def runner(path: Path, runs: int) -> None:
    """Open both screens, type a filter, sort, scroll."""
    store = open_store(str(path))

    def factory() -> FakeSession:
        session = FakeSession()
        session.store = store  # type: ignore[assignment]
        return session

    app = ConsoleApp(factory)
    async with app.run_test(size=(200, 60)) as pilot:
        while not isinstance(app.screen, BenchScreen):
            await pilot.pause(0.02)
        await pilot.pause(0.5)
        gaps, before_mb = Gaps(), rss_mb()
        began, cpu = time.perf_counter(), time.process_time()
        app.post_message(events.Key("2", "2"))  # Pilot would wait until all is still
        while not (isinstance(app.screen, RunsScreen) and app.screen.query(SavedRunsTable)):
            await asyncio.sleep(0.002)
        table = app.screen.query_one(SavedRunsTable)
        while not table.order:
            await asyncio.sleep(0.002)
        print(f"first rows        {time.perf_counter() - began:6.2f} s   {gaps.take()}")
        print(f"                  {rss_mb() - before_mb:6.0f} MB   {time.process_time() - cpu:5.2f} s CPU")
        shown: list[float] = []
        show_saved = table.show_saved

        def show(by_id: Mapping[str, RunSummary], order: Sequence[str]) -> None:
            show_saved(by_id, order)
            shown.append(time.perf_counter())

        table.show_saved = show
        listed, line = app.screen._listed, app.screen.query_one(FilterLine)
        for words, keys in (
            ("typing a filter", [*"size", "equals_sign", *"64"]),
            ("typing a word", ["space", *"zebra"]),
            ("scrolling", ["pagedown"] * 20),
            ("to the end", ["end"]),
        ):
            if words.startswith("typing"):
                await pilot.press("slash", "end")
            gaps.take()
            spent, worst, cpu = 0.0, 0.0, time.process_time()
            for key in keys:
                began = time.perf_counter()
                await pilot.press(key)
                while listed.query.terms != line.meant.terms or app.screen._looking:
                    await asyncio.sleep(0.002)
                # Pilot waits for much after a key: what counts is when the rows stand, where the key changed them.
                took = (shown[-1] if shown and shown[-1] > began else time.perf_counter()) - began
                spent, worst = spent + took, max(worst, took)
            each_ms, cpu_ms = ((1000 * t) / len(keys) for t in (spent, time.process_time() - cpu))
            print(
                f"{words:<17} {each_ms:6.0f} ms/key, {1000 * worst:4.0f} at most   {cpu_ms:6.0f} ms CPU/key   {gaps.take()}"
            )
            if words == "typing a word":
                await pilot.press("enter", "escape")
                await pilot.pause(0.5)
        began = time.perf_counter()
        await pilot.press("3")
        while not (
            isinstance(app.screen, CurvesScreen)
            and app.screen.query("#points")
            and app.screen.query_one("#points", CurvesTable).keys()
        ):
            await pilot.pause(0.01)
        print(
            f"curves            {time.perf_counter() - began:6.2f} s   {gaps.take()}   {rss_mb() - before_mb:5.0f} MB"
        )
    store.close()


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "runs.sqlite"
        fill(path, runs)
        with open_store(str(path), write=False) as store:
            saved = SavedRuns(store)
            began, cpu = time.perf_counter(), time.process_time()
            asyncio.run(saved.refresh(lambda: None))
            print(f"reading summaries {time.perf_counter() - began:6.2f} s   {time.process_time() - cpu:6.2f} s CPU")
        with open_store(str(path)) as store:
            for typed, sorting in FINDS:
                query = parse_query(typed)
                for words, call in (
                    ("rows", lambda query=query, sorting=sorting: store.find(query, sorting, limit=500)),
                    ("count", lambda query=query, sorting=sorting: store.count_matching(query)),
                ):
                    began, cpu = time.perf_counter(), time.process_time()
                    call()
                    wall_ms, cpu_ms = (1000 * t for t in (time.perf_counter() - began, time.process_time() - cpu))
                    print(f"{words:<6} {wall_ms:6.0f} ms {cpu_ms:6.0f} ms CPU   {typed!r} by {sorting.column}")
        cpu = time.process_time()
        CurveFeed().curves(saved.runs, parse_query(""), 0, CurveSpec())
        print(f"curves, all       {(time.process_time() - cpu) * 1000:6.0f} ms CPU")
        del saved
        asyncio.run(runner(path, runs))


if __name__ == "__main__":
    main()
