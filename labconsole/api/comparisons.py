"""Comparisons of stored results: the two sides that a command line names, and the trends of a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from labconsole.errors import ConfigError, StoreError
from labconsole.model.query import Query

if TYPE_CHECKING:
    from labconsole.comparison.changes import Changes
    from labconsole.comparison.loading import SideSelection
    from labconsole.comparison.occasion_loading import StoreContents
    from labconsole.comparison.trends import PlanTrends, Trend
    from labconsole.store.writing import RunStore


# -- kinds of files ----------------------------------------------------------------------------------------------------
# The kind of a file on the command line: a plan, a store, a bundle. Importing this takes no time.

PLAN_FILES = (".yaml", ".yml")
_SQLITE_MAGIC, _GZIP_MAGIC = b"SQLite format 3\0", b"\x1f\x8b"


def is_plan(word: str) -> bool:
    """Whether it is a plan, by its name."""
    return word.endswith(PLAN_FILES)


def is_store(word: str) -> bool:
    """Whether it is a store: a file of runs, by its first bytes, or the address of a server."""
    return "://" in word or _begins(word, _SQLITE_MAGIC)


def is_bundle(word: str) -> bool:
    """Whether it is a bundle, by its first bytes."""
    return _begins(word, _GZIP_MAGIC)


def _begins(what: str, magic: bytes) -> bool:
    """Whether a file begins so. If it is unreadable, its next reader reports it."""
    try:
        with Path(what).open("rb") as stream:
            return stream.read(len(magic)) == magic
    except (OSError, ValueError):
        return False


# -- comparison sides --------------------------------------------------------------------------------------------------
# The sides of a comparison: how each is named, the runs and trials it covers, and the differences of two sides.

FILES = (*PLAN_FILES, ".tar.gz", ".tgz", ".sqlite", ".db")
"""File name endings, to distinguish a missing file from a filter."""


def open_side(opened: ExitStack, word: str, default_store: str | None, also: Sequence[str]) -> SideSelection:
    """Open a side by its word: a plan file, a bundle, a store, or a filter. ``also``: words that its runs
    match too.

    ``opened`` closes what is opened. Raises ConfigError and StoreError.
    """
    from labconsole.comparison.loading import select_side
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
    from labconsole.report.request import parse_filter

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
    from labconsole.comparison.changes import find_changes
    from labconsole.comparison.loading import load_sides
    from labconsole.experiments.kinds import load_measured_kinds
    from labconsole.report.request import parse_margin

    margin_ratio, kinds = parse_margin(margin), load_measured_kinds()
    with ExitStack() as opened:
        sides = [open_side(opened, word, store, also) for word in (before, after)]
        found = load_sides(sides[0], sides[1], kinds, on_unreadable=on_unreadable)
        return find_changes(*found, margin_ratio, kinds)


# -- trends ------------------------------------------------------------------------------------------------------------
# Trends of a plan over its occasions: one implementation for the command and the console.


def load_plan_trends(
    plan: str,
    query: Query,
    store: RunStore,
    *,
    on_unreadable: Callable[[StoreError], None],
    tell: Callable[[str], None],
    everything: StoreContents | None = None,
    margin_ratio: float | None = None,
) -> list[Trend]:
    """Trends of every design point of a plan, named without an occasion. ``everything``: the store's contents, if they
    are loaded already. ``margin_ratio``: None for the plan's.

    Blocking. Raises ConfigError and StoreError.
    """
    from labconsole.comparison.occasion_loading import load_occasions
    from labconsole.comparison.trends import find_trends

    everything = everything or _everything(store)
    found = load_occasions(plan, query, store, everything, on_unreadable=on_unreadable, tell=tell)
    return find_trends(found.sides, found.told, margin_ratio)


def read_trends(plan: str | None, query: Query, store: RunStore) -> PlanTrends:
    """Load trends to look at. ``plan``: None for the one measured last of those with several occasions.

    Blocking. Raises ConfigError and StoreError.
    """
    from labconsole.comparison.occasion_loading import count_occasions
    from labconsole.comparison.trends import PlanTrends

    everything = _everything(store)
    plans = count_occasions(everything)
    messages: list[str] = []
    plan = plan or next(iter(plans), None)
    if plan is None:
        return PlanTrends(plans=plans)
    trends = load_plan_trends(
        plan,
        query,
        store,
        on_unreadable=lambda exc: messages.append(str(exc)),
        tell=messages.append,
        everything=everything,
    )
    return PlanTrends(plans=plans, plan=plan, trends=trends, told=messages)


def _everything(store: RunStore) -> StoreContents:
    from labconsole.comparison.occasion_loading import load_contents
    from labconsole.experiments.kinds import load_measured_kinds

    return load_contents(store, load_measured_kinds())
