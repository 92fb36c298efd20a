"""A paper's published tables beside one's own. Its figures were taken on other hardware, and every table says so.

They stand in tables only, never in a figure of one's own runs.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from labconsole.errors import ConfigError
from labconsole.report.claim_tables import change_of, finding_words
from labconsole.report.claims import Family
from labconsole.report.comparisons import Comparison, SecondGuest
from labconsole.report.points import CPU_LOADS, FORWARDING
from labconsole.report.tables import UNKNOWN, Cell, Table, number

NAMES = ("schlosser",)
SOURCE = (
    "D. Schlosser, M. Duelli, S. Goll: Performance Comparison of Hardware Virtualization Platforms (NETWORKING 2011), "
    "table {number}, taken on Sun Fire X4150 servers (2 × Xeon L5420, gigabit Ethernet, Linux 2.6.26)"
)
CAUTION = "The hardware and the versions differ: the paper's column is no target and its difference no error."

SPELLINGS = {"vm-e1000": "esxi-e1000", "vm-vmxnet3": "esxi-vmxnet3"}
"""The paper's own names for what its tables here, in our files, are called by driver."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The paper's figures by frame size (pktgen's, without FCS) and platform.

    ``cpu``: change in percent by size, platform, background; ``guest``: (in, out) in Mbit/s by the same.
    """

    name: str
    cpu: Mapping[tuple[int, str, str], float]
    guest: Mapping[tuple[int, str, str], tuple[float, float]]
    platforms: tuple[str, ...]


def load_reference(name: str) -> Reference:
    """The shipped tables of a paper. Raises ConfigError when there is none of that name."""
    if name not in NAMES:
        raise ConfigError("is no paper whose tables are here", key="--reference", value=name, allowed=", ".join(NAMES))
    cpu: dict[tuple[int, str, str], float] = {}
    guest: dict[tuple[int, str, str], tuple[float, float]] = {}
    for row in _rows(f"{name}_table1.csv"):
        for background in CPU_LOADS:
            cpu[int(row["frame_size_b"]), row["platform"], background] = float(row[f"{background}_pct"])
    for background, number_of_table in zip(FORWARDING, (2, 3), strict=True):
        for row in _rows(f"{name}_table{number_of_table}.csv"):
            rates = float(row["offered_mbps"]), float(row["measured_mbps"])
            guest[int(row["frame_size_b"]), row["platform"], background] = rates
    platforms = dict.fromkeys([*(key[1] for key in guest), *(key[1] for key in cpu)])
    return Reference(name, cpu, guest, tuple(platforms))


def _rows(file: str) -> list[dict[str, str]]:
    text = (files("labconsole.report") / "reference" / file).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def matched(own: Sequence[str], reference: Reference, given: Mapping[str, str]) -> dict[str, str]:
    """One's own platform names to the paper's: as ``given``, else the same name in any case.

    Raises ConfigError when ``given`` names a platform that is not there.
    """
    found: dict[str, str] = {}
    for name in own:
        theirs = _named(name, reference)
        if theirs is not None:
            found[name] = theirs
    for name, wanted in given.items():
        theirs = _named(wanted, reference)
        if theirs is None:
            allowed = ", ".join(reference.platforms)
            raise ConfigError("is no platform of the paper", key="--reference-map", value=wanted, allowed=allowed)
        if name not in own:
            raise ConfigError("is no platform of these runs", key="--reference-map", value=name, allowed=", ".join(own))
        found[name] = theirs
    return found


def _named(name: str, reference: Reference) -> str | None:
    low = name.casefold()
    low = SPELLINGS.get(low, low)
    return low if low in reference.platforms else None


def beside(
    reference: Reference,
    names: Mapping[str, str],
    cpu: Sequence[Comparison],
    guests: Sequence[SecondGuest],
    family: Family,
) -> list[Table]:
    """Own, paper and difference, as far as both have a figure: one source, frame sizes without FCS."""
    made = [_table_1(reference, names, cpu, family)]
    made += [_in_and_out(reference, names, guests, kind, place) for kind, place in zip(FORWARDING, (2, 3), strict=True)]
    return [table for table in made if table.rows]


def _table_1(reference: Reference, names: Mapping[str, str], cpu: Sequence[Comparison], family: Family) -> Table:
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for change in cpu:
        s = change.subject.setting
        theirs = reference.cpu.get((s.frame_size_bytes, names.get(s.platform, ""), s.background))
        if theirs is None or s.sources != 1 or s.frame_size_includes_fcs:
            continue
        ratio = change_of(change.claim, change.change_ratio)
        own = None if ratio is None else ratio * 100
        differs = None if own is None else own - theirs
        paper_name = names[s.platform]
        rows.append((s.frame_size_bytes, s.platform, paper_name, s.background, own, theirs, differs))
        told, theirs_told, differs_told = (UNKNOWN if v is None else number(v) for v in (own, theirs, differs))
        if not change.claim.different:
            told += f" ({finding_words(change.claim, family)})"
        shown.append((str(s.frame_size_bytes), s.platform, paper_name, s.background, told, theirs_told, differs_told))
    return Table(
        name=f"table-1-beside-{reference.name}",
        title="Relative change of the maximum under CPU load, beside the paper's",
        columns=(
            "frame_size_bytes", "platform", "paper_platform", "background", "own_change_percent",
            "paper_change_percent", "difference_percentage_points",
        ),
        rows=tuple(rows),
        headings=("size, B", "platform", "paper's name", "background", "own, %", "paper, %", "difference, points"),
        shown=tuple(shown),
        note=f"Paper: {SOURCE.format(number=1)}. {CAUTION}",
    )  # fmt: skip


def _in_and_out(
    reference: Reference, names: Mapping[str, str], guests: Sequence[SecondGuest], kind: str, number_of_table: int
) -> Table:
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for guest in guests:
        s = guest.setting
        paper_name = names.get(s.platform, "")
        theirs = reference.guest.get((s.frame_size_bytes, paper_name, kind))
        if theirs is None or s.background != kind or s.sources != 1 or s.frame_size_includes_fcs:
            continue
        offered, measured = guest.offered_bps.mean / 1e6, guest.measured_bps.mean / 1e6
        own_lost = None if guest.lost_ratio is None else guest.lost_ratio * 100
        lost = (1 - theirs[1] / theirs[0]) * 100
        figures = (offered, theirs[0], offered - theirs[0], measured, theirs[1], measured - theirs[1], own_lost, lost)
        differs = None if own_lost is None else own_lost - lost
        rows.append((s.frame_size_bytes, s.platform, paper_name, *figures, differs))
        cells = (UNKNOWN if value is None else number(value) for value in (*figures, differs))
        shown.append((str(s.frame_size_bytes), s.platform, paper_name, *cells))
    share = kind.rpartition("-")[2]
    return Table(
        name=f"table-{number_of_table}-beside-{reference.name}",
        title=f"Second guest at {share} % of its maximum, beside the paper's",
        columns=(
            "frame_size_bytes", "platform", "paper_platform", "own_offered_mbps", "paper_offered_mbps",
            "difference_offered_mbps", "own_measured_mbps", "paper_measured_mbps", "difference_measured_mbps",
            "own_lost_percent", "paper_lost_percent", "difference_lost_percentage_points",
        ),
        rows=tuple(rows),
        headings=(
            "size, B", "platform", "paper's name", "in own, Mbit/s", "in paper", "difference", "out own, Mbit/s",
            "out paper", "difference", "lost own, %", "lost paper, %", "difference, points",
        ),
        shown=tuple(shown),
        note=(
            f"Paper: {SOURCE.format(number=number_of_table)}. {CAUTION} What was lost is reckoned from the paper's in "
            "and out; a share of a maximum is comparable where the maxima are not."
        ),
    )  # fmt: skip
