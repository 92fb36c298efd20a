"""Tables of what is claimed: changes beside a background, the ranking of platforms, collapses, unequal streams. Pure.

Every row has its plain interval, its p value in the family of the whole report, and a word; where nothing may be said,
the reason stands in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from labconsole.measure.effects import digits_to_tell
from labconsole.report.claims import NO_MARGIN, Claim, Family
from labconsole.report.comparisons import NOT_REACHED, Collapse, Comparison, StreamShare
from labconsole.report.points import DEDICATED, Reading
from labconsole.report.tables import (
    UNKNOWN,
    Cell,
    Table,
    bounds_words,
    number,
    p_words,
    size_number,
    target_words,
)

CLAIM_COLUMNS = (
    "change_ratio", "change_ci_low_ratio", "change_ci_high_ratio", "blocks", "p", "adjusted_p", "equivalence_p",
    "smallest_effect_ratio", "smallest_effect_of_family_ratio", "word", "why",
)  # fmt: skip
CLAIM_HEADINGS = ("change, %", "95 % interval, %", "blocks", "p", "p, Holm", "would have shown, %", "finding")


def claim_cells(claim: Claim, plain_ratio: float | None) -> tuple[Cell, ...]:
    """A claim for the CSV; ``plain_ratio``: the change of the means where no blocks give one."""
    effect = claim.effect
    return (
        change_of(claim, plain_ratio), *((None, None, None, None) if effect is None else (
            effect.ci_low, effect.ci_high, effect.blocks, effect.p
        )), claim.adjusted_p, claim.equivalence_p, claim.smallest_ratio, claim.smallest_of_family_ratio, claim.word,
        claim.why,
    )  # fmt: skip


def claim_words(claim: Claim, plain_ratio: float | None, family: Family) -> tuple[str, ...]:
    """The same for paper."""
    effect, change = claim.effect, change_of(claim, plain_ratio)
    small, smaller = claim.smallest_ratio, claim.smallest_of_family_ratio
    return (
        UNKNOWN if change is None else number(100 * change),
        UNKNOWN if effect is None else bounds_words(effect.ci_low, effect.ci_high),
        UNKNOWN if effect is None else str(effect.blocks),
        p_words(claim.p),
        p_words(claim.adjusted_p),
        UNKNOWN if small is None or smaller is None else f"{_little(small)}; {_little(smaller)}",
        finding_words(claim, family),
    )


def _little(ratio: float) -> str:
    """A change in percent, never so rounded that it is none."""
    return number(100 * ratio, digits_to_tell(100 * ratio))


def change_of(claim: Claim, plain_ratio: float | None) -> float | None:
    """Mean of the blocks' ratios; of the plain means where there are none; None where a maximum was not reached."""
    if claim.effect is not None and claim.effect.change is not None:
        return claim.effect.change
    return plain_ratio if claim.effect is None and claim.why != NOT_REACHED else None


def finding_words(claim: Claim, family: Family) -> str:
    """``different``, ``equivalent within ± 2 %``, ``inconclusive``, ``no claim: one set-up``."""
    if claim.why is not None:
        return f"no claim: {claim.why}"
    if claim.word == "equivalent" and family.margin_ratio is not None:
        return f"equivalent within ± {100 * family.margin_ratio:g} %"
    return claim.word


def family_note(family: Family) -> str:
    """What stands under every table with claims."""
    if not family.size:
        return "Nothing could be tested: no row of this report claims anything."
    words = [
        f"p, Holm: adjusted over all {family.size} claims of this report; different: at most 0.05. Would have shown: "
        "the smallest change found with 80 % power, at 0.05 and at 0.05 over the number of claims."
    ]
    if family.margin_ratio is None:
        none = NO_MARGIN["margin" in family.differ]
        words.append(f"{none[0].upper()}{none[1:]}, so that nothing is called equivalent.")
    else:
        afterwards = "" if family.declared == "plan" else ", chosen afterwards"
        words.append(f"Margin of equivalence: ± {100 * family.margin_ratio:g} %{afterwards}.")
    return " ".join(words)


def maximum_words(reading: Reading) -> str:
    """Mbit/s; ``≥`` where the highest load was still carried."""
    mark = "≥ " if reading.at_least else ""
    return f"{mark}{number(reading.rate.mean / 1e6)}"


def _where(reading: Reading) -> tuple[Cell, ...]:
    setting = reading.setting
    return (
        setting.frame_size_bytes, setting.frame_size_includes_fcs, setting.platform, setting.sources,
    )  # fmt: skip


def _target(reading: Reading) -> Cell:
    return "max" if reading.point.target_bps is None else reading.point.target_bps


def relative_changes(found: Sequence[Comparison], family: Family, *, name: str, title: str) -> Table:
    """Table 1 (and figure 5 in numbers): change of the maximum under a background, with its interval."""
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for change in found:
        s, b = change.subject, change.baseline
        rows.append(
            (
                *_where(s), s.setting.background, b.setting.background, s.rate.mean, b.rate.mean, s.at_least,
                b.at_least, _target(s), _target(b), s.rate.set_ups, b.rate.set_ups, s.rate.trials, b.rate.trials,
                change.loads,
                *claim_cells(change.claim, change.change_ratio),
            )
        )  # fmt: skip
        shown.append(
            (
                size_number(s.setting.frame_size_bytes, s.setting.frame_size_includes_fcs), s.setting.platform,
                str(s.setting.sources), s.setting.background, b.setting.background, maximum_words(s), maximum_words(b),
                *claim_words(change.claim, change.change_ratio, family),
            )
        )  # fmt: skip
    return Table(
        name=name,
        title=title,
        columns=(
            "frame_size_bytes", "frame_size_includes_fcs", "platform", "sources", "background", "baseline",
            "maximum_bps", "baseline_maximum_bps", "at_least", "baseline_at_least", "target_bps",
            "baseline_target_bps", "set_ups", "baseline_set_ups", "trials", "baseline_trials", "loads", *CLAIM_COLUMNS,
        ),
        rows=tuple(rows),
        headings=(
            "size, B", "platform", "sources", "background", "against", "Mbit/s", "against, Mbit/s", *CLAIM_HEADINGS,
        ),
        shown=tuple(shown),
        note=(
            "Change of the maximum, or of the rate where there is one load, against that of the same platform beside "
            f"the background in the column against ({DEDICATED}: no second guest), block by block; positive is more. "
            f"Both are over the loads at which both were measured. {family_note(family)}"
        ),
    )  # fmt: skip


