"""Load searches as steps of a plan: one at each configuration, as often as the plan repeats them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from labconsole.contracts.experiment import Stage
from labconsole.errors import ConfigError
from labconsole.model.inventory import Inventory
from labconsole.model.plan.plan import Plan
from labconsole.model.plan.search import Configuration, Search, search_hash
from labconsole.model.record.search import SEARCH, SEARCH_FORMAT, SearchRecord
from labconsole.model.record.summary import RunFilter

if TYPE_CHECKING:
    from labconsole.experiments.search.procedure import LoadSearch, SearchStore


class LoadSearches:
    """The kind of experiment that a plan's key ``search`` asks for."""

    def __init__(self, store: SearchStore) -> None:
        self._store = store

    def steps(self, plan: Plan, only: frozenset[int] | None = None, salt: str = "") -> Sequence[LoadSearch]:
        """Return every search of a plan that is resolved for its testbed, or ``only`` those at these points."""
        if plan.search is None:
            return []
        from labconsole.experiments.search.procedure import LoadSearch  # 0.05 s: only for plans that search

        places = None if only is None else {plan.points[index].request.loadless() for index in only}
        return [
            LoadSearch(
                search=plan.search,
                configuration=configuration,
                hash=search_hash(plan.search, configuration, salt or plan.salt),
                plan_name=plan.name,
                seed=plan.seed,
                store=self._store,
            )
            for configuration in plan.searches
            if places is None or configuration.request.loadless() in places
        ]

    def stored(self, steps: Sequence[LoadSearch], testbed_fingerprint: str) -> Mapping[str, SearchRecord]:
        """Return the newest finished record of each of these searches on this testbed. Blocking: one query.

        A search of format 1 counted queued packets as forwarded, so it is repeated.
        """
        if not steps:
            return {}
        where = RunFilter(plan_hash=[each.hash for each in steps], testbed_fingerprint=testbed_fingerprint)
        found = self._store.experiments(SEARCH, where, status="done")
        return {each.plan.hash: each for each in reversed(found) if each.format == SEARCH_FORMAT}

    def earlier(self, testbed_fingerprint: str) -> Sequence[tuple[LoadSearch, SearchRecord]]:
        """Return the searches stored of a testbed, the newest first. Blocking.

        Records may come from elsewhere; one with invalid settings is left out.
        """
        from labconsole.experiments.search.procedure import LoadSearch

        found = []
        for record in self._store.experiments(SEARCH, RunFilter(testbed_fingerprint=testbed_fingerprint)):
            with suppress(ValueError):
                plan, search = record.plan, Search.model_validate(record.settings)
                configuration = Configuration(plan.configuration, plan.repetition, record.requested.point())
                step = LoadSearch(
                    search=search, configuration=configuration, hash=plan.hash, plan_name=plan.name, store=self._store
                )
                found.append((step, record))
        return found

    def refuse(
        self, steps: Sequence[LoadSearch], plan: Plan, inventory: Inventory, stage: Stage
    ) -> Mapping[str, ConfigError]:
        """Refuse, before anything is changed, a search that is impossible on this testbed. Raises ConfigError for the
        first.
        """
        if steps:
            from labconsole.experiments.search.procedure import check_search

            for wanted in steps:
                check_search(wanted.search, wanted.request, inventory)
        return {}


EXPERIMENT = LoadSearches
