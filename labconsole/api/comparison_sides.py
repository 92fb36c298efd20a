"""The sides of a comparison: how each is named, the runs and trials it covers, and the differences of two sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from labconsole.api.file_kinds import PLAN_FILES, is_bundle, is_plan, is_store
from labconsole.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from labconsole.report.changes import Changes
    from labconsole.report.loading import SideSelection

FILES = (*PLAN_FILES, ".tar.gz", ".tgz", ".sqlite", ".db")
"""File name endings, to distinguish a missing file from a filter."""


def open_side(opened: ExitStack, word: str, default_store: str | None, also: Sequence[str]) -> SideSelection:
    """Open a side by its word: a plan file, a bundle, a store, or a filter. ``also``: words that its runs
    match too.

    ``opened`` closes what is opened. Raises ConfigError and StoreError.
    """
    from labconsole.report.loading import select_side
    from labconsole.report.request import ReportRequest
    from labconsole.store.open import open_store

    place = default_store
    request = ReportRequest(filter=tuple(also))
    if is_plan(word):
        request = replace(request, plan_files=(Path(word),))
    elif is_store(word):
        place = word
    elif is_bundle(word):
        from labconsole.bundle.verify import open_as_store

        return select_side(request, opened.enter_context(open_as_store(Path(word))), place=word, words=word)
    elif word.endswith(FILES) or ("/" in word and "=" not in word):
        raise ConfigError("no such plan file, bundle or store", value=word)
    else:
        _refuse_bare_terms(word)
        request = replace(request, filter=(word, *also))
    store = opened.enter_context(open_store(place, write=False))
    return select_side(request, store, place=place or "the default store", words=word)


def _refuse_bare_terms(word: str) -> None:
    """Refuse a side of bare words that any field may contain, such as a plan's name alone. Raises ConfigError."""
    from labconsole.model.query import find_bare_words
    from labconsole.report.selection import parse_filter

    parse_filter((word,))
    bare = find_bare_words(word)
    if bare:
        raise ConfigError(
            f"does not say what {bare[0]} is; for the runs of a plan write plan={bare[0]}",
            value=word,
            allowed="a filter such as plan=NAME, plan=NAME@OCCASION or kernel=6.1.0, a plan file, a bundle, a store",
        )


def compare_sides(
    before: str,
    after: str,
    store: str | None,
    also: Sequence[str],
    margin: str | None,
    *,
    on_unreadable: Callable[[StoreError], None],
) -> Changes:
    """Compare two sides, each by its word. ``margin``: as typed, or None for that of the plans.

    Raises ConfigError and StoreError.
    """
    from labconsole.experiments.kinds import load_measured_kinds
    from labconsole.report.changes import find_changes
    from labconsole.report.loading import load_sides
    from labconsole.report.selection import parse_margin

    margin_ratio, kinds = parse_margin(margin), load_measured_kinds()
    with ExitStack() as opened:
        sides = [open_side(opened, word, store, also) for word in (before, after)]
        found = load_sides(sides[0], sides[1], kinds, on_unreadable=on_unreadable)
        return find_changes(*found, margin_ratio, kinds)
