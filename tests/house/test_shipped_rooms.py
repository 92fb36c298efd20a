"""The rooms that are sent to nodes run there: on Python 3.9, with the standard library alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

from labconsole.nodes.archive import SHIPPED_ROOMS
from support.requirements import old_python

ROOT = Path(__file__).resolve().parents[2]

IMPORT_ALL = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
for room in sys.argv[2:]:
    package = importlib.import_module("labconsole." + room)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
print(*sorted(name for name in sys.modules if name.startswith("labconsole.")))
"""


def test_every_module_of_the_shipped_rooms_is_imported_by_a_bare_python_3_9():
    argv = [old_python("3.9"), "-B", "-I", "-S", "-c", IMPORT_ALL, str(ROOT), *SHIPPED_ROOMS]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    files = {
        path.with_suffix("").relative_to(ROOT).as_posix().replace("/", ".").removesuffix(".__init__")
        for room in SHIPPED_ROOMS
        for path in (ROOT / "labconsole" / room).rglob("*.py")
        if path.name != "__main__.py"
    }
    assert set(done.stdout.split()) == files


def test_contracts_name_the_rooms_that_are_shipped():
    contract = (ROOT / "pyproject.toml").read_text().partition('name = "what runs on nodes imports only itself"')[2]
    line = next(line for line in contract.splitlines() if line.startswith("source_modules"))
    assert line == "source_modules = [" + ", ".join(f'"labconsole.{room}"' for room in SHIPPED_ROOMS) + "]"
