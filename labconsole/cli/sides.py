"""What a side of a comparison is called by on the command line, and the runs that it means."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from labconsole.cli.file_kinds import PLAN_FILES, is_bundle, is_plan, is_store
from labconsole.errors import ConfigError

if TYPE_CHECKING:
    from labconsole.report.request import ReportRequest
    from labconsole.store.writing import RunStore

FILES = (*PLAN_FILES, ".tar.gz", ".tgz", ".sqlite", ".db")
"""Endings by which a word that is no file there is told from a filter."""


class OpenSide(NamedTuple):
    """``words``: as the user called it; ``place``: its store."""

    words: str
    place: str
    store: RunStore
    request: ReportRequest


def open_side(opened: ExitStack, word: str, default_store: str | None, also: Sequence[str]) -> OpenSide:
    """A side by its word: a plan file, a bundle, a store, or a filter; ``also``: words that its runs match too.

    What is opened is closed with ``opened``. Raises ConfigError and StoreError.
    """
    from labconsole.report.request import ReportRequest
    from labconsole.store.open import open_store

    chosen, plan_files, url = tuple(also), (), default_store
    if is_plan(word):
        plan_files = (Path(word),)
    elif is_store(word):
        url = word
    elif is_bundle(word):
        from labconsole.bundle.verify import as_store

        store = opened.enter_context(as_store(Path(word)))
        return OpenSide(word, word, store, ReportRequest(filter=chosen))
    elif word.endswith(FILES) or ("/" in word and "=" not in word):
        raise ConfigError("no such plan file, bundle or store", value=word)
    else:
        chosen = (word, *chosen)
    store = opened.enter_context(open_store(url, write=False))
    request = ReportRequest(filter=chosen, plan_files=plan_files)
    return OpenSide(word, url or "the default store", store, request)
