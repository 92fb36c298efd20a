"""A store of version 3 brought up to date: whatever interrupts it, every record stays what it was, byte for byte."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import time
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from labconsole.errors import StoreError
from labconsole.model.record.search import SEARCH
from labconsole.store.open import open_store
from labconsole.store.records import record_text
from labconsole.store.sql.schema import SCHEMA_VERSION
from support import golden_sets
from support.store_samples import sample_record

GOLDEN = Path(__file__).parents[2] / "golden" / "format-1" / "runs.sqlite"
COLUMNS = (
    "run_id, started_at, testbed, testbed_fingerprint, emulated, generator, platform, frame_size_bytes, "
    "frame_size_includes_fcs, sources, target_bps, background, duration_s, verdict, reason_codes, has_series, record"
)
"""What an older console writes, as far as it must not be null."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "runs.sqlite"
    shutil.copy(GOLDEN, path)
    return path


def texts(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The records of runs and of searches, which version 5 moves to another table."""
    return golden_sets.texts(path), golden_sets.texts(path, "searches", "search_id")


def enlarge(path: Path, times: int) -> None:
    """The same runs again and again under other ids, so that a migration takes long enough to be interrupted."""
    connection = sqlite3.connect(path)
    with connection:
        for copy in range(times):
            connection.execute(
                f"INSERT INTO runs ({COLUMNS}) SELECT replace(run_id, 'Z-', 'Z-{copy}x'), started_at, testbed, "
                "testbed_fingerprint, emulated, generator, platform, frame_size_bytes, frame_size_includes_fcs, sources,"
                ' target_bps, background, duration_s, verdict, reason_codes, 0, replace(record, \'"run_id":"\' || '
                f"run_id, '\"run_id\":\"' || replace(run_id, 'Z-', 'Z-{copy}x')) FROM runs WHERE instr(run_id, 'x') = 0"
            )
    connection.close()


def _open(url: str) -> None:
    open_store(url).close()


def test_what_only_records_say_is_in_the_columns_afterwards(old: Path):
    before = texts(old)
    with open_store(str(old), write=False) as store:
        read_only = {run.run_id: run for run in store.list()}
    with open_store(str(old)) as store:
        runs = {run.run_id: run for run in store.list()}
    assert texts(old) == before
    assert runs == read_only
    assert {run.format for run in runs.values()} == {1}
    assert {run.method for run in runs.values()} == {1}
    assert {run.set_up for run in runs.values()} == {None}
    assert all(run.uut_kernel and run.hypervisor and run.boot_id for run in runs.values())


def test_a_migration_that_is_killed_leaves_the_old_store_or_the_new_one(old: Path):
    enlarge(old, 40)
    before, moments = texts(old), random.Random(11)
    context = multiprocessing.get_context("fork")
    for _ in range(6):
        process = context.Process(target=_open, args=(str(old),))
        process.start()
        time.sleep(moments.uniform(0.005, 0.4))  # the moment of the kill, not a wait for anything
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert texts(old) == before
        with open_store(str(old), write=False) as store:
            assert store.version in (3, SCHEMA_VERSION)
            assert len(store.list()) == len(before[0])
            assert dict(store.experiment_texts(SEARCH)) == before[1]
    with open_store(str(old)) as store:
        assert {run.format for run in store.list()} == {1}
    assert texts(old) == before


def test_a_disk_that_is_full_leaves_the_old_store(old: Path):
    before = texts(old)
    connection = sqlite3.connect(old)
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.close()

    def bounded(raw: sqlite3.Connection, _record: object) -> None:
        raw.execute(f"PRAGMA max_page_count={pages + 3}")

    event.listen(Engine, "connect", bounded)
    try:
        with pytest.raises(StoreError, match="cannot open the run store: database or disk is full"):
            open_store(str(old))
    finally:
        event.remove(Engine, "connect", bounded)
    assert texts(old) == before
    with open_store(str(old)) as store:
        assert store.version == SCHEMA_VERSION
    assert texts(old) == before


def test_what_an_older_console_saves_beside_a_newer_one_is_filled_in_when_the_store_is_opened_next(old: Path):
    record = sample_record(1, format=1, method=1)
    with open_store(str(old)) as store:
        older = sqlite3.connect(old)  # it looked at the version before this one migrated
        with older:
            older.execute(
                f"INSERT INTO runs ({COLUMNS}) VALUES ({', '.join('?' * 17)})",
                (
                    record.run_id,
                    record.started_at,
                    "local",
                    "f",
                    1,
                    "afpacket",
                    "raw",
                    64,
                    0,
                    1,
                    None,
                    "none",
                    5.0,
                    "valid",
                    "",
                    0,
                    record_text(record),
                ),
            )
        older.close()
        found = next(run for run in store.list() if run.run_id == record.run_id)
        assert (found.format, found.method, found.set_up) == (None, None, None)
        assert store.get(record.run_id) == record
    with open_store(str(old)) as store:
        found = next(run for run in store.list() if run.run_id == record.run_id)
        assert (found.format, found.method, found.offered_packets) == (1, 1, 710_225)


def test_a_record_that_cannot_be_read_keeps_its_row(old: Path):
    connection = sqlite3.connect(old)
    with connection:
        (run_id,) = connection.execute("SELECT run_id FROM runs LIMIT 1").fetchone()
        connection.execute("UPDATE runs SET record = '{' WHERE run_id = ?", (run_id,))
    connection.close()
    with open_store(str(old)) as store:
        found = next(run for run in store.list() if run.run_id == run_id)
        assert (found.format, found.uut_kernel) == (0, None)
        assert len(store.list()) == len(texts(old)[0])
