"""A store that is opened later: by the first that asks something of it, once, with the same refusals."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from labconsole.errors import StoreError
from labconsole.store.open import LazyStore


def test_nothing_is_opened_before_something_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    store = LazyStore(str(path))
    assert store.name == str(path) and not path.exists()
    assert store.count() == 0 and path.exists()
    store.close()


def test_all_who_ask_at_once_get_the_same_store(tmp_path: Path) -> None:
    store = LazyStore(str(tmp_path / "runs.sqlite"))
    with ThreadPoolExecutor(8) as threads:
        opened = list(threads.map(lambda _: store.open(), range(16)))
    assert len(set(map(id, opened))) == 1
    store.close()


def test_no_place_is_refused_at_once_and_no_store_when_it_is_opened(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a valid store"):
        LazyStore("mysql://there")
    path = tmp_path / "runs.sqlite"
    path.write_text("something else\n" * 100)
    store = LazyStore(str(path))
    for _ in range(2):
        with pytest.raises(StoreError):
            store.count()


def test_what_only_watches_writes_nothing_once_it_is_opened(tmp_path: Path) -> None:
    store = LazyStore(str(tmp_path / "runs.sqlite"))
    store.writable = False
    with pytest.raises(StoreError):
        store.set_note("r", "n", author="a")
    store.close()


def test_looking_a_method_up_opens_nothing(tmp_path: Path) -> None:
    """It is done on an event loop, which must not wait for a database."""
    later = LazyStore(str(tmp_path / "runs.sqlite"))
    count = later.count
    assert not (tmp_path / "runs.sqlite").exists()
    assert count() == 0
    later.open().close()
