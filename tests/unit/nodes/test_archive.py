"""The archive and the command that starts it."""

from __future__ import annotations

import ast
import io
import json
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

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
    assert rooms == {"__init__.py", "__init__.pyc", *archive.SHIPPED_ROOMS}
    modules = {name for name in names if name.endswith(".py")}
    assert {name for name in names if name.endswith(".pyc")} == {name + "c" for name in modules}
    assert len(archive.payload()) < 1_200_000


def _repacked(change: Callable[[str, bytes], bytes]) -> bytes:
    """The archive with other contents."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive.payload())) as packed, zipfile.ZipFile(buffer, "w") as changed:
        for name in packed.namelist():
            changed.writestr(name, change(name, packed.read(name)))
    return buffer.getvalue()


def _hello(payload: bytes) -> dict[str, Any]:
    """The first line of an agent from this archive, which then closes in order."""
    command = [sys.executable, "-I", "-S", "-c", archive.BOOTSTRAP, str(len(payload))]
    done = subprocess.run(
        command, input=payload + b'{"id": 1, "op": "close"}\n', capture_output=True, check=False, timeout=60
    )
    hello, reply = (json.loads(line) for line in done.stdout.splitlines())
    assert (hello["event"], reply) == ("hello", {"id": 1, "ok": {"failed": []}}), done.stderr
    return dict(hello)


def test_where_the_node_has_the_python_of_the_console_no_source_is_compiled() -> None:
    source = re.compile(r"(labconsole|pyroute2)/.*\.py")
    assert _hello(_repacked(lambda name, data: b"not Python" if source.fullmatch(name) else data))


def test_where_the_node_has_another_python_the_source_is_compiled() -> None:
    """Code of another version begins with another magic number: of 3.12, 3531 (CPython, Include/internal)."""
    other = (3531).to_bytes(2, "little") + b"\r\n"
    assert other != MAGIC_NUMBER
    assert _hello(_repacked(lambda name, data: other + b"?" * 100 if name.endswith(".pyc") else data))


def test_a_traceback_out_of_compiled_code_names_file_and_line_and_shows_it(tmp_path: Path) -> None:
    (tmp_path / "agent").write_bytes(archive.payload())
    code = (
        "import sys, traceback; sys.path.insert(0, sys.argv[1]); from labconsole.wire import codec\n"
        "try: codec.encode({1: print})\nexcept TypeError: traceback.print_exc()"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(tmp_path / "agent")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    source = (Path(archive.__file__).parents[1] / "wire/codec.py").read_text().splitlines()
    (number,) = [at for at, line in enumerate(source, 1) if "json.dumps(" in line]
    assert f'File "labconsole-agent/labconsole/wire/codec.py", line {number}, in encode' in done.stderr
    assert source[number - 1].strip() in done.stderr


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
    packed = archive.strip_docstrings(source)
    assert packed.splitlines()[0] == b'""  # kept' and b"a string" in packed
    assert not [word for word in (b"Two", b"Three", b"too", b"Four") if word in packed]
    for name, text in archive._own_files({}).items():
        before, after = (ast.parse(each) for each in (text, archive.strip_docstrings(text)))
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
