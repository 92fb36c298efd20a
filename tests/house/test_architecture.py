"""The tree in docs/ARCHITECTURE.md is the tree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import labconsole

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "labconsole"
PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text()


def drawn() -> list[str]:
    """Paths of the rooms in the page's tree, in its order."""
    tree = PAGE.partition("```\nlabconsole/\n")[2].partition("```")[0]
    path: list[str] = []
    rooms = []
    for line in tree.splitlines():
        match = re.match(r"((?:  )+)(\w+)/", line)
        assert match, f"not a line of the tree: {line!r}"
        path[len(match[1]) // 2 - 1 :] = [match[2]]
        rooms.append("/".join(path))
    return rooms


def test_the_page_draws_every_room_and_no_other():
    there = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*") if path.is_dir()}
    assert sorted(drawn()) == sorted(room for room in there if "__pycache__" not in room)


def test_the_page_draws_the_rooms_from_the_top_down_as_the_contract_has_them():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    rank = {room.strip(): number for number, layer in enumerate(layers) for room in layer.split("|")}
    order = [rank[room] for room in drawn() if "/" not in room]
    assert order == sorted(order)


def test_every_module_at_the_root_is_named():
    assert all(f"`{path.name}`" in PAGE for path in PACKAGE.glob("*.py") if path.name != "__init__.py")


def test_no_room_hides_what_python_users_import():
    """An imported room becomes a name of the package."""
    assert not [
        name for name in vars(labconsole)["__all__"] if (PACKAGE / name).exists() or (PACKAGE / f"{name}.py").exists()
    ]
