"""A PostgreSQL server of the tests' own: made from nothing in a directory that goes with it, on a UNIX socket only.

postgres refuses to be root, so root starts it as Debian's user postgres. It ends with the tests, however they end.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support.requirements import missing

DATABASE = "lab"
FAST = ("fsync=off", "full_page_writes=off", "shared_buffers=16MB", "max_connections=60", "autovacuum=off", "jit=off")
HBA = "local all guarded scram-sha-256\nlocal all all trust\n"
PASSWORD = "only-for-this-test-4711"


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    if found:
        return found[-1].parent
    there = shutil.which("initdb")
    if there is None:
        missing("PostgreSQL's server (Debian: postgresql) is not installed")
    return Path(str(there)).resolve().parent


class PostgresServer:
    """A running server. ``url`` leads to a database, as the superuser of the cluster."""

    def __init__(self) -> None:
        programs = _programs()
        self.directory = Path(tempfile.mkdtemp(prefix="labconsole-pg-"))
        self._as: list[str] = []
        if os.geteuid() == 0:
            try:
                user = pwd.getpwnam("postgres")
            except KeyError:
                user = pwd.getpwnam("nobody")
            os.chown(self.directory, user.pw_uid, user.pw_gid)
            self._as = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        data = self.directory / "data"
        words = ["--no-sync", "--auth=trust", "--username=owner", "--encoding=UTF8", "--locale=C.UTF-8"]
        self._run([str(programs / "initdb"), *words, f"--pgdata={data}"])
        (data / "pg_hba.conf").write_text(HBA)
        settings = [word for setting in FAST for word in ("-c", setting)]
        stop = ["--pdeathsig", "INT"] if self._as else []
        self._server = subprocess.Popen(
            [
                *self._as,
                *stop,
                str(programs / "postgres"),
                "-D",
                str(data),
                "-k",
                str(self.directory),
                "-c",
                "listen_addresses=",
                *settings,
            ],
            cwd=self.directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
        self._wait_until_ready()
        self.execute("CREATE ROLE guarded LOGIN PASSWORD '" + PASSWORD + "'", database="postgres")
        self.execute(f"CREATE DATABASE {DATABASE}", database="postgres")

    def _run(self, argv: list[str]) -> None:
        done = subprocess.run([*self._as, *argv], cwd=self.directory, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.fail(f"{argv[0]}: {done.stderr}")

    def _wait_until_ready(self) -> None:
        said, ready = [], threading.Event()
        assert self._server.stderr is not None

        def listen() -> None:
            for line in self._server.stderr or ():
                said.append(line)
                if "ready to accept connections" in line:
                    ready.set()
            ready.set()

        self._listener = threading.Thread(target=listen, daemon=True)
        self._listener.start()
        if not ready.wait(60) or self._server.poll() is not None:
            pytest.fail("PostgreSQL does not start: " + "".join(said))

    def url(self, *, user: str = "owner", database: str = DATABASE, schema: str | None = None) -> str:
        """Where a store can be; a schema of its own is as good as a database, and made in a millisecond."""
        options = f"&options=-csearch_path%3D{schema}" if schema else ""
        return f"postgresql://{user}@/{database}?host={quote(str(self.directory), safe='')}{options}"

    def execute(
        self, statement: str, *values: object, database: str = DATABASE, schema: str | None = None
    ) -> list[Any]:
        """Run one statement by itself, past labconsole."""
        import psycopg

        with psycopg.connect(self.url(database=database, schema=schema), autocommit=True) as connection:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        """Stop it and remove everything."""
        self._server.send_signal(signal.SIGINT)
        try:
            self._server.wait(20)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._listener.join(10)
        if self._server.stderr is not None:
            self._server.stderr.close()
        shutil.rmtree(self.directory, ignore_errors=True)
