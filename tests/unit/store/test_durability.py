"""What survives a kill, a full disk and another process; what cannot be opened, and in which words."""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from labconsole.errors import StoreError
from labconsole.store.importing import import_records
from labconsole.store.location import FileLocation, default_path, parse_location, would_create
from labconsole.store.open import open_store
from support.store_samples import sample_record, sample_series

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}

WRITER = """
import sys
from support.store_samples import sample_record, sample_series
from labconsole.store.open import open_store
first, path = int(sys.argv[1]), sys.argv[2]
with open_store(path) as store:
    for number in range(first, first + int(sys.argv[3])):
        record = sample_record(number)
        store.save(record, sample_series())
        print(record.run_id, flush=True)
"""


def start_writer(first: int, path: Path, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(first), str(path), str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def series_of(path: Path) -> list[str]:
    return [file.name for file in path.with_name(path.name + ".series").iterdir()]


def check_integrity(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_no_acknowledged_run_is_lost_when_the_writer_is_killed(tmp_path):
    path = tmp_path / "runs.sqlite"
    moments = random.Random(1)
    acknowledged: list[str] = []
    for attempt in range(4):
        with start_writer(attempt * 100_000, path, 100_000) as writer:
            assert writer.stdout is not None
            acknowledged.append(writer.stdout.readline().strip())
            time.sleep(moments.uniform(0.01, 0.25))  # the moment of the kill, not a wait for anything
            writer.send_signal(signal.SIGKILL)
            # A last line without its end was not acknowledged.
            acknowledged += [line.strip() for line in writer.stdout.read().splitlines(True) if line.endswith("\n")]
        assert writer.returncode == -signal.SIGKILL
    assert len(acknowledged) > 4
    with open_store(str(path)) as store:
        stored = {record.run_id for record in store.iterate()}
        assert set(acknowledged) <= stored
        assert len(stored) <= len(acknowledged) + 4
        assert all(store.series(run_id) == sample_series() for run_id in stored)
    check_integrity(path)


def test_several_processes_create_and_fill_one_store(tmp_path):
    path = tmp_path / "runs.sqlite"
    writers = [start_writer(number * 1000, path, 10) for number in range(4)]
    errors = [writer.communicate(timeout=60)[1] for writer in writers]
    assert errors == ["", "", "", ""]
    with open_store(str(path)) as store:
        assert store.count() == 40


def test_commits_reach_the_disk(tmp_path):
    with open_store(str(tmp_path / "runs.sqlite")) as store, store.backend.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 10_000


def test_a_full_disk_is_said_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "runs.sqlite"
    with open_store(str(path)) as store:
        store.save(sample_record(0), sample_series())
        with store.backend.engine.connect() as connection:  # the pool's only connection: the limit stays with it
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
        big = sample_record(1, environment={"uut": "x" * 100_000})
        with pytest.raises(StoreError, match=f"{path}: cannot save run {big.run_id}: database or disk is full"):
            store.save(big, sample_series())
        assert store.count() == 1
        assert series_of(path) == [f"{sample_record(0).run_id}.npz"]
        with store.backend.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count=1000000")
        store.save(big, sample_series())
        assert store.count() == 2
    check_integrity(path)


def test_no_room_for_the_series_is_said_and_leaves_nothing_behind(tmp_path):
    """A limit on the size of files stands in for the disk: the series does not fit, the database would."""
    program = """
import os, resource, sys
from labconsole.contracts.ports import Series
from labconsole.errors import StoreError
from support.store_samples import sample_record
from labconsole.store.open import open_store
import random
with open_store(sys.argv[1]) as store:
    noise = random.Random(1)
    series = Series({"t": {"x": [noise.random() for _ in range(40000)]}})
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    try:
        store.save(sample_record(), series)
    except StoreError as exc:
        print(exc)
    print(store.count(), os.listdir(sys.argv[1] + ".series"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.save(sample_record(), series)
    print(store.count())
"""
    path = tmp_path / "runs.sqlite"
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, env=ENVIRONMENT, check=True
    )
    message, nothing, one = done.stdout.splitlines()
    assert message == f"{path}: cannot save run {sample_record().run_id}: File too large"
    assert (nothing, one) == ("0 []", "1")


def test_what_a_dead_process_left_is_removed_once_it_is_old(tmp_path):
    path = tmp_path / "runs.sqlite"
    open_store(str(path)).close()
    directory = tmp_path / "runs.sqlite.series"
    directory.mkdir()
    old, new = directory / ".tmp-a", directory / ".tmp-b"
    old.touch()
    new.touch()
    os.utime(old, (1, 1))
    open_store(str(path)).close()
    assert list(directory.iterdir()) == [new]


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, " * 100)
    for write in (True, False):
        with pytest.raises(StoreError, match=f"{path}: cannot open the run store: the file is not a database"):
            open_store(str(path), write=write)
    assert path.read_text() == "not a database, " * 100


def test_another_programs_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "other.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE recipes (name)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=f"{path}: is a database, but not a run store"):
        open_store(str(path))
    assert path.read_bytes() == before


def test_a_newer_store_is_refused_with_both_versions(tmp_path):
    path = tmp_path / "runs.sqlite"
    open_store(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE labconsole_schema SET version = 7")
    connection.close()
    for write in (True, False):
        with pytest.raises(StoreError, match="has schema version 7; labconsole .* reads versions up to 5"):
            open_store(str(path), write=write)


def test_a_damaged_database_is_said_to_be_damaged(tmp_path):
    path = tmp_path / "runs.sqlite"
    with open_store(str(path)) as store:
        import_records(store, (sample_record(n) for n in range(100)))
    content = bytearray(path.read_bytes())
    for page in range(4096 * 4, len(content), 4096):
        content[page : page + 64] = b"\xff" * 64
    path.write_bytes(content)
    damaged = pytest.raises(StoreError, match=f"{path}: cannot .*damaged.*malformed")
    with damaged, open_store(str(path)) as store:
        list(store.iterate())


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(StoreError, match=f"{file}/runs.sqlite: .*there is no directory {file}"):
        open_store(str(file / "runs.sqlite"))
    with pytest.raises(StoreError, match=f"{tmp_path}: .*it is a directory"):
        open_store(str(tmp_path))
    with pytest.raises(StoreError, match="/proc/runs.sqlite: cannot open the run store: unable to open database file"):
        open_store("/proc/runs.sqlite")


def test_the_default_place_is_made_when_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with open_store() as store:
        store.save(sample_record(), None)
    assert (tmp_path / "data" / "labconsole" / "runs.sqlite").exists()
    (tmp_path / "taken").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "taken"))
    with pytest.raises(StoreError, match="taken/labconsole/runs.sqlite: cannot open the run store: Not a directory"):
        open_store()


