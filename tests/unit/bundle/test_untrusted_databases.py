"""Databases from somebody else: what has the name of a table is one, its rows are in the file, and nothing else is touched.

Every one is harmless by itself: some kilobytes, with forty times their rows at most.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import fields
from pathlib import Path

import pytest
from sqlalchemy import create_engine, select
from sqlalchemy.exc import OperationalError

from labconsole.cli.main import main
from labconsole.errors import StoreError
from labconsole.model.record.kind import ExperimentColumns
from labconsole.model.record.search import SEARCH
from labconsole.store.open import open_store
from labconsole.store.sql import sqlite
from labconsole.store.sql.schema import fill_missing_columns, runs
from support.bundle_samples import make_lab
from support.foreign_databases import altered, endless_schema, repeated


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of runs, notes, series and a calibration: to be copied."""
    return make_lab(tmp_path_factory.mktemp("lab")) / "runs.sqlite"


LONG = "printf('%.*c', 1001, 'x')"
VIEW = "CREATE VIEW {0} AS SELECT * FROM mine"
DATABASES: dict[str, tuple[tuple[str, ...], str]] = {
    **{
        name: ((f"ALTER TABLE {name} RENAME TO mine", VIEW.format(name)), f"{name} is a view")
        for name in ("notes", "experiments", "calibrations", "baselines")
    },
    "capitals": (("ALTER TABLE notes RENAME TO mine", VIEW.format("NOTES")), "notes is a view"),
    "searches": (("CREATE VIEW searches AS SELECT 1 AS search_id",), "searches is a view"),
    "trigger": (("CREATE TRIGGER t AFTER INSERT ON runs BEGIN SELECT 1; END",), "has a trigger (t)"),
    "generated": (
        ("DROP TABLE notes", "CREATE TABLE notes (run_id, text AS (hex(zeroblob(9))), author, written_at)"),
        "notes.text has values that no row stores",
    ),
    "default": (
        ("DROP TABLE notes", f"CREATE TABLE notes (run_id, text DEFAULT '{'x' * 200}', author, written_at)"),
        "notes.text has values that no row stores",
    ),
}


