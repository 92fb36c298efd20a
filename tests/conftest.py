"""What every test shares: a home that is not the user's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.requirements import require, require_namespaces


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """State, data and cache directories of this test's own."""
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        directory = tmp_path / name.lower()
        directory.mkdir()
        monkeypatch.setenv(name, str(directory))
    return tmp_path


@pytest.fixture(scope="session")
def lab_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """State and data directories for labs that tests share; the environment is put back afterwards."""
    require("tcpdump", "nft", "tc", "ip")
    require_namespaces()
    path = tmp_path_factory.mktemp("home")
    before = dict(os.environ)
    for variable in ("XDG_STATE_HOME", "XDG_DATA_HOME"):
        os.environ[variable] = str(path / variable.lower())
    yield path
    os.environ.clear()
    os.environ.update(before)
