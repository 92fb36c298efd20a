"""Builds the agent as one archive, and the command that starts it on a node from its stdin.

The archive contains the packages that run on nodes and the part of pyroute2 that they use, found by importing it; with
pyroute2's own ``__init__`` it would be twice as large and take twice the time to start, because that imports
everything. Nothing is written on the node: a one-line program reads the archive from stdin into an anonymous file in
memory and runs it from there. The rest of stdin is the protocol.

The archive contains each module twice: as source, and as code compiled by the console's Python. A node's Python uses
the code if its magic number matches, and otherwise compiles the source, which takes three times as long.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import io
import marshal
import os
import secrets
import shlex
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import labconsole
from labconsole.errors import LabError
from labconsole.model.generator import Generator, usable_generators
from labconsole.wire.clean import last_line

_DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest date of the format, fixed so that the same sources give the same bytes."""

SHIPPED_ROOMS = ("agent", "network", "packets", "wire")
"""The packages whose modules go to nodes: they import the standard library, pyroute2 and each other."""

GENERATORS = "labconsole_generators"
"""The package of plug-ins' modules in the archive (agent/sending/plugin.py)."""

FOR_PLUG_INS = ("labconsole/agent/sending/contract.py", "labconsole/agent/sending/plugin.py")
"""Modules that are only sent together with plug-ins."""

_ROOTS = ("pyroute2.iproute.linux",)
"""The modules of the library that the agent imports; their own imports determine the rest."""

_FIND_SUBSET = """
import importlib, sys, types
package = types.ModuleType("pyroute2")
package.__path__ = [sys.argv[1]]
sys.modules["pyroute2"] = package
for name in sys.argv[2:]:
    importlib.import_module(name)
for name, module in sorted(sys.modules.items()):
    if name.startswith("pyroute2.") and getattr(module, "__file__", None):
        print(module.__file__)
"""

_COMPILE = """
import importlib.util, marshal, sys
head = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little")  # 1: the hash of the source is there, and not checked
compiled = {}
for name, source in marshal.load(sys.stdin.buffer):
    code = compile(source, "labconsole-agent/" + name, "exec", dont_inherit=True, optimize=0)
    compiled[name + "c"] = head + importlib.util.source_hash(source) + marshal.dumps(code)
marshal.dump(compiled, sys.stdout.buffer)
"""

BOOTSTRAP = (
    # One line without single quotes or backslashes, because it passes through any login shell of the node's user. Only
    # syntax that an old Python can parse, so that it can report that it is too old.
    "import sys, json; "
    'sys.version_info < (3, 9) and (print(json.dumps(dict(event="refused", code="python_too_old", '
    'message="Python %d.%d on this node is too old; 3.9 or newer is needed" % sys.version_info[:2]))), '
    "sys.stdout.flush(), sys.exit(3)); "
    "import os; "
    "n = int(sys.argv[1]); "
    'f = os.memfd_create("labconsole-agent"); '
    # read(0, 0) at the full length returns b"" as at the end of stdin: both end the loop.
    '[os.write(f, b) for b in iter(lambda: os.read(0, min(65536, n - os.lseek(f, 0, 1))), b"")]; '
    "os.lseek(f, 0, 1) < n and sys.exit(4); "
    'sys.argv = ["labconsole-agent"]; '
    'sys.path.insert(0, "/proc/self/fd/%d" % f); '
    "from labconsole.agent.__main__ import main; "
    "main()"
)
"""Reads as many bytes as its argument says from stdin and runs them. Exit status 3: Python too old, 4: cut short."""

SESSION = f"session-{secrets.token_hex(8)}"
"""The last argument of every agent's command line from this console. Nodes that share a kernel see each other's agents,
and identify their console by it. It grants no access."""


def launch_command(python: str, become: str | None) -> str:
    """The command line that starts the agent on a node; ``payload()`` must be the first thing on its stdin."""
    program = [python, "-I", "-S", "-c", BOOTSTRAP, str(len(payload())), SESSION]
    return shlex.join([*(["sudo", "-n", "--"] if become else []), *program])


@functools.cache
def payload() -> bytes:
    """The archive, built at most once per process, and once per version of its contents on this machine."""
    return build_agent()


def build_agent(generators: Mapping[str, Generator] | None = None) -> bytes:
    """The archive, from the cache unless its contents have changed.

    ``generators``: plug-in generators by name, or None for all usable ones.
    """
    own = _own_files(usable_generators() if generators is None else generators)
    library = _library_directory()
    path = _cache_directory() / f"agent-{_key(own, library)}.pyz"
    try:
        data = path.read_bytes() if _only_ours(path) and _only_ours(path.parent) else b""
    except FileNotFoundError:
        data = b""
    except OSError:
        return _build(own, library)  # an unreadable cache counts as none
    if zipfile.is_zipfile(io.BytesIO(data)):
        return data
    data = _build(own, library)
    _store(path, data)
    return data


