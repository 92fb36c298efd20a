"""Stores of every version go on as if nothing had happened: read, brought up to date, merged, verified, resumed.

tests/golden has one of each version, as the program of that version left it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from labconsole.cli.main import main
from labconsole.errors import StoreError
from labconsole.model.inventory import load_inventory
from labconsole.model.plan.loader import load_plan
from labconsole.model.record.search import SEARCH
from labconsole.model.record.summary import RunFilter
from labconsole.store.open import open_store
from labconsole.store.sql.schema import SCHEMA_VERSION, SINCE_4
from support.golden_sets import GOLDEN_SETS, texts
from support.half_finished import next_trials
from support.postgresql_server import PostgresServer
from support.store_places import ServerPlace

STORES = {
    "format-1/store-1.sqlite": 1,
    "format-1/store-2.sqlite": 2,
    "format-1/runs.sqlite": 3,
    "format-2/runs.sqlite": 4,
    "store-4/store-4.sqlite": 4,
}
SERVER = GOLDEN_SETS / "store-4" / "store-4.sql.gz"
HALF = json.loads((GOLDEN_SETS / "format-2" / "left.json").read_text())["golden-half-search.yaml"]


def kept(name: str) -> dict[str, str]:
    """The searches of a golden store, as they lie in the file."""
    return texts(GOLDEN_SETS / name, "searches", "search_id") if STORES[name] > 2 else {}


@pytest.fixture(params=STORES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def old(name: str, tmp_path: Path) -> Path:
    series = Path(f"{GOLDEN_SETS / name}.series")
    if series.exists():
        shutil.copytree(series, tmp_path / "old.sqlite.series")
    return Path(shutil.copy(GOLDEN_SETS / name, tmp_path / "old.sqlite"))


def on_server(postgres: PostgresServer, version: int) -> ServerPlace:
    """A store on PostgreSQL: the golden one of version 4, less what came after an older version."""
    place = ServerPlace(postgres)
    statements = gzip.decompress(SERVER.read_bytes()).decode().split(";\n")
    if version < 4:
        statements += [f"ALTER TABLE runs DROP COLUMN {name}" for name in SINCE_4]
        statements += ["ALTER TABLE runs ALTER COLUMN frame_size_bytes SET NOT NULL"]
    later = {"searches": 3, "notes": 2, "calibrations": 2}
    statements += [f"DROP TABLE {table}" for table, since in later.items() if version < since]
    for statement in [*statements, f"UPDATE labconsole_schema SET version = {version}"]:
        if statement.strip():
            postgres.execute(statement, schema=place.schema)
    return place


def seen(url: str, *, write: bool = False) -> dict[str, Any]:
    """All that is to be read."""
    with open_store(url, write=write) as store:
        return {
            "runs": store.list(),
            "records": list(store.texts()),
            "notes": store.notes(),
            "calibrations": store.calibrations(),
            "searches": store.experiment_texts(SEARCH),
            "done": store.experiments(SEARCH, RunFilter(platform=["raw"]), status="done"),
        }


def test_the_golden_stores_of_version_4_are_what_they_were() -> None:
    directory = GOLDEN_SETS / "store-4"
    listed = [line.split("  ", 1) for line in (directory / "SHA256SUMS").read_text().splitlines()]
    assert [[hashlib.sha256((directory / name).read_bytes()).hexdigest(), name] for _, name in listed] == listed
    assert {path.name for path in directory.iterdir()} == {name for _, name in listed} | {"README.md", "SHA256SUMS"}


def test_a_store_says_the_same_read_only_and_brought_up_to_date(name: str, old: Path) -> None:
    before = old.read_bytes()
    then = seen(str(old))
    assert old.read_bytes() == before
    assert dict(then["searches"]) == kept(name)
    assert dict(then["records"]) == texts(GOLDEN_SETS / name)
    assert seen(str(old), write=True) == then
    assert seen(str(old)) == then
    with sqlite3.connect(old) as connection:
        versions = [row[0] for row in connection.execute("SELECT version FROM labconsole_schema ORDER BY version")]
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    assert versions[-2:] == [STORES[name], SCHEMA_VERSION]
    assert "experiments" in tables
    assert "searches" not in tables


def test_the_tables_of_a_store_that_was_brought_up_to_date_are_those_of_a_new_one(old: Path, tmp_path: Path) -> None:
    found = []
    for path in (old, tmp_path / "new.sqlite"):
        open_store(str(path)).close()
        with sqlite3.connect(path) as connection:
            found.append(set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")))
        connection.close()
    assert found[0] == found[1]


def test_an_old_store_is_merged_into_a_new_one_and_a_new_one_into_it(name: str, old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.sqlite"
    assert main(["runs", "import", str(old), "--store", str(new)]) == 0
    assert texts(new) == texts(GOLDEN_SETS / name)
    assert texts(new, "searches", "search_id") == kept(name)
    assert main(["runs", "import", str(new), "--store", str(old)]) == 0
    assert texts(old, "searches", "search_id") == kept(name)


def test_a_store_of_version_4_verifies_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = shutil.copy(GOLDEN_SETS / "store-4" / "store-4.sqlite", tmp_path / "old.sqlite")
    for _ in range(2):
        assert main(["verify", "--store", str(path), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["runs"], told["searches"], told["differences"], told["unreadable"]) == (18, 3, 0, 0)
        open_store(str(path)).close()


def half_finished(url: str) -> tuple[list[Any], int]:
    """What comes next of the plan's unfinished searches, and how many are finished."""
    inventory = load_inventory(GOLDEN_SETS / "format-2" / "hosts.yaml")
    plan = load_plan(GOLDEN_SETS / "format-2" / "plans" / "golden-half-search.yaml", inventory)
    with open_store(url) as store:
        found = next_trials(plan, inventory, store)
        return found, len(plan.searches) - len(found)


