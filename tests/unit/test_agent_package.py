"""The archive and the command that starts it."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from labconsole.nodes import package


def test_the_same_sources_make_the_same_bytes(own_home: Path) -> None:
    own, library = package._own_files(), package._library_directory()
    assert package._build(own, library) == package._build(own, library)


def test_a_built_archive_is_taken_from_the_cache(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = package.build_agent()
    monkeypatch.setattr(package, "_build", lambda own, library: pytest.fail("built again"))
    assert package.build_agent() == built


def test_a_damaged_cache_is_built_anew(own_home: Path) -> None:
    built = package.build_agent()
    for cached in package._cache_directory().iterdir():
        cached.write_bytes(built[:1000])
    assert package.build_agent() == built


def test_an_unwritable_cache_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert zipfile.is_zipfile(io.BytesIO(package.build_agent()))


def test_the_archive_holds_what_it_needs_and_the_licence_of_what_is_in_it() -> None:
    with zipfile.ZipFile(io.BytesIO(package.payload())) as archive:
        names = set(archive.namelist())
        assert archive.read("pyroute2/__init__.py") == b""
    assert {"__main__.py", "labconsole/agent/wire.py", "labconsole/agent/server.py"} <= names
    assert {"pyroute2/iproute/linux.py", "pyroute2/LICENSE.Apache-2.0"} <= names
    outside = {name for name in names if name.startswith("labconsole/") and not name.startswith("labconsole/agent/")}
    assert outside == {"labconsole/__init__.py"}
    assert len(package.payload()) < 400_000


def test_the_command_survives_a_shell() -> None:
    plain = shlex.split(package.launch_command("python3", None))
    assert plain[:5] == ["python3", "-I", "-S", "-c", package.BOOTSTRAP]
    assert plain[5] == str(len(package.payload()))
    assert shlex.split(package.launch_command("/opt/my python", "sudo"))[:4] == ["sudo", "-n", "--", "/opt/my python"]
    # What csh, fish or a dumb terminal would take for something else.
    assert not set(package.BOOTSTRAP) & set("'\\\n!`$")


def test_an_old_python_says_so_in_one_line() -> None:
    code = f"import sys; sys.version_info = (3, 8, 10, 'final', 0); sys.argv = ['-c', '1']; exec({package.BOOTSTRAP!r})"
    done = subprocess.run([sys.executable, "-c", code], input=b"", capture_output=True, check=False)
    assert done.returncode == 3
    message = json.loads(done.stdout)
    assert (message["event"], message["code"]) == ("refused", "python_too_old")
    assert "3.8" in message["message"] and "3.9" in message["message"]


def test_an_archive_cut_short_is_not_run() -> None:
    command = [sys.executable, "-I", "-S", "-c", package.BOOTSTRAP, "100000"]
    done = subprocess.run(command, input=b"x" * 50, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (4, b"")