def _only_ours(path: Path) -> bool:
    """Whether no other user can have written there: the archive's contents run as root on every node."""
    status = path.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _own_files(generators: Mapping[str, Generator]) -> dict[str, bytes]:
    """Archive name and content of this package's modules, and of plug-in generators."""
    package = Path(labconsole.__file__).parent
    files = {"labconsole/__init__.py": b""}
    for room in SHIPPED_ROOMS:
        for source in sorted((package / room).rglob("*.py")):
            files[f"labconsole/{source.relative_to(package).as_posix()}"] = source.read_bytes()
    if not generators:
        for name in FOR_PLUG_INS:
            del files[name]
    for name, generator in generators.items():
        files |= {f"{GENERATORS}/__init__.py": b"", f"{GENERATORS}/{name}.py": generator.code}
    return files


def strip_docstrings(source: bytes) -> bytes:
    """The same program on the same lines without docstrings, which are an eighth of its size."""
    lines = source.splitlines(keepends=True)
    docstrings = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    for node in sorted(docstrings, key=lambda node: (-node.lineno, -node.col_offset)):
        assert node.end_lineno is not None and node.end_col_offset is not None
        first, last = node.lineno - 1, node.end_lineno - 1
        rest = lines[last][node.end_col_offset :]
        lines[first : last + 1] = [lines[first][: node.col_offset] + b'""' + rest, *[b"\n"] * (last - first)]
    return b"".join(lines)


def _library_directory() -> Path:
    spec = importlib.util.find_spec("pyroute2")
    if spec is None or not spec.submodule_search_locations:
        raise LabError("pyroute2 is not installed, but the agent needs it: install labconsole with its dependencies")
    return Path(spec.submodule_search_locations[0])


def _key(own: dict[str, bytes], library: Path) -> str:
    """Hash of everything that determines the archive's bytes. The library's files enter by size and time, unread."""
    digest = hashlib.sha256(repr((sys.version, _ROOTS, zipfile.ZIP_DEFLATED)).encode())
    digest.update(Path(__file__).read_bytes())
    for name, data in sorted(own.items()):
        digest.update(f"{name} {len(data)}\n".encode() + data)
    for source in sorted(library.rglob("*.py")):
        status = source.stat()
        digest.update(f"{source} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:32]


def _build(own: dict[str, bytes], library: Path) -> bytes:
    # A plug-in's file is sent unchanged: the record contains its digest, and its encoding is its own affair.
    files = {
        name: source if name.startswith(f"{GENERATORS}/") else strip_docstrings(source) for name, source in own.items()
    }
    files["pyroute2/__init__.py"] = b""
    for source in _library_subset(library):
        files[f"pyroute2/{source.relative_to(library).as_posix()}"] = source.read_bytes()
    files |= _compiled({name: source for name, source in files.items() if not name.startswith(f"{GENERATORS}/")})
    for name, text in _library_licences().items():
        files[f"pyroute2/{name}"] = text
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name], compresslevel=9)
    return buffer.getvalue()


def _compiled(sources: Mapping[str, bytes]) -> dict[str, bytes]:
    """Compiled code of these modules by name, without columns, which would make it a third larger.

    Compiled in another process, whose output does not depend on the state of this one.
    """
    data = marshal.dumps([(name, strip_docstrings(source)) for name, source in sorted(sources.items())])
    done = subprocess.run(
        [sys.executable, "-P", "-X", "no_debug_ranges", "-c", _COMPILE], input=data, capture_output=True, check=False
    )
    if done.returncode != 0:
        raise LabError(f"the agent cannot be compiled: {last_line(done.stderr) or 'no message'}")
    compiled: dict[str, bytes] = marshal.loads(done.stdout)
    return compiled


def _library_subset(library: Path) -> list[Path]:
    """The library's files that the agent's imports load, from another process, since this one may have loaded more.

    -P: nothing is imported from the operator's current directory.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", _FIND_SUBSET, str(library), *_ROOTS], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise LabError(f"pyroute2 in {library} cannot be used: {last[0]}")
    return [Path(line) for line in done.stdout.splitlines()]


def _library_licences() -> dict[str, bytes]:
    """The library's licence texts, which must be distributed with its code."""
    files = importlib.metadata.files("pyroute2") or []
    found = {file.name: Path(str(file.locate())).read_bytes() for file in files if file.name.startswith("LICENSE")}
    if not found:
        raise LabError(
            "pyroute2 is installed without its licence texts and must not be distributed without them: reinstall it"
        )
    return found


def _cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
    return root / "labconsole"


def _store(path: Path, data: bytes) -> None:
    """Put the archive into the cache, atomically. A cache that cannot be written only costs time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix="agent-", delete=False) as partial:
            partial.write(data)
        Path(partial.name).replace(path)
        for old in sorted(path.parent.glob("agent-*.pyz"), key=lambda other: other.stat().st_mtime_ns)[:-5]:
            old.unlink()
    except OSError:
        return
