"""The request for a report: how it selects its runs, whether by their outcome, and how it treats them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from labconsole.errors import ConfigError
from labconsole.measure.groups import CONDITIONS, STANDING, design_of, is_search_trial
from labconsole.measure.run_row import RunRow
from labconsole.model.query import Query, QueryError, parse_query

# -- selection ---------------------------------------------------------------------------------------------------------
# The selection of runs for a report, and whether it chose by their outcome.
#
# A selection may freely use the factors of the design and the conditions. Everything else (a rate, a loss, a verdict, a
# note, an attempt, blocks, a time that cuts a plan) can select by outcome: then a report shows the desired result. The
# first blocks can, too: an operator who looks after each block may stop at a pleasing one. Such a selection is refused.
# If it is explicitly allowed, the page's head, every caption and the manifest say so.

FACTORS = ("platform", "size", "sources", "target", "background", "duration", "point", "plan")
FREE = (
    *FACTORS,
    "generator",
    "testbed",
    "fingerprint",
    "emulated",
    "kernel",
    "hypervisor",
    "method",
    "format",
    "role",
)
"""Fields of a filter that choose by design or conditions."""

BY_OUTCOME = "--select-by-outcome"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selection and pooling, as the report repeats them.

    ``text``: the filter as typed. ``options``: --plan, --platforms, --testbed as text. ``by_outcome``: fields of the
    filter that can select by outcome. ``pool``: conditions that count as equal.
    """

    text: str = ""
    options: tuple[str, ...] = ()
    by_outcome: tuple[str, ...] = ()
    pool: tuple[str, ...] = ()
    margin_ratio: float | None = None

    @property
    def description(self) -> str:
        """A description of the runs, for the head of a report."""
        chosen = [*self.options, *([f"filter {self.text}"] if self.text else [])]
        return "; ".join(chosen) if chosen else "every run of the store"

    @property
    def narrows(self) -> bool:
        """Whether it omits some runs of a plan: a family of fewer claims than the plan's own."""
        return bool(self.text) or any(option.startswith("platforms ") for option in self.options)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings that every caption repeats."""
        sentences = []
        if self.by_outcome:
            fields = ", ".join(self.by_outcome)
            sentences.append(f"Runs were chosen by their outcome ({fields}; filter: {self.text}).")
        if self.pool:
            sentences.append(f"Pooled although they may differ: {', '.join(self.pool)}.")
        return tuple(sentences)

    def to_json(self) -> dict[str, Any]:
        """The selection for the manifest and --json."""
        return {
            "filter": self.text,
            "options": list(self.options),
            "by_outcome": list(self.by_outcome),
            "pool": list(self.pool),
            "margin_ratio": self.margin_ratio,
        }


def parse_filter(terms: Sequence[str]) -> Query:
    """Parse the words of a filter. Raises ConfigError about the first invalid word."""
    text = " ".join(terms)
    try:
        return parse_query(text)
    except QueryError as exc:
        raise ConfigError(str(exc), key="FILTER", value=text) from None


def outcomes(query: Query, runs: Sequence[RunRow] | None) -> tuple[str, ...]:
    """The fields by which this filter could select outcomes.

    ``runs``: all runs that it selects from, or None for any, so that every time counts as an outcome.
    """
    found = []
    for term in query.terms:
        name, test = term.field, term.test()
        if name in FREE:
            continue
        if name == "verdict" and _keeps_all_included(test):
            continue
        if name == "started" and runs is not None and _cut(test, runs) is None:
            continue
        found.append(name or "a word anywhere")
    return tuple(dict.fromkeys(found))


def require_free(query: Query, runs: Sequence[RunRow], *, allowed: bool, offer: bool = True) -> tuple[str, ...]:
    """Like outcomes(), but raises ConfigError if there are any and they are not ``allowed``.

    ``offer``: whether the user could allow them. If they are allowed, only the filter decides what counts as an
    outcome: a bundle holds only the selected runs, which do not show whether a time cut anything.
    """
    if allowed:
        return outcomes(query, None)
    found = outcomes(query, runs)
    if not found:
        return found
    if found == ("started",):
        cuts = next(
            cut for term in query.terms if term.field == "started" and (cut := _cut(term.test(), runs)) is not None
        )
        problem = f"this time cuts {cuts}: when it was cut may depend on its outcome; select whole plans"
    else:
        problem = (
            f"selects runs by outcome ({', '.join(found)}), which would bias the report; select by factors and "
            "conditions"
        )
    raise ConfigError(
        problem + (f", or use {BY_OUTCOME}: page, captions and manifest then say so" if offer else ""),
        key="FILTER",
        value=query.text,
        allowed=", ".join((*FREE, "started where it cuts no plan")),
    )


class _Judged(NamedTuple):
    """A run of which only the verdict is known."""

    verdict: str


def _keeps_all_included(test: Callable[[Any], bool]) -> bool:
    """Whether the test passes all runs that enter, as ``verdict!=invalid`` does."""
    return all(test(_Judged(verdict)) for verdict in STANDING)


def _cut(test: Callable[[Any], bool], runs: Sequence[RunRow]) -> str | None:
    """What a time filter cuts apart: a plan, or repetitions outside of plans; or None.

    It may separate a plan's pilot, which enters nothing, from the blocks.
    """
    said: dict[Hashable, bool] = {}
    for run in runs:
        if is_search_trial(run) or run.role == "telemetry":
            continue
        piloted = run.role == "pilot"
        unit: Hashable = (run.plan_hash, run.testbed_fingerprint, piloted) if run.plan_hash else design_of(run)
        if said.setdefault(unit, test(run)) == test(run):
            continue
        if not run.plan_hash:
            return f"the repetitions of {run.platform} with background {run.background}"
        return f"{'the pilot (block 0) of ' if piloted else ''}plan {run.plan_hash}"
    return None


def factors_match(query: Query, point: object) -> bool:
    """Whether a filter selects a point of a plan, by its factors only: its runs may not exist yet."""
    return all(term.test()(point) for term in query.terms if term.field in FACTORS[:-1])


def check_pool(names: Collection[str] | None) -> tuple[str, ...]:
    """Check names of conditions. Raises ConfigError on an unknown name."""
    for name in names or ():
        if name not in CONDITIONS:
            raise ConfigError("is not a condition", key="--pool", value=name, allowed=", ".join(CONDITIONS))
    return tuple(name for name in CONDITIONS if name in (names or ()))


def parse_margin(text: str | None) -> float | None:
    """Parse ``2%`` or ``0.02``. Raises ConfigError on anything but a ratio above 0 and below 1."""
    if text is None:
        return None
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise ConfigError(
            "is not a valid margin", key="--margin", value=text, allowed="above 0 and below 1, such as 2% or 0.02"
        )
    return value


# -- request -----------------------------------------------------------------------------------------------------------
# The request for a report: the runs that it covers, and how it treats them.
#
# The command builds it from its options, a bundle's manifest keeps it, and the verifier of the bundle requests the same
# report again.

MAX_ARGUMENT_CHARACTERS = 1 << 16
"""Of all arguments in a manifest together: a thousand plans by name. Each is compared with each run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """All options that determine the content of a report.

    ``filter``: terms as in the console's list of runs. ``plan_names``, ``platforms`` and ``testbed`` choose runs by
    name, ``plan_files`` those of exactly these plans. ``platforms``: None for all. ``pool``: conditions that count as
    equal. ``margin``: a ratio as typed, such as ``2%``. ``reference``: a paper whose tables are shown for comparison.
    ``reference_map``: pairs ``own=paper's`` of platforms' names.
    """

    filter: tuple[str, ...] = ()
    plan_names: tuple[str, ...] = ()
    plan_files: tuple[Path, ...] = ()
    platforms: tuple[str, ...] | None = None
    testbed: str | None = None
    select_by_outcome: bool = False
    pool: tuple[str, ...] = ()
    margin: str | None = None
    reference: str | None = None
    reference_map: tuple[str, ...] = ()

    @property
    def plans(self) -> list[str]:
        """The plans that select runs, as the report names them."""
        return [*self.plan_names, *(path.name for path in self.plan_files)]

    def arguments(self) -> list[str]:
        """Everything but the filter and the plans' files, in the form that a manifest keeps: ``--NAME=VALUE``."""
        values = [
            ("reference", self.reference),
            ("reference-map", ",".join(self.reference_map)),
            ("platforms", ",".join(self.platforms or ())),
            ("testbed", self.testbed),
            *(("plan", name) for name in self.plan_names),
            ("pool", ",".join(self.pool)),
            ("margin", self.margin),
        ]
        return [
            *(f"--{name}={value}" for name, value in values if value),
            *([BY_OUTCOME] if self.select_by_outcome else []),
        ]