def test_the_default_place_follows_the_xdg_rules(monkeypatch):
    monkeypatch.setenv("HOME", "/home/op")
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_path() == Path("/home/op/.local/share/labconsole/runs.sqlite")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert default_path() == Path("/home/op/.local/share/labconsole/runs.sqlite")


def test_a_store_is_named_by_a_path_or_a_url(monkeypatch):
    monkeypatch.setenv("HOME", "/home/op")
    assert parse_location("sqlite:////srv/runs.sqlite") == FileLocation(Path("/srv/runs.sqlite"))
    assert parse_location("sqlite:///runs.sqlite") == FileLocation(Path.cwd() / "runs.sqlite")
    assert parse_location("~/x") == FileLocation(Path("/home/op/x"))


def test_what_a_dry_run_would_make_is_told_from_what_is_there_or_cannot_be(tmp_path):
    there = tmp_path / "there.sqlite"
    there.touch()
    assert not would_create(str(there)) and not would_create("postgresql://op@db/runs")
    assert would_create(str(tmp_path / "new.sqlite"))
    assert not would_create(str(tmp_path / "no" / "new.sqlite")), "opening it says that there is no such directory"
    assert not would_create(str(tmp_path / ("x" * 300))), "opening it says that the name is too long"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "mysql://lab/runs",
            "'mysql://lab/runs' is not a valid store; allowed: a path, sqlite:///path or postgresql://",
        ),
        ("sqlite://host/runs", "is not a valid store"),
        ("sqlite:///:memory:", "does not name a file"),
        ("", "does not name a file"),
        ("a\0b", "null character"),
    ],
)
def test_what_is_no_place_for_runs_is_refused(url, message):
    with pytest.raises(StoreError, match=re.escape(message)):
        open_store(url)


def test_odd_characters_in_a_path_are_only_characters(tmp_path):
    path = tmp_path / "a b?mode=memory#%41.sqlite"
    with open_store(str(path)) as store:
        store.save(sample_record(), sample_series())
    assert path.exists()
    with open_store(str(path), write=False) as store:
        assert store.series(sample_record().run_id) == sample_series()


def test_a_store_opened_for_reading_reads_beside_the_writer_and_writes_nothing(tmp_path):
    path = tmp_path / "runs.sqlite"
    with pytest.raises(StoreError, match="there is no run store there; nothing has been saved yet"):
        open_store(str(path), write=False)
    assert not path.exists()
    with open_store(str(path)) as writer, open_store(str(path), write=False) as reader:
        writer.save(sample_record(0), None)
        assert reader.count() == 1
        writer.save(sample_record(1), None)
        assert [s.run_id for s in reader.list(limit=1)] == [sample_record(1).run_id]
        with pytest.raises(StoreError, match="opened read-only"):
            reader.save(sample_record(2), None)
        with pytest.raises(StoreError, match="opened read-only"):
            import_records(reader, [])


def test_a_user_who_may_only_read_can_read():
    """As nobody when the tests run as root (whom permissions do not stop); in a forked child that gave root away."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "runs.sqlite"
        with open_store(str(path)) as store:
            store.save(sample_record(0), sample_series())
        assert not path.with_name("runs.sqlite-wal").exists()
        path.chmod(0o444)
        Path(directory).chmod(0o555)
        assert as_nobody(lambda: read_everything(path)) == "1 True"
        refused = as_nobody(lambda: open_store(str(path)))
        assert refused.startswith(f"StoreError: {path}: cannot open the run store: ")
        Path(directory).chmod(0o755)
        path.chmod(0o644)


def read_everything(path: Path) -> str:
    with open_store(str(path), write=False) as store:
        return f"{len(list(store.iterate()))} {store.series(sample_record().run_id) == sample_series()}"


def as_nobody(work) -> str:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            text = str(work())
        except BaseException as exc:
            text = f"{type(exc).__name__}: {exc}"
        os.write(write_end, text.encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    return text


def test_what_was_held_leaves_no_file(tmp_path: Path):
    path = tmp_path / "runs.sqlite"
    with open_store(str(path)) as store:
        with pytest.raises(KeyboardInterrupt), store.hold("replay-t", "me"):
            assert [each.read_text() for each in tmp_path.glob("*.lock")] == ["me"]
            raise KeyboardInterrupt
        with store.hold("replay-t", "me"):
            pass
    assert not list(tmp_path.glob("*.lock"))
