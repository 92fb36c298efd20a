"""The archive and the command that starts it."""

from __future__ import annotations

import ast
import io
import json
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from labconsole.model.generator import Generator, GeneratorInfo
from labconsole.nodes import archive


def test_the_same_sources_make_the_same_bytes(own_home: Path) -> None:
    own, library = archive._own_files({}), archive._library_directory()
    assert archive._build(own, library) == archive._build(own, library)


def test_a_built_archive_is_taken_from_the_cache(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = archive.build_agent()
    monkeypatch.setattr(archive, "_build", lambda own, library: pytest.fail("built again"))
    assert archive.build_agent() == built


def test_a_damaged_cache_is_built_anew(own_home: Path) -> None:
    built = archive.build_agent()
    for cached in archive._cache_directory().iterdir():
        cached.write_bytes(built[:1000])
    assert archive.build_agent() == built


def test_an_unwritable_cache_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert zipfile.is_zipfile(io.BytesIO(archive.build_agent()))


def test_the_archive_holds_what_it_needs_and_the_licence_of_what_is_in_it() -> None:
    with zipfile.ZipFile(io.BytesIO(archive.payload())) as packed:
        names = set(packed.namelist())
        assert packed.read("pyroute2/__init__.py") == b""
    assert {"labconsole/wire/codec.py", "labconsole/agent/server.py"} <= names
    assert {"pyroute2/iproute/linux.py", "pyroute2/LICENSE.Apache-2.0"} <= names
    rooms = {name.split("/")[1] for name in names if name.startswith("labconsole/")}
    assert rooms == {"__init__.py", *archive.SHIPPED_ROOMS}
    assert len(archive.payload()) < 1_200_000


def test_what_only_explains_stays_at_home_and_every_line_where_it_was() -> None:
    source = b'''"""One."""  # kept
x = """a string"""
class A:
    """Two \xc3\xa9,
    of two lines."""

    n: int = 1
    """Three."""; "too"; y = 2

    def f(self):
        """Four."""
'''
    packed = archive.without_docstrings(source)
    assert packed.splitlines()[0] == b'""  # kept' and b"a string" in packed
    assert not [word for word in (b"Two", b"Three", b"too", b"Four") if word in packed]
    for name, text in archive._own_files({}).items():
        before, after = (ast.parse(each) for each in (text, archive.without_docstrings(text)))
        assert [*_statements(before)] == [*_statements(after)], name


def test_what_a_plug_in_sends_along_is_its_file_byte_for_byte() -> None:
    """Coded as it likes, with two texts on a line, and the digest at home is the one that the node tells."""
    code = b'\xef\xbb\xbf"""one"""; """two"""\nVERSION = __doc__\n'
    made = {"steady": Generator(GeneratorInfo(name="steady", summary="", node="steady_node"), code)}
    own, library = archive._own_files(made), archive._library_directory()
    with zipfile.ZipFile(io.BytesIO(archive._build(own, library))) as packed:
        assert packed.read("labconsole_generators/steady.py") == code


def _statements(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and kind of all of them, and every constant but explanations."""
    said = {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.Constant) and node not in said:
            yield node.lineno, repr(node.value) if isinstance(node, ast.Constant) else type(node).__name__


def test_the_command_survives_a_shell() -> None:
    plain = shlex.split(archive.launch_command("python3", None))
    assert plain[:5] == ["python3", "-I", "-S", "-c", archive.BOOTSTRAP]
    assert plain[5] == str(len(archive.payload()))
    assert shlex.split(archive.launch_command("/opt/my python", "sudo"))[:4] == ["sudo", "-n", "--", "/opt/my python"]
    # What csh, fish or a dumb terminal would take for something else.
    assert not set(archive.BOOTSTRAP) & set("'\\\n!`$")


def test_an_old_python_says_so_in_one_line() -> None:
    code = f"import sys; sys.version_info = (3, 8, 10, 'final', 0); sys.argv = ['-c', '1']; exec({archive.BOOTSTRAP!r})"
    done = subprocess.run([sys.executable, "-c", code], input=b"", capture_output=True, check=False)
    assert done.returncode == 3
    message = json.loads(done.stdout)
    assert (message["event"], message["code"]) == ("refused", "python_too_old")
    assert "3.8" in message["message"] and "3.9" in message["message"]


def test_an_archive_cut_short_is_not_run() -> None:
    command = [sys.executable, "-I", "-S", "-c", archive.BOOTSTRAP, "100000"]
    done = subprocess.run(command, input=b"x" * 50, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (4, b"")
