"""A distribution with plug-ins, installed in a directory of its own that stands on the search path."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import invalidate_caches
from pathlib import Path

import pytest

from labconsole import plugins
from labconsole.model.generator import load_generator
from labconsole.model.record.kind import record_kinds
from labconsole.platforms import loading


def forget() -> None:
    """Look for plug-ins anew."""
    invalidate_caches()
    plugins._entry_points.cache_clear()
    loading.known_drivers.cache_clear()
    record_kinds.cache_clear()
    load_generator.cache_clear()


@contextmanager
def plugged_in(directory: Path, group: str, modules: dict[str, str]) -> Iterator[None]:
    """Meanwhile ``modules``, plug-in to source, are there by entry points of ``group``, as after ``pip install toys``."""
    info = directory / "toys-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    lines = [f"{name} = toys_{name}" for name in modules]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    for name, source in modules.items():
        (directory / f"toys_{name}.py").write_text(source)
    sys.path.insert(0, str(directory))
    forget()
    try:
        yield
    finally:
        sys.path.remove(str(directory))
        for name in modules:
            sys.modules.pop(f"toys_{name}", None)
        forget()


OUTSIDE = Path(__file__).parents[1] / "outside"


@contextmanager
def twice_installed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The outside package's kind of experiment, as after ``pip install``, with its record, its unit and nothing else."""
    points = tomllib.loads((OUTSIDE / "pyproject.toml").read_text())["project"]["entry-points"]
    info = directory / "site" / "labconsole_outside-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: labconsole-outside\nVersion: 1.0\n")
    groups = [[f"[{group}]", f"twice = {named['twice']}", ""] for group, named in points.items() if "twice" in named]
    (info / "entry_points.txt").write_text("\n".join(line for group in groups for line in group))
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(OUTSIDE))
        patch.syspath_prepend(str(directory / "site"))
        forget()
        yield
        for name in [name for name in sys.modules if name.startswith("labconsole_outside")]:
            del sys.modules[name]
    forget()