def ranking(found: Sequence[Comparison], family: Family) -> Table:
    """Every pair of platforms, the faster one first."""
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for pair in found:
        s, b = pair.subject, pair.baseline
        rows.append(
            (
                *_where(s)[:2], s.setting.sources, s.setting.platform, b.setting.platform, s.rate.mean, b.rate.mean,
                s.at_least, b.at_least, _target(s), _target(b), s.rate.set_ups, b.rate.set_ups, pair.loads,
                None if pair.claim.effect is None else pair.claim.effect.paired,
                *claim_cells(pair.claim, pair.change_ratio),
            )
        )  # fmt: skip
        shown.append(
            (
                size_number(s.setting.frame_size_bytes, s.setting.frame_size_includes_fcs), str(s.setting.sources),
                s.setting.platform, b.setting.platform, maximum_words(s), maximum_words(b),
                *claim_words(pair.claim, pair.change_ratio, family),
            )
        )  # fmt: skip
    return Table(
        name="ranking",
        title="Every pair of platforms without a second guest",
        columns=(
            "frame_size_bytes", "frame_size_includes_fcs", "sources", "platform", "other_platform", "maximum_bps",
            "other_maximum_bps", "at_least", "other_at_least", "target_bps", "other_target_bps", "set_ups",
            "other_set_ups", "loads", "paired", *CLAIM_COLUMNS,
        ),
        rows=tuple(rows),
        headings=("size, B", "sources", "platform", "over", "Mbit/s", "over, Mbit/s", *CLAIM_HEADINGS),
        shown=tuple(shown),
        note=(
            "By how much the first platform forwards more than the second, over the loads at which both were measured, "
            "block by block; platforms that need different boots of the machine by boots, unpaired. "
            f"{family_note(family)}"
        ),
    )  # fmt: skip


def collapses(found: Sequence[Collapse], family: Family) -> Table:
    """Rate at the highest load against the maximum, for each setting that has both."""
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for each in found:
        r, setting = each.reading, each.reading.setting
        plain = r.highest.rate_bps.mean / r.rate.mean - 1 if r.rate.mean else None
        rows.append(
            (
                *_where(r), setting.background, r.rate.mean, _target(r), r.highest.rate_bps.mean,
                "max" if r.highest.target_bps is None else r.highest.target_bps, *claim_cells(each.claim, plain),
            )
        )  # fmt: skip
        shown.append(
            (
                size_number(setting.frame_size_bytes, setting.frame_size_includes_fcs), setting.platform,
                str(setting.sources), setting.background, number(r.rate.mean / 1e6), target_words(r.point.target_bps),
                number(r.highest.rate_bps.mean / 1e6), *claim_words(each.claim, plain, family),
            )
        )  # fmt: skip
    return Table(
        name="collapse",
        title="Rate at the highest load against that at the maximum",
        columns=(
            "frame_size_bytes", "frame_size_includes_fcs", "platform", "sources", "background", "maximum_bps",
            "target_bps", "highest_bps", "highest_target_bps", *CLAIM_COLUMNS,
        ),
        rows=tuple(rows),
        headings=(
            "size, B", "platform", "sources", "background", "maximum, Mbit/s", "at, Mbit/s", "highest load, Mbit/s",
            *CLAIM_HEADINGS,
        ),
        shown=tuple(shown),
        note=f"One-sided: whether more than 2 % is lost beyond the maximum. {family_note(family)}",
    )  # fmt: skip


def streams(found: Sequence[StreamShare], family: Family) -> Table:
    """Each stream's share of what was forwarded at a setting's maximum."""
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[str, ...]] = []
    for each in found:
        r, setting = each.reading, each.reading.setting
        plain = each.share * each.streams - 1
        rows.append(
            (*_where(r), setting.background, _target(r), each.stream, each.share, *claim_cells(each.claim, plain))
        )
        shown.append(
            (
                size_number(setting.frame_size_bytes, setting.frame_size_includes_fcs), setting.platform,
                str(setting.sources), setting.background, each.stream, number(100 * each.share, 2),
                *claim_words(each.claim, plain, family),
            )
        )  # fmt: skip
    return Table(
        name="streams",
        title="Streams of one trial: share of what was forwarded",
        columns=(
            "frame_size_bytes", "frame_size_includes_fcs", "platform", "sources", "background", "target_bps", "stream",
            "share_ratio", *CLAIM_COLUMNS,
        ),
        rows=tuple(rows),
        headings=("size, B", "platform", "sources", "background", "stream", "share, %", *CLAIM_HEADINGS),
        shown=tuple(shown),
        note=(
            "At each setting's maximum, of trials whose streams were offered the same; change: against an equal share. "
            f"Of two streams the first says it for both. {family_note(family)}"
        ),
    )  # fmt: skip