def test_a_half_finished_search_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    shutil.copy(GOLDEN_SETS / "store-4" / "store-4.sqlite", path)
    assert half_finished(str(path)) == (HALF["next_trial"], HALF["searches"][0][1])
    assert half_finished(str(path)) == (HALF["next_trial"], HALF["searches"][0][1])


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_store_on_a_server_is_read_as_it_is_and_brought_up_to_date_once(
    version: int, postgres: PostgresServer, tmp_path: Path
) -> None:
    server, golden = on_server(postgres, version), "store-4/store-4.sqlite"
    then, searches = seen(server.url), kept(golden) if version > 2 else {}
    assert dict(then["searches"]) == searches
    assert dict(then["records"]) == texts(GOLDEN_SETS / golden)
    assert len(then["notes"]) == (3 if version > 1 else 0)
    with ThreadPoolExecutor(4) as pool:
        for store in pool.map(lambda _: open_store(server.url), range(4)):
            store.close()
    assert seen(server.url) == then
    versions = server.execute("SELECT version FROM labconsole_schema ORDER BY version")
    assert [row[0] for row in versions] == [version, SCHEMA_VERSION]
    assert server.execute("SELECT to_regclass('searches')") == [(None,)]
    if searches:
        assert half_finished(server.url) == (HALF["next_trial"], HALF["searches"][0][1])
    assert main(["runs", "import", server.url, "--store", str(tmp_path / "new.sqlite")]) == 0
    assert texts(tmp_path / "new.sqlite", "searches", "search_id") == searches


def test_a_reader_goes_on_while_another_console_brings_the_store_up_to_date(name: str, old: Path) -> None:
    with open_store(str(old), write=False) as reader:
        then = reader.experiment_texts(SEARCH)
        open_store(str(old)).close()
        assert reader.experiment_texts(SEARCH) == then
        assert len(reader.list()) == len(texts(old))


def test_a_console_of_the_version_before_refuses_a_store_of_this_one(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(str(old)).close()
    monkeypatch.setattr("labconsole.store.sql.backend.SCHEMA_VERSION", SCHEMA_VERSION - 1)
    for write in (True, False):
        with pytest.raises(
            StoreError, match=f"has schema version {SCHEMA_VERSION}; labconsole .* reads versions up to 4"
        ):
            open_store(str(old), write=write)
