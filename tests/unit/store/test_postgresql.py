"""A store on a PostgreSQL server: several consoles at once, what is refused and in which words, and no password anywhere."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from labconsole.cli.main import main
from labconsole.errors import StoreError, StoreHeld
from labconsole.store.open import open_store
from labconsole.store.sql.schema import SCHEMA_VERSION
from support.postgresql_server import PASSWORD, PostgresServer
from support.store_places import ServerPlace
from support.store_samples import sample_record, sample_series

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
WRITER = """
import sys
from support.store_samples import sample_record, sample_series
from labconsole.store.open import open_store
first, url, many = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with open_store(url) as store:
    for number in range(first, first + many):
        store.save(sample_record(number), sample_series())
        print(sample_record(number).run_id, flush=True)
"""


@pytest.fixture
def server_place(postgres: PostgresServer) -> ServerPlace:
    return ServerPlace(postgres)


def start_writer(first: int, place: ServerPlace, many: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(first), place.url, str(many)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def test_several_consoles_create_and_fill_one_store_and_a_follower_misses_nothing(server_place):
    writers = [start_writer(number * 1000, server_place, 15) for number in range(3)]
    seen: list[str] = []
    with open_store(server_place.url) as store:
        last = 0
        while any(writer.poll() is None for writer in writers) or store.page(after=last, limit=1).runs:
            page = store.page(after=last, limit=10)
            seen += [run.run_id for run in page.runs]
            last = page.last
        assert [writer.communicate(timeout=60)[1] for writer in writers] == ["", "", ""]
        assert store.count() == 45
        assert len(seen) == 45
        assert set(seen) == {run.run_id for run in store.list()}
        assert all(store.series(run_id) == sample_series() for run_id in seen[:3])


def test_no_acknowledged_run_is_lost_when_a_writer_is_killed_and_nobody_is_kept_waiting(server_place):
    with start_writer(0, server_place, 100_000) as writer:
        assert writer.stdout is not None
        acknowledged = [writer.stdout.readline().strip() for _ in range(5)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [line.strip() for line in writer.stdout.read().splitlines(True) if line.endswith("\n")]
    with open_store(server_place.url) as store:
        store.save(sample_record(200_000), None)
        stored = {record.run_id for record in store.iterate()}
        assert set(acknowledged) <= stored
        assert len(stored) <= len(acknowledged) + 2


def make_version_1(place: ServerPlace) -> None:
    with open_store(place.url) as store:
        for number in range(3):
            store.save(sample_record(number), sample_series())
    for table in ("notes", "calibrations", "experiments"):
        place.execute(f"DROP TABLE {table}")
    place.execute("UPDATE labconsole_schema SET version = 1")


def test_a_store_of_version_1_is_read_as_it_is_and_brought_up_to_date_once_by_consoles_that_start_together(
    server_place,
):
    make_version_1(server_place)
    with open_store(server_place.url, write=False) as store:
        assert [run.note for run in store.list()] == [None] * 3
        assert len(store.page(limit=10).runs) == 3
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda _: open_store(server_place.url), range(4)))
    for store in stores:
        store.set_note(sample_record(0).run_id, "seen", author="op")
        store.close()
    versions = server_place.execute("SELECT version FROM labconsole_schema ORDER BY version")
    assert [row[0] for row in versions] == [1, SCHEMA_VERSION]


def test_a_migration_that_fails_leaves_the_old_store(server_place, monkeypatch):
    make_version_1(server_place)

    def broken(*_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr("labconsole.store.sql.schema.calibrations.create", broken)
        with pytest.raises(StoreError, match="no space"):
            open_store(server_place.url)
    assert server_place.execute("SELECT to_regclass('notes')") == [(None,)]
    open_store(server_place.url).close()


def test_a_newer_store_and_a_foreign_database_are_refused(server_place, postgres):
    open_store(server_place.url).close()
    server_place.execute("UPDATE labconsole_schema SET version = 77")
    for write in (True, False):
        with pytest.raises(StoreError, match="has schema version 77; labconsole .* reads versions up to"):
            open_store(server_place.url, write=write)
    other = ServerPlace(postgres)
    other.execute("CREATE TABLE recipes (name text)")
    with pytest.raises(StoreError, match="is a database, but not a run store"):
        open_store(other.url)
    with pytest.raises(StoreError, match="there is no run store there; nothing has been saved yet"):
        open_store(ServerPlace(postgres).url, write=False)


@pytest.mark.parametrize("name", ["notes", "series"])
@pytest.mark.parametrize("kind", ["view", "materialized view"])
def test_what_is_no_table_is_refused(server_place, name, kind):
    open_store(server_place.url).close()
    server_place.execute(f"ALTER TABLE {name} RENAME TO mine")
    server_place.execute(f"CREATE {kind} {name} AS SELECT * FROM mine")
    for write in (True, False):
        with pytest.raises(StoreError, match=f"{name} is a {kind}; a run store has a table of that name"):
            open_store(server_place.url, write=write)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (
            "ALTER TABLE runs ALTER duration_s TYPE float8[] USING '{1}'",
            "runs.duration_s is of type double precision[]",
        ),
        ("ALTER TABLE notes ADD more int8range", "notes.more is of type int8range"),
        ("ALTER TABLE baselines ADD more text GENERATED ALWAYS AS (name || name) STORED", "baselines.more is computed"),
        ("ALTER TABLE runs ALTER saved DROP IDENTITY, ALTER saved DROP NOT NULL", "runs.saved is not always there"),
    ],
)
def test_columns_of_other_types_are_refused(server_place, capsys, change, found):
    open_store(server_place.url).close()
    server_place.execute(change)
    for command in (["runs", "list", "--store", server_place.url], ["report", "--store", server_place.url]):
        assert main(command) == 2
        assert f"{server_place.name}: {found}; a run store keeps text, numbers, booleans and bytes there" in (
            capsys.readouterr().err
        )


def test_a_series_that_is_too_long_stays_on_the_server(server_place, monkeypatch):
    with open_store(server_place.url) as store:
        store.save(sample_record(0), sample_series())
        assert store.series(sample_record(0).run_id) == sample_series()
        monkeypatch.setattr("labconsole.store.sql.postgresql.MAX_SERIES_BYTES", 100)
        with pytest.raises(StoreError, match="its time series in .* has more than 100 bytes"):
            store.series(sample_record(0).run_id)


def test_a_server_that_is_not_there_is_one_sentence(tmp_path):
    for url, words in (
        (f"postgresql://op@/lab?host={tmp_path}", "No such file or directory"),
        ("postgresql://op@127.0.0.1:1/lab", "Connection refused"),
    ):
        with pytest.raises(StoreError, match=words) as caught:
            open_store(url)
        assert str(caught.value).startswith(f"{url.partition('?')[0]}: cannot open the run store: ")
        assert "\n" not in str(caught.value)


def test_a_database_or_an_option_that_does_not_exist_is_one_sentence(postgres):
    with pytest.raises(StoreError, match='database "nothing" does not exist; create it with `createdb`$'):
        open_store(postgres.url(database="nothing"))
    with pytest.raises(StoreError, match=r'role "nobody-knows" does not exist$'):
        open_store(postgres.url(user="nobody-knows"))
    with pytest.raises(StoreError, match="is not a valid PostgreSQL URL: .*colour"):
        open_store(postgres.url() + "&colour=red")


def test_a_database_that_cannot_hold_every_name_is_refused(postgres):
    postgres.execute("CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0", database="postgres")
    with pytest.raises(StoreError, match="the database is encoded in LATIN1, .*`createdb --encoding UTF8 "):
        open_store(postgres.url(database="latin"))


def test_the_password_comes_from_the_environment_or_the_pass_file_and_is_said_nowhere(
    postgres, tmp_path, monkeypatch, capsys
):
    place = ServerPlace(postgres)
    place.execute(f"GRANT ALL ON SCHEMA {place.schema} TO guarded")
    url = postgres.url(user="guarded", schema=place.schema)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    with pytest.raises(StoreError, match=r"no password supplied; put it into ~/\.pgpass or PGPASSWORD$"):
        open_store(url)
    monkeypatch.setenv("PGPASSWORD", "wrong-one")
    assert main(["runs", "--store", url, "-v"]) == 2
    said = capsys.readouterr()
    assert "password authentication failed for user" in said.err
    assert "wrong-one" not in said.err + said.out
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with open_store(url) as store:
        store.save(sample_record())
        assert PASSWORD not in repr(store.backend.engine) + store.name
        with pytest.raises(StoreError) as caught:
            store.get("nothing")
        assert PASSWORD not in repr(caught.value)
    monkeypatch.delenv("PGPASSWORD")
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"*:*:*:guarded:{PASSWORD}\n")
    passfile.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    with open_store(url, write=False) as store:
        assert store.count() == 1
    assert PASSWORD not in str(place.execute("SELECT * FROM runs"))


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://op:{PASSWORD}@lab/runs",
        f"postgres://op@lab/runs?password={PASSWORD}",
        f"postgresql+psycopg://lab/runs?PASSWORD={PASSWORD}",
        f"postgresql://lab/runs?pass%77ord={PASSWORD}",
        f"postgresql://lab/runs?oauth_client_secret={PASSWORD}",
        f"postgresql://a@b:{PASSWORD}@lab/runs",
        f"postgresql://op@lab/runs#{PASSWORD}",
        f"mysql://op:{PASSWORD}@lab/runs",
    ],
)
def test_a_password_on_the_command_line_is_refused_and_not_repeated(url, capsys):
    assert main(["runs", "--store", url]) == 2
    said = capsys.readouterr()
    assert PASSWORD not in said.err + said.out
    assert said.err.count("\n") == 1


def test_without_psycopg_the_extra_is_named(tmp_path):
    program = (
        "import sys\nsys.modules['psycopg'] = None\nfrom labconsole.cli.main import main\n"
        "sys.exit(main(['runs', '--store', 'postgresql://op@lab/runs']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 2
    assert re.search(
        r"needs psycopg 3, which cannot be loaded \(.*\): pip install 'labconsole\[postgresql\]'", done.stderr
    )


def test_who_may_only_read_reads_and_is_told_what_is_missing_to_write(postgres):
    place = ServerPlace(postgres)
    with open_store(place.url) as store:
        store.save(sample_record(), sample_series())
    postgres.execute("CREATE ROLE reader LOGIN")
    place.execute(f"GRANT USAGE ON SCHEMA {place.schema} TO reader")
    place.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {place.schema} TO reader")
    url = postgres.url(user="reader", schema=place.schema)
    with open_store(url, write=False) as store:
        assert store.series(sample_record().run_id) == sample_series()
    with open_store(url) as store, pytest.raises(StoreError, match="permission denied for table runs; the owner of"):
        store.save(sample_record(1))


def test_a_store_opened_for_reading_cannot_write_even_by_mistake(server_place):
    open_store(server_place.url).close()
    with open_store(server_place.url, write=False) as store, store.backend.reading() as connection:
        assert connection.exec_driver_sql("SHOW default_transaction_read_only").scalar() == "on"


def test_commits_reach_the_disk_although_the_server_is_set_to_forget_them(server_place, postgres):
    postgres.execute("CREATE ROLE hasty LOGIN SUPERUSER")
    postgres.execute("ALTER ROLE hasty SET synchronous_commit = off")
    url = postgres.url(user="hasty", schema=server_place.schema)
    with open_store(url) as store, store.backend.reading() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"


def test_a_run_is_saved_although_the_server_ended_the_connection_meanwhile(server_place, postgres):
    with open_store(server_place.url) as store:
        store.save(sample_record(0), None)
        postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'labconsole'")
        store.save(sample_record(1), None)
        assert store.count() == 2


def test_a_run_is_saved_although_the_server_is_just_being_started_again(server_place, monkeypatch):
    with open_store(server_place.url) as store:
        connect = store.backend.engine.connect
        refusals: list[int] = []

        def starting(*_: object):
            if len(refusals) < 2:
                refusals.append(1)
                raise OperationalError("connect", None, Exception("the database system is starting up"))
            return connect()

        monkeypatch.setattr(store.backend.engine, "connect", starting)
        store.save(sample_record(0), None)
        assert (store.count(), len(refusals)) == (1, 2)
        monkeypatch.setattr("labconsole.store.sql.postgresql.BUSY_TIMEOUT_S", 0.3)
        monkeypatch.setattr(store.backend.engine, "connect", refuse)
        with pytest.raises(StoreError, match="cannot save run .*: the server is gone"):
            store.save(sample_record(1), None)


def refuse() -> None:
    raise OperationalError("connect", None, Exception("the server is gone"))


def test_a_writer_waits_for_another_only_so_long(server_place, postgres, monkeypatch):
    monkeypatch.setattr("labconsole.store.sql.postgresql.BUSY_TIMEOUT_S", 0.2)
    with open_store(server_place.url) as store, open_store(server_place.url) as other:
        with other.writing("wait"), pytest.raises(StoreError, match="another process has kept it locked for"):
            store.save(sample_record(), None)
        store.save(sample_record(), None)
        assert store.count() == 1


def test_what_one_process_holds_no_other_can_until_it_ends(place):
    """On both kinds of store."""
    program = (
        "import sys\nfrom labconsole.store.open import open_store\nstore = open_store(sys.argv[1])\n"
        "with store.hold('replay-t', 'op@far, plan p'):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    with open_store(place.url) as store:
        with subprocess.Popen(
            [sys.executable, "-c", program, place.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        ) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "held\n"
            with pytest.raises(StoreHeld, match="replay-t is locked by op@far, plan p"), store.hold("replay-t", "me"):
                pytest.fail("held twice")
            with store.hold("replay-u", "me"):
                store.save(sample_record(), None)
            other.kill()
        for _ in range(2):
            hold_once_free(store)
        with pytest.raises(StoreError, match="cannot be locked"):
            store.hold("../x", "me")


def hold_once_free(store) -> None:
    """The server notices the end of a process a moment after it."""
    for _ in range(200):
        try:
            with store.hold("replay-t", "me"):
                return
        except StoreHeld:
            continue
    pytest.fail("still held")
