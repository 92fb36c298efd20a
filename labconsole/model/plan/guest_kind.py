"""A kind of experiment with guests, as ``KIND`` in ``kind.py`` of its folder declares it.

That file takes no time to import. The rest is in files of its folder, whose names are the same in each: ``plan.py``
(``PLANNED``), ``record.py`` (``RECORD``), ``steps.py`` (``EXPERIMENT``), ``text.py`` (``TEXT``); and if the kind has
them, ``verify.py``, ``measured.py`` and ``units/``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from labconsole.plugins import load_kind_file, load_kind_files

if TYPE_CHECKING:
    from labconsole.model.plan.crews import PlannedCrews
    from labconsole.model.record.kind import RecordKind


@dataclass(frozen=True, slots=True)
class FactorOption:
    """An option of ``labconsole experiment KIND``, and the key in plans that it sets.

    ``factor``: the key, such as ``limit_s``, after a dot if it is within another, such as ``disk.from_s``. ``takes``:
    the type of its value, of which names and counts are lists.
    """

    flag: str
    factor: str
    takes: Literal["names", "counts", "name", "whole number", "number"]
    metavar: str
    help: str
    required: bool = False


def _unchanged(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestCommand:
    """The text and the options of ``labconsole experiment KIND``.

    ``help``: for the list of kinds. ``platforms``, ``set_ups``, ``repetitions``, ``summary``: for the options of these
    names. ``epilog``: builds the text below the options, whose line breaks are kept. ``factors``: turns the options'
    values by factor (None: not given) into factors by the keys of a plan. It raises ConfigError with the option as key.
    """

    help: str
    description: str
    platforms: str
    options: Sequence[FactorOption]
    set_ups: str
    repetitions: str
    summary: str
    epilog: Callable[[], str] = str
    factors: Callable[[Mapping[str, Any]], Mapping[str, Any]] = _unchanged


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestText:
    """Records of a kind as text.

    ``request``, ``result``: in one line. ``columns``: the request by the headings of a table's columns. ``lines``: the
    trial between its request and its verdict. ``summarize``: the results of several records, for the other two.
    """

    request: Callable[[Any], str]
    result: Callable[[Any], str]
    columns: Callable[[Any], dict[str, str]]
    lines: Callable[[Any], list[str]]
    summarize: Callable[[Sequence[Any]], Any]
    summary_lines: Callable[[Any], list[str]]
    summary_json: Callable[[Any], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestKind:
    """A kind of experiment with guests.

    ``name``: of its folder, its key in plans and its records; the noun for a trial. ``place``: its order among the
    kinds. ``instead``: what plans of this kind have instead of frames to forward. ``purpose``: what a lease is for.
    ``assumed``: the durations that an estimate assumes. ``title``, ``result_title``: of the table of a plan's trials,
    and of its column for results. ``over_time``: whether a trial's picture has curves over time. ``claim_tables``: of
    its report, those with claims; ``abstract_tables``: those that compare them with a paper's abstract.
    """

    name: str
    plural: str
    place: int
    instead: str
    purpose: str
    assumed: str
    title: str
    result_title: str
    command: GuestCommand
    over_time: bool = False
    claim_tables: Sequence[str] = ()
    abstract_tables: Sequence[str] = ()

    @property
    def planned(self) -> type[PlannedCrews[Any, Any]]:
        """The factors, points and hashes of its plans."""
        found: type[PlannedCrews[Any, Any]] = load_kind_file(self.name, "plan").PLANNED
        return found

    @property
    def record(self) -> RecordKind[Any]:
        """The kind of its records."""
        found: RecordKind[Any] = load_kind_file(self.name, "record").RECORD
        return found

    @property
    def text(self) -> GuestText:
        """Its records as text."""
        found: GuestText = load_kind_file(self.name, "text").TEXT
        return found

    def experiment(self, store: Any) -> Any:
        """The kind as plans run it (contracts/experiment.py), which stores its records there."""
        return load_kind_file(self.name, "steps").EXPERIMENT(store)


def guest_kinds() -> dict[str, GuestKind]:
    """The kinds by name, in their order."""
    found: list[GuestKind] = [module.KIND for module in load_kind_files("kind").values()]
    return {kind.name: kind for kind in sorted(found, key=lambda kind: kind.place)}
