"""The request for a report: the runs that it covers, and how it treats them. Pure.

The command builds it from its options, a bundle's manifest keeps it, and the verifier of the bundle requests the same
report again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labconsole.errors import ConfigError
from labconsole.report.selection import BY_OUTCOME

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
