"""What the second guest did: the papers' tables 2 and 3, the same for every load, and the proof of background load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labconsole.measure.statistics import Summary, summarize
from labconsole.report.claim_tables import CLAIM_COLUMNS, CLAIM_HEADINGS, claim_cells, claim_words, family_note
from labconsole.report.claims import Family
from labconsole.report.comparisons import SecondGuest
from labconsole.report.digest import Load
from labconsole.report.points import background_order, platform_order
from labconsole.report.result_tables import set_ups_words
from labconsole.report.tables import UNKNOWN, Cell, Table, number, size_number, target_words, with_interval

COLUMNS = (
    "frame_size_bytes", "frame_size_includes_fcs", "platform", "sources", "target_bps", "background", "set_ups",
    "trials", "offered_mean_bps", "offered_ci_low_bps", "offered_ci_high_bps", "measured_mean_bps",
    "measured_ci_low_bps", "measured_ci_high_bps", "lost_ratio",
)  # fmt: skip
HEADINGS = ("size, B", "platform", "sources", "set-ups × trials", "in, Mbit/s", "out, Mbit/s", "lost, %")


def in_and_out(found: Sequence[SecondGuest], background: str, family: Family, *, number_of_table: int) -> Table:
    """Table 2 or 3: offered (in) and measured (out) of the second guest, by the first guest's frame size."""
    share = background.rpartition("-")[2]
    rows = [guest for guest in found if guest.setting.background == background]
    return Table(
        name=f"table-{number_of_table}",
        title=f"Second guest forwarding at {share} % of its maximum: offered (in) and measured (out)",
        columns=(*COLUMNS, *CLAIM_COLUMNS),
        rows=tuple((*_row(guest), *_cells(guest)) for guest in rows),
        headings=(*HEADINGS, "out against in, %", *CLAIM_HEADINGS[1:5], CLAIM_HEADINGS[6]),
        shown=tuple((*_shown(guest), *_words(guest, family)) for guest in rows),
        note=(
            "Bandwidth on the wire of the second guest's own streams; the size is the first guest's. Mean over all "
            "trials of that size, whatever the first guest was offered, as in the paper (second-guest.csv has them one "
            "by one); ± half the 95 % interval. Out against in is paired, block by block; one-sided: whether more than "
            f"1 % is lost. {family_note(family)}"
        ),
    )


def _cells(guest: SecondGuest) -> tuple[Cell, ...]:
    plain = None if guest.lost_ratio is None else -guest.lost_ratio
    return (None,) * len(CLAIM_COLUMNS) if guest.claim is None else claim_cells(guest.claim, plain)


def _words(guest: SecondGuest, family: Family) -> tuple[str, ...]:
    if guest.claim is None:
        return (UNKNOWN,) * 6
    plain = None if guest.lost_ratio is None else -guest.lost_ratio
    words = claim_words(guest.claim, plain, family)
    return (*words[:5], words[6])


def by_load(found: Sequence[SecondGuest]) -> Table:
    """The second guest beside every design point of the first."""
    return Table(
        name="second-guest",
        title="Second guest beside every design point of the first",
        columns=COLUMNS,
        rows=tuple(_row(guest) for guest in found),
        headings=(*HEADINGS[:3], "target, Mbit/s", "background", *HEADINGS[3:]),
        shown=tuple(
            (*cells[:3], target_words(guest.target_bps), guest.setting.background, *cells[3:])
            for guest, cells in ((guest, _shown(guest)) for guest in found)
        ),
        note="Size, sources and target are the first guest's; in and out are the second guest's, on the wire.",
    )


def _row(guest: SecondGuest) -> tuple[Cell, ...]:
    target = "all" if guest.all_loads else "max" if guest.target_bps is None else guest.target_bps
    offered, measured, setting = guest.offered_bps, guest.measured_bps, guest.setting
    return (
        setting.frame_size_bytes, setting.frame_size_includes_fcs, setting.platform, setting.sources, target,
        setting.background, measured.set_ups, measured.trials, offered.mean, offered.ci_low, offered.ci_high,
        measured.mean, measured.ci_low, measured.ci_high, guest.lost_ratio,
    )  # fmt: skip


def _shown(guest: SecondGuest) -> tuple[str, ...]:
    setting, lost = guest.setting, guest.lost_ratio
    return (
        size_number(setting.frame_size_bytes, setting.frame_size_includes_fcs), setting.platform, str(setting.sources),
        set_ups_words(guest.measured_bps), with_interval(guest.offered_bps), with_interval(guest.measured_bps),
        UNKNOWN if lost is None else number(lost * 100),
    )  # fmt: skip


def background_loads(loads: Mapping[tuple[str, str], Load]) -> Table:
    """What was asked of the background load and what it reached: nobody has to believe that it ran."""
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for (platform, kind), load in sorted(loads.items(), key=lambda item: _order(*item[0])):
        where = "; ".join(name for name, _ in load.guests.most_common(3))
        names = list(dict.fromkeys([*load.requested, *load.achieved]))
        for name in names:
            asked, reached = (
                summarize(held[name]) if held.get(name) else None for held in (load.requested, load.achieved)
            )
            runs = len(load.run_ids)
            rows.append(
                (platform, kind, where, runs, name, _mean(asked), _mean(reached),
                 None if reached is None else reached.minimum, None if reached is None else reached.maximum)
            )  # fmt: skip
            shown.append(
                (platform, kind, where, str(runs), name, _mean_words(asked), _mean_words(reached),
                 UNKNOWN if reached is None else f"{_figure(reached.minimum)} to {_figure(reached.maximum)}")
            )  # fmt: skip
    return Table(
        name="background-load",
        title="Background load: asked for and reached",
        columns=(
            "platform", "background", "guest", "runs", "quantity", "requested_mean", "achieved_mean", "achieved_min",
            "achieved_max",
        ),
        rows=tuple(rows),
        headings=("platform", "background", "guest", "runs", "quantity", "asked for", "reached", "from, to"),
        shown=tuple(shown),
        note=(
            "Means over the runs that enter, in the unit that ends the quantity's name. demand_ratio: what the load "
            "wanted of processors, run or waiting, of what it was started for; host_cpu_s: what the host spent on "
            "its guest."
        ),
    )  # fmt: skip


def _order(platform: str, kind: str) -> tuple[object, ...]:
    return (platform_order(platform), background_order(kind))


def _mean(summary: Summary | None) -> float | None:
    return None if summary is None else summary.mean


def _mean_words(summary: Summary | None) -> str:
    return UNKNOWN if summary is None else _figure(summary.mean)


def _figure(value: float) -> str:
    return number(value, 0) if abs(value) >= 1000 else f"{value:.4g}".replace("-", "−")