def parse_arguments(arguments: Sequence[str], *, filter: Sequence[str], plan_files: Sequence[Path]) -> ReportRequest:
    """The request with these ``arguments()``. They may be a stranger's: unknown ones are ignored.

    Raises ConfigError if they are longer than a report's.
    """
    if (characters := sum(map(len, arguments))) > MAX_ARGUMENT_CHARACTERS:
        raise ConfigError(
            f"the report's arguments have {characters} characters", allowed=f"at most {MAX_ARGUMENT_CHARACTERS}"
        )
    values: dict[str, list[str]] = {}
    for word in arguments:
        name, _, value = word.partition("=")
        values.setdefault(name, []).append(value)

    def last(name: str) -> str | None:
        return values.get(f"--{name}", [None])[-1]

    def listed(name: str) -> tuple[str, ...]:
        return tuple(part for part in (last(name) or "").split(",") if part)

    return ReportRequest(
        filter=tuple(filter),
        plan_names=tuple(values.get("--plan", ())),
        plan_files=tuple(plan_files),
        platforms=listed("platforms") or None,
        testbed=last("testbed"),
        select_by_outcome=BY_OUTCOME in values,
        pool=listed("pool"),
        margin=last("margin"),
        reference=last("reference"),
        reference_map=listed("reference-map"),
    )