@pytest.mark.parametrize("name", DATABASES)
def test_a_store_whose_tables_are_something_else_is_refused_by_every_command(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    statements, words = DATABASES[name]
    other = str(altered(tmp_path / "other.sqlite", store, *statements))
    for command in (
        ["runs", "import", other, "--store", str(tmp_path / "own.sqlite")],
        ["verify", "--store", other],
        ["report", "--store", other],
        ["runs", "list", "--store", other],
        ["runs", "note", "x", "y", "--store", other],
    ):
        assert main(command) == 2
        assert words in capsys.readouterr().err


@pytest.mark.parametrize("table", ["runs", "notes", "calibrations"])
def test_a_store_that_has_more_rows_than_it_is_long_is_not_imported(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str
) -> None:
    """Here of forty times as many; with some pages more there would be no end to them."""
    other = repeated(tmp_path / "other.sqlite", store, table)
    own = tmp_path / "own.sqlite"
    assert main(["runs", "import", str(other), "--store", str(own)]) == 2
    assert f"{other}: the database is damaged ({table}: " in capsys.readouterr().err


def test_a_list_of_tables_that_does_not_end_is_read_no_further_than_a_file_of_its_length_needs(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here of 64 000 rows, all of them an index that is there; with some pages more there would be no end to them."""
    other = endless_schema(tmp_path / "other.sqlite", store, levels=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "FREE_STEPS", 200_000)
        for command in (
            ["runs", "import", str(other), "--store", str(tmp_path / "own.sqlite")],
            ["runs", "list", "--store", str(other)],
            ["runs", "note", "20261121T024501Z-000000", "x", "--store", str(other)],
        ):
            assert main(command) == 2
            assert "it gives more rows than a file of its length can hold" in capsys.readouterr().err
        with pytest.raises(OperationalError, match="interrupted"):  # SQLite reads it before any statement is asked
            sqlite._open_engine(other, write=False).connect()
    assert main(["runs", "list", "--store", str(other)]) == 0, "but for its length it is a store"


def test_a_link_beside_a_store_neither_overwrites_nor_removes_what_it_names(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = altered(tmp_path / "other.sqlite", store)
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (canary := elsewhere / ".tmp-canary").write_text("kept\n")
    os.utime(canary, (0, 0))
    (tmp_path / "other.sqlite.replay-x.lock").symlink_to(canary)
    words = "is not a regular file; remove it"
    with open_store(str(other)) as opened, pytest.raises(StoreError, match=words), opened.hold("replay-x", "me"):
        pass
    assert canary.read_text() == "kept\n"
    (tmp_path / "other.sqlite.series").symlink_to(elsewhere)
    assert main(["runs", "note", "20261121T024501Z-000000", "x", "--store", str(other)]) == 2
    assert "other.sqlite.series is a link, and files elsewhere would be" in capsys.readouterr().err
    assert canary.read_text() == "kept\n"


def test_what_is_no_temporary_file_stays_beside_a_store(store: Path, tmp_path: Path) -> None:
    other = altered(tmp_path / "other.sqlite", store)
    (directory := tmp_path / "other.sqlite.series" / ".tmp-directory").mkdir(parents=True)
    os.utime(directory, (0, 0))
    assert main(["runs", "note", "20261121T024501Z-000000", "x", "--store", str(other)]) == 0
    assert directory.is_dir()


def test_no_check_of_another_store_s_own_is_computed(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = "run_id TEXT PRIMARY KEY, text TEXT CHECK (0), author TEXT, written_at TEXT"
    other = altered(
        tmp_path / "other.sqlite",
        store,
        "PRAGMA ignore_check_constraints=ON",
        "ALTER TABLE notes RENAME TO mine",
        f"CREATE TABLE notes ({columns})",
        "INSERT INTO notes SELECT run_id, text, author, written_at FROM mine",
        "DROP TABLE mine",
    )
    assert main(["runs", "import", str(other), "--store", str(tmp_path / "own.sqlite")]) == 1  # without its series
    assert "2 notes imported" in capsys.readouterr().out


@pytest.mark.parametrize("through_a_link", [False, True])
def test_a_journal_beside_a_store_removes_no_other_file(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], through_a_link: bool
) -> None:
    (canary := tmp_path / "canary").write_text("kept\n")
    real = altered(tmp_path / "other.sqlite", store, "PRAGMA journal_mode=DELETE")
    path = tmp_path / "link.sqlite" if through_a_link else real
    if through_a_link:
        path.symlink_to(real)
    name = os.fsencode(canary)
    header = bytes.fromhex("d9d505f920a163d7") + bytes(8) + (1).to_bytes(4, "big") + (512).to_bytes(4, "big")
    journal = (header + (4096).to_bytes(4, "big")).ljust(512, b"\0") + (262145).to_bytes(4, "big") + name
    journal += len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big") + bytes.fromhex("d9d505f920a163d7")
    (tmp_path / "other.sqlite-journal").write_bytes(journal)
    for command in (["runs", "list"], ["runs", "note", "20261121T024501Z-000000", "x"]):
        assert main([*command, "--store", str(path)]) == 2
        assert "other.sqlite-journal names another file, which SQLite would remove" in capsys.readouterr().err
        assert canary.exists()


def test_a_view_of_ones_own_is_nobodys_business(store: Path, tmp_path: Path) -> None:
    own = altered(tmp_path / "own.sqlite", store, "CREATE VIEW fast AS SELECT run_id FROM runs")
    assert main(["runs", "list", "--store", str(own)]) == 0


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE notes SET text = x'07'", "note must have a text"),
        ("UPDATE notes SET run_id = x'07' WHERE rowid = 1", "its run_id is not a text"),
        ("UPDATE notes SET text = printf('%.*c', 20000, 'x')", "a note has at most 10000 characters"),
        ("UPDATE calibrations SET record = '[]'", "calibration 1 cannot be read: it is not a JSON object"),
        ("UPDATE calibrations SET record = x'07'", "calibration 1 cannot be read: it is not a text"),
        ("UPDATE calibrations SET testbed_fingerprint = 'other'", "calibration 1: is not of testbed other"),
        ("UPDATE calibrations SET saved_at = 'x'", "is not an RFC 3339 time"),
        ("UPDATE runs SET record = 7 WHERE rowid = 1", "is not a run record"),
    ],
)
def test_what_is_beside_the_runs_of_another_store_is_read_strictly_and_left_out(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], statement: str, words: str
) -> None:
    other = altered(tmp_path / "other.sqlite", store, statement)
    assert main(["runs", "import", str(other), "--store", str(tmp_path / "own.sqlite")]) == 1
    said = capsys.readouterr()
    assert words in said.err and "runs added" in said.out


def test_a_series_that_is_no_regular_file_is_refused(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = altered(tmp_path / "other.sqlite", store)
    shutil.copytree(f"{store}.series", f"{other}.series")
    path = next(Path(f"{other}.series").glob("*.npz"))
    path.unlink()
    os.mkfifo(path)
    assert main(["runs", "import", str(other), "--store", str(tmp_path / "own.sqlite")]) == 1
    assert "is not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("author", "x'07'", "its author is not a text"),
        ("set_at", "x'07'", "its set_at is not a text"),
        ("set_at", "'now'", "'now' is not an RFC 3339 time"),
        ("name", "char(27)", r"its name is '\x1b'; allowed: letters, digits"),
    ],
)
def test_a_baseline_of_another_store_is_read_strictly(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], column: str, value: str, words: str
) -> None:
    row = "INSERT INTO baselines VALUES (1, 'b', 'small', 'h', 'bench', 'f', 'op', '2026-11-21T02:45:05Z')"
    good = altered(tmp_path / "good.sqlite", store, row)
    assert main(["baseline", "list", "--store", str(good)]) == 0
    capsys.readouterr()
    other = altered(tmp_path / "other.sqlite", good, f"UPDATE baselines SET {column} = {value}")
    for more in ([], ["--json"]):
        assert main(["baseline", "list", "--store", str(other), *more]) == 2
        assert "baseline 1 from the last" in (said := capsys.readouterr().err) and words in said


@pytest.mark.parametrize(
    ("column", "value", "found"),
    [
        ("platform", "x'07'", "a bytes"),
        ("frame_size_bytes", "'abc'", "a str"),
        ("reason_codes", "x'07'", "a bytes"),
        ("loss_ratio", "'abc'", "a str"),
        ("duration_s", "9e999", "inf"),
        ("method", "x'07'", "a bytes"),
    ],
)
def test_a_row_is_of_the_types_of_its_columns(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], column: str, value: str, found: str
) -> None:
    """Lists and reports go by the table and read no record."""
    other = altered(tmp_path / "other.sqlite", store, f"UPDATE runs SET {column} = {value} WHERE rowid = 1")
    for command in (["runs", "list"], ["report"], ["verify"]):
        assert main([*command, "--store", str(other)]) == 2
        words = f"{other}: run 20261121T024501Z-000000: the column {column} of the table of runs contains {found}"
        assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("column", "value", "found"),
    [
        ("plan_point", "'x'", "point of the table of runs contains a str"),
        ("repetition", "x'07'", "repetition of the table of runs contains a bytes"),
        ("loss_ratio", "9e999", "loss_ratio of the table of runs contains inf"),
        ("uut_lost_packets", "'x'", "uut_lost_packets of the table of runs contains a str"),
        ("reason_codes", "x'07'", "reason_codes of the table of runs contains a bytes"),
    ],
)
def test_what_another_store_says_of_a_plan_s_trials_is_of_its_columns_types(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], column: str, value: str, found: str
) -> None:
    """A plan is resumed by the table, and the records of its trials are not read."""
    other = altered(tmp_path / "other.sqlite", store, f"UPDATE runs SET {column} = {value}")
    plan, hosts = str(store.parent / "plans" / "small plan.yaml"), str(store.parent / "hosts.yaml")
    assert main(["replay", plan, "--dry-run", "--hosts", hosts, "--store", str(other)]) == 2
    assert f": the column {found}" in capsys.readouterr().err


def test_a_trial_of_a_plan_without_its_place_is_not_one_of_the_plan(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, hosts = str(store.parent / "plans" / "small plan.yaml"), str(store.parent / "hosts.yaml")
    for value in ("NULL", "-1"):
        other = altered(tmp_path / f"{value}.sqlite", store, f"UPDATE runs SET plan_point = {value}")
        assert main(["replay", plan, "--dry-run", "--hosts", hosts, "--store", str(other)]) == 0
        assert "2 of 2 trials to measure (0 already stored)" in capsys.readouterr().out


def test_a_value_of_another_store_is_no_longer_than_a_record(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = altered(tmp_path / "other.sqlite", store, "UPDATE runs SET record = record || printf('%.*c', 20000, ' ')")
    monkeypatch.setattr(sqlite, "_LONGEST_VALUE_BYTES", 20_000)
    assert main(["verify", "--store", str(other)]) == 2
    assert "it contains a value or a row of more than 20000 bytes" in capsys.readouterr().err


def test_a_schema_of_another_store_calls_no_function_with_effects(store: Path) -> None:
    for write in (False, True):
        with sqlite._open_engine(store, write=write).connect() as connection:
            assert connection.exec_driver_sql("PRAGMA trusted_schema").scalar_one() == 0


@pytest.mark.parametrize("value", ["x'07'", "NULL", "5"])
def test_a_record_whose_id_is_no_text_is_not_found(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    """Nor does one of another kind fill the terminal with the name of its kind."""
    columns = "kind, id, started_at, testbed, testbed_fingerprint, status, record"
    other = altered(
        tmp_path / "other.sqlite",
        store,
        "DROP TABLE experiments",
        f"CREATE TABLE experiments ({columns}, plan_name, plan_hash, platform)",
        f"INSERT INTO experiments ({columns}) VALUES ('search', {value}, 'x', 'x', 'x', 'x', 'x')",
        f"INSERT INTO experiments ({columns}) VALUES ({LONG}, 'x', 'x', 'x', 'x', 'x', 'x')",
    )
    assert main(["search", "--show", "2", "--store", str(other)]) == 2
    assert "there is no search 2" in capsys.readouterr().err
    main(["runs", "import", str(other), "--store", str(tmp_path / "own.sqlite")])
    assert f"of kind {'x' * 80}, which this version" in capsys.readouterr().err


def lower_steps(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    monkeypatch.setattr(sqlite, "COUNTED_STEPS", 10)
    monkeypatch.setattr(sqlite, "COUNTED_STEPS", 10)
    monkeypatch.setattr(sqlite, "FREE_STEPS", steps)
    monkeypatch.setattr(sqlite, "STEPS_PER_BYTE", 0)


ENDLESS = "the database is damaged (it gives more rows than a file of its length can hold)"
KEYS_OF_RUNS = "sqlite_autoindex_runs_1"


@pytest.mark.parametrize(
    "command",
    [["runs", "list"], ["runs", "export"], ["report"], ["verify"], ["compare", "platform=a", "platform=b"]],
    ids=" ".join,
)
def test_no_command_works_longer_on_another_store_than_a_file_of_its_length_can_need(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """Without its other indexes: SQLite then gives no row before it has sorted all."""
    lower_steps(monkeypatch, 1500)
    plain = altered(tmp_path / "plain.sqlite", store, "DROP INDEX runs_listed", "DROP INDEX runs_by_time")
    other = repeated(tmp_path / "other.sqlite", repeated(tmp_path / "half.sqlite", plain, KEYS_OF_RUNS), "runs")
    main([*command, "--store", str(plain)])
    assert ENDLESS not in capsys.readouterr().err
    assert main([*command, "--store", str(other)]) == 2
    said = capsys.readouterr().err
    assert f"{other}: cannot " in said and ENDLESS in said


def test_counting_the_rows_of_another_store_is_bounded(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite could count them in one step, which nothing would end."""
    lower_steps(monkeypatch, 400)
    others = "runs_listed", "runs_by_time", "runs_by_plan", "runs_to_fill_in"
    plain = altered(tmp_path / "plain.sqlite", store, *(f"DROP INDEX {name}" for name in others))
    other = repeated(tmp_path / "other.sqlite", plain, KEYS_OF_RUNS)
    with open_store(str(plain), write=False) as opened:
        assert opened.count() == 4
    with open_store(str(other), write=False) as opened, pytest.raises(StoreError, match=re.escape(ENDLESS)):
        opened.count()


@pytest.mark.parametrize("kind", ["runs", "searches"])
def test_pages_of_another_store_that_do_not_go_on_are_read_once(
    store: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As of an index that gives the same rows wherever it is begun."""
    with open_store(str(store), write=False) as opened:
        if kind == "runs":
            page = opened.rows(select(runs.c.started_at, runs.c.run_id, runs.c.record), "read runs")
            monkeypatch.setattr(opened, "rows", lambda *_: page)
            with pytest.raises(StoreError, match=r"its runs are in no order"):
                list(opened.texts())
        else:
            row = {**dict.fromkeys([each.name for each in fields(ExperimentColumns)], "x"), "record": "{}"}
            monkeypatch.setattr(opened, "_page", lambda *_: [row])
            with pytest.raises(StoreError, match="cannot read searches: the database is damaged"):
                list(opened.iterate_experiments(SEARCH, lambda problem: None))


def test_columns_that_stay_empty_are_filled_in_once(store: Path, tmp_path: Path) -> None:
    path = altered(
        tmp_path / "other.sqlite",
        store,
        "UPDATE runs SET format = NULL",
        "CREATE TRIGGER t AFTER UPDATE ON runs WHEN NEW.format IS NOT NULL BEGIN UPDATE runs SET format = NULL; END",
    )
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection, pytest.raises(StoreError, match="stays without its columns"):
        fill_missing_columns(connection)
    engine.dispose()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (f"UPDATE notes SET author = {LONG}", "the author of a note"),
        (f"UPDATE runs SET record = json_set(record, '$.operator', {LONG})", "operator"),
        (f"UPDATE runs SET record = json_set(record, '$.requested.platform', {LONG})", "requested.platform"),
        (f"UPDATE runs SET record = json_set(record, '$.plan.name', {LONG})", "plan.name"),
        (f"UPDATE runs SET record = json_set(record, '$.streams[0].name', {LONG})", "a stream's name"),
        (f"UPDATE calibrations SET record = json_set('{{}}', '$.testbed', {LONG})", "calibration 1: testbed"),
    ],
)
def test_no_name_is_imported_that_is_longer_than_names_are(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], statement: str, words: str
) -> None:
    other = altered(tmp_path / "other.sqlite", store, statement)
    main(["runs", "import", str(other), "--store", str(tmp_path / "own.sqlite")])
    assert f"{words} has 1001 characters; allowed: 1000" in capsys.readouterr().err


def test_no_name_is_listed_that_is_longer_than_names_are(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = altered(tmp_path / "other.sqlite", store, f"UPDATE runs SET platform = {LONG} WHERE rowid = 1")
    assert main(["runs", "list", "--store", str(other)]) == 2
    words = "run 20261121T024501Z-000000: the column platform has 1001 characters; allowed: 1000"
    assert f"{other}: {words}" in capsys.readouterr().err
