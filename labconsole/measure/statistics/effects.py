"""Relative effects of a subject against its baseline, paired by block, and the claims that they allow. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from labconsole.measure.statistics.distributions import (
    noncentral_t_cdf,
    normal_quantile,
    student_t_cdf,
    student_t_quantile,
)
from labconsole.measure.statistics.set_ups import LEVEL, Key, deviation, finite, mean_of, pooled_deviation

# -- effects -----------------------------------------------------------------------------------------------------------
# Everything is computed on the logarithm, so that a change and its reverse are equally far apart, and returned as a
# relative change (0.1 is ten per cent more). The unit is a *block*: one set-up of each platform and background, in
# random order. Conditions that a whole block shares (time of day, temperature, drift) cancel in its ratio.
#
# Sources: Student's t of paired differences; B. L. Welch, Biometrika 34 (1947), if no blocks are shared; S. Holm, A
# simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979); D. J. Schuirmann, two one-sided
# tests, J. Pharmacokinet. Biopharm. 15 (1987). None means that there is no result, for the reason in ``absent``.

MINIMUM_BLOCKS = 3
SIGNIFICANCE = 0.05
EQUIVALENCE_LEVEL = 0.90
"""The level of the interval that is equivalent to two one-sided tests at 5 %."""
POWER = 0.8
MOST_DIGITS = 15
FEWEST_OTHERS = 6
"""The fewest replicates of one side with which a single one of the other is compared.

If occasions are of two kinds, m of one kind and the single one of the other occur in p·(1 - p)^m of cases: up to 10.5 %
with three, 6.7 % with five, 5.7 % with six.
"""

ROUNDING = 1e-12
"""A deviation of logarithms up to this is due to floating point: no count of packets has such small steps."""

FEW_BLOCKS = "fewer than 3 blocks"
FEW_A_SIDE = "fewer than 3 set-ups a side"
NOTHING_VARIED = "nothing varied, and the packets of a trial are not known"

Alternative = Literal["two-sided", "less", "greater"]
Word = Literal["different", "equivalent", "different, within the margin", "inconclusive", "no claim"]


@dataclass(frozen=True, slots=True)
class Effect:
    """Relative change of a subject against its baseline (subject / baseline - 1) and its support.

    ``ci_low``, ``ci_high``: two-sided, at ``level``. ``ci90_low``, ``ci90_high``: the interval for judging equivalence.
    ``p``: for the given null and alternative. ``blocks``: pairs, or the smaller side if unpaired. On the natural
    logarithm: ``mean_log``, its standard error ``error_log``, and ``sd_log``, the deviation between blocks (unpaired:
    the root mean square of both sides').

    ``others_of_single``: the replicates of one side if the other has a single one, whose distribution is unknown. Its
    claims are by the inequalities of Chebyshev (two-sided, 1/k²) and Cantelli (one-sided,
    1/(1 + k²)) at k standard errors, and there are none with fewer others than ``FEWEST_OTHERS``.
    """

    change: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    blocks: int
    sd_log: float | None
    degrees: float | None
    paired: bool
    ci90_low: float | None = None
    ci90_high: float | None = None
    absent: str | None = None
    mean_log: float | None = None
    error_log: float | None = None
    level: float = LEVEL
    others_of_single: int | None = None


def paired_effect(
    subject: Mapping[Key, float],
    baseline: Mapping[Key, float],
    *,
    packets: float | None = None,
    null: float = 1.0,
    alternative: Alternative = "two-sided",
    level: float = LEVEL,
) -> Effect:
    """Effect over the blocks that both have; values: mean of each block's trials, in one unit.

    ``packets``: of a trial, the fewer of both sides. A count has steps of one, so the deviation of a log ratio is
    assumed to be at least sqrt(2) / packets. ``null``: the ratio under the null hypothesis (0.98 with "less": by more
    than 2 % less).
    """
    blocks = [block for block in subject if block in baseline]
    ours, theirs = finite(subject[block] for block in blocks), finite(baseline[block] for block in blocks)
    reason = _no_logarithm(ours, theirs)
    if reason is not None:
        return _absent(reason, len(blocks))
    logs = [math.log(a / b) if _near(a, b) else math.log(a) - math.log(b) for a, b in zip(ours, theirs, strict=True)]
    step = None if packets is None else math.sqrt(2.0) / packets
    return _one_sample(logs, step, null, alternative, level)


def share_effect(
    shares: Mapping[Key, float], streams: int, *, packets: float | None = None, level: float = LEVEL
) -> Effect:
    """The deviation of one of ``streams`` from its fair share. ``shares``: its part of the sum, 0 to 1, by block.

    ``packets``: of this stream in a trial.
    """
    known = finite(shares.values())
    reason = _no_logarithm(known, [1.0] * len(known))
    if reason is not None:
        return _absent(reason, len(known))
    step = None if packets is None else math.sqrt(2.0) / packets
    return _one_sample([math.log(share * streams) for share in known], step, 1.0, "two-sided", level)


def unpaired_effect(
    subject: Sequence[float],
    baseline: Sequence[float],
    *,
    packets: float | None = None,
    null: float = 1.0,
    alternative: Alternative = "two-sided",
    level: float = LEVEL,
) -> Effect:
    """Effect without shared blocks: Welch's t on the logarithm, over means of replicates (set-ups, or boots).

    It needs three per side for a claim. ``packets``: as in ``paired_effect``.
    """
    ours, theirs = finite(subject), finite(baseline)
    counts = len(ours), len(theirs)
    reason = _no_logarithm(ours, theirs)
    if reason is not None:
        return _absent(reason, min(counts), paired=False)
    if not min(counts):
        return _absent(FEW_A_SIDE, 0, paired=False)
    sides = [[math.log(value) for value in side] for side in (ours, theirs)]
    mean = mean_of(sides[0]) - mean_of(sides[1])
    step = 0.0 if packets is None else 1.0 / packets
    sds = [max(deviation(side) or 0.0, step) for side in sides]
    if min(counts) < MINIMUM_BLOCKS:
        sd = math.hypot(*sds) / math.sqrt(2.0) if min(counts) > 1 else None
        return _absent(FEW_A_SIDE, min(counts), mean, sd, paired=False)
    errors = [sd * sd / n for sd, n in zip(sds, counts, strict=True)]
    total = math.fsum(errors)
    if total <= ROUNDING * ROUNDING:
        return _absent(NOTHING_VARIED, min(counts), mean, 0.0, paired=False)
    degrees = 1.0 / math.fsum((e / total) ** 2 / (n - 1) for e, n in zip(errors, counts, strict=True))
    degrees = max(degrees, float(min(counts) - 1))  # rounding must not reduce it
    sd = math.hypot(*sds) / math.sqrt(2.0)
    return build_effect(mean, math.sqrt(total), degrees, min(counts), sd, null, alternative, level, paired=False)


def one_spread_effect(
    subject: Sequence[float],
    baseline: Sequence[float],
    *,
    packets: float | None = None,
    least_sd_log: float = 0.0,
    own_sd_log: float = 0.0,
) -> Effect:
    """Effect if one side has three replicates or more and the other one fewer: Student's t on the logarithm.

    One spread is assumed for both, so that a single occasion can be judged by the variation of the other side.
    ``packets``: as in ``paired_effect``. ``least_sd_log``: the known minimum variation of a replicate. ``own_sd_log``:
    the observed variation of the side with fewer, which counts for that side alone.
    """
    ours, theirs = finite(subject), finite(baseline)
    counts = len(ours), len(theirs)
    reason = _no_logarithm(ours, theirs)
    if reason is not None or not min(counts):
        return _absent(reason or FEW_A_SIDE, min(counts), paired=False)
    sides = [[math.log(value) for value in side] for side in (ours, theirs)]
    mean = mean_of(sides[0]) - mean_of(sides[1])
    if max(counts) < MINIMUM_BLOCKS:
        return _absent(FEW_A_SIDE, min(counts), mean, paired=False)
    sd = max(pooled_deviation(sides) or 0.0, least_sd_log, 0.0 if packets is None else 1.0 / packets)
    if max(sd, own_sd_log) <= ROUNDING:
        return _absent(NOTHING_VARIED, min(counts), mean, 0.0, paired=False)
    error = math.hypot(sd / math.sqrt(max(counts)), max(sd, own_sd_log) / math.sqrt(min(counts)))
    sd = error / math.sqrt(math.fsum(1.0 / count for count in counts))
    return build_effect(
        mean,
        error,
        float(sum(counts) - 2),
        min(counts),
        sd,
        1.0,
        "two-sided",
        LEVEL,
        paired=False,
        others_of_single=max(counts) if min(counts) == 1 else None,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of one family adjusted by Holm's procedure, in the given order."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def equivalence_p(effect: Effect, margin_ratio: float) -> float | None:
    """The larger p of two one-sided tests that the change lies within ± ln(1 + margin), or None without a result.

    At most 0.05 exactly if the 90 % interval lies inside (Schuirmann 1987).
    """
    if not margin_ratio > 0:
        raise ValueError(f"a margin is above zero, got {margin_ratio!r}")
    if effect.p is None or effect.mean_log is None:
        return None
    bound = math.log1p(margin_ratio)
    return max(_one_sided_p(effect, bound - effect.mean_log), _one_sided_p(effect, bound + effect.mean_log))


def fall_p(effect: Effect, margin_ratio: float) -> tuple[float, float] | None:
    """The p-values for a subject lower by more than ln(1 + margin), and for one that is not, or None without a result.

    One-sided, without adjustment.
    """
    if not margin_ratio > 0:
        raise ValueError(f"a margin is above zero, got {margin_ratio!r}")
    if effect.mean_log is None or effect.error_log is None:
        return None
    higher = effect.mean_log + math.log1p(margin_ratio)
    return _one_sided_p(effect, -higher), _one_sided_p(effect, higher)


def rise_p(effect: Effect, margin_ratio: float) -> float | None:
    """The p-value for a subject higher by more than ln(1 + margin); see fall_p()."""
    if not margin_ratio > 0:
        raise ValueError(f"a margin is above zero, got {margin_ratio!r}")
    if effect.mean_log is None or effect.error_log is None:
        return None
    return _one_sided_p(effect, effect.mean_log - math.log1p(margin_ratio))


def word(adjusted_p: float | None, equivalence_adjusted_p: float | None, significance: float = SIGNIFICANCE) -> Word:
    """The classification of a row by its adjusted p-values.

    A None is not tested (too few blocks; no margin declared).
    """
    if adjusted_p is None and equivalence_adjusted_p is None:
        return "no claim"
    different = adjusted_p is not None and adjusted_p <= significance
    equivalent = equivalence_adjusted_p is not None and equivalence_adjusted_p <= significance
    if different and equivalent:
        return "different, within the margin"
    if different:
        return "different"
    return "equivalent" if equivalent else "inconclusive"


def power(change: float, sd_log: float, n: int, alpha: float = SIGNIFICANCE, *, paired: bool = True) -> float | None:
    """Probability that a true relative ``change`` is called different at ``alpha``, two-sided, with n blocks.

    If not ``paired``, n is per side. ``sd_log``: of the log ratio between blocks, or (unpaired) of each side. None
    below three, or without spread.
    """
    error, degrees = _error(sd_log, n, paired)
    if n < MINIMUM_BLOCKS or not error:
        return None
    return _power(abs(math.log1p(change)) / error, degrees, alpha)


def smallest_effect(
    sd_log: float, n: int, alpha: float = SIGNIFICANCE, power: float = POWER, paired: bool = True
) -> float | None:
    """The smallest relative increase that n blocks (or n per side) would show with ``power``: 0.02 is two per cent.

    The decrease that is shown equally well as an increase y is y / (1 + y). It is from the noncentral t at this spread,
    not a power "at the observed effect", which would only restate the p-value. None below three, or without variation.
    """
    error, degrees = _error(sd_log, n, paired)
    if n < MINIMUM_BLOCKS or not error:
        return None
    return _grown(noncentrality(degrees, alpha, power) * error)


def find_detectable_effect(effect: Effect, alpha: float = SIGNIFICANCE, power: float = POWER) -> float | None:
    """The smallest relative change that this row could have shown, by its own standard error and degrees."""
    if effect.p is None or effect.error_log is None or effect.degrees is None:
        return None
    if effect.others_of_single is not None:
        alpha = 2.0 * student_t_cdf(-_two_sided_reach(1.0 - alpha, effect.degrees, single=True), effect.degrees)
    return _grown(noncentrality(effect.degrees, alpha, power) * effect.error_log)


def digits_to_tell(value: float, reference: float = 0.0, least: int = 1) -> int:
    """Decimals, at least ``least``, with which a written ``value`` still lies on its own side of ``reference``.

    -0.04 compared with 0 needs two: "-0.0" would not show that zero is outside.
    """
    if value == reference:
        return least
    for digits in range(least, MOST_DIGITS):
        if (float(f"{value:.{digits}f}") - reference) * (value - reference) > 0:
            return digits
    return MOST_DIGITS


def _near(a: float, b: float) -> bool:
    """Whether the quotient of two positive numbers keeps all its digits, without underflow or overflow."""
    return 1e-100 < a / b < 1e100 if b > 1e-150 else False


def _no_logarithm(ours: Sequence[float], theirs: Sequence[float]) -> str | None:
    if min(theirs, default=1.0) == 0:
        return "baseline is zero"
    if min(ours, default=1.0) == 0:
        return "a mean is zero"
    if min([*ours, *theirs, 1.0]) < 0:
        return "a mean is below zero"
    return None


def _absent(
    reason: str, blocks: int, mean: float | None = None, sd: float | None = None, *, paired: bool = True
) -> Effect:
    change = None if mean is None else _grown(mean)
    return Effect(change, None, None, None, blocks, sd, None, paired, absent=reason, mean_log=mean)


def _one_sample(
    logs: Sequence[float], step: float | None, null: float, alternative: Alternative, level: float
) -> Effect:
    if not logs:
        return _absent(FEW_BLOCKS, 0)
    mean, sd = mean_of(logs), deviation(logs)
    if sd is not None and step is not None:
        sd = max(sd, step)
    if sd is None or len(logs) < MINIMUM_BLOCKS:
        return _absent(FEW_BLOCKS, len(logs), mean, sd)
    if sd <= ROUNDING:
        return _absent(NOTHING_VARIED, len(logs), mean, 0.0)
    error = sd / math.sqrt(len(logs))
    return build_effect(mean, error, float(len(logs) - 1), len(logs), sd, null, alternative, level, paired=True)


def build_effect(
    mean: float,
    error: float,
    degrees: float,
    blocks: int,
    sd: float,
    null: float,
    alternative: Alternative,
    level: float,
    *,
    paired: bool,
    others_of_single: int | None = None,
) -> Effect:
    """An effect from its mean, its standard error and its degrees of freedom; fields are those of Effect."""
    single = others_of_single is not None
    if others_of_single is not None and others_of_single < FEWEST_OTHERS:
        return Effect(
            change=_grown(mean),
            ci_low=None,
            ci_high=None,
            p=None,
            blocks=blocks,
            sd_log=sd,
            degrees=degrees,
            paired=paired,
            mean_log=mean,
            error_log=error,
            level=level,
            others_of_single=others_of_single,
        )
    reach = _two_sided_reach(level, degrees, single=single) * error
    reach90 = one_sided_reach((1.0 - EQUIVALENCE_LEVEL) / 2.0, degrees, single=single) * error
    t = (mean - math.log(null)) / error
    if alternative == "two-sided":
        p = min(1.0, 2.0 * student_t_cdf(-abs(t), degrees))
        p = max(p, min(1.0, 1.0 / (t * t))) if single and t else p
    else:
        p = _tail(t if alternative == "less" else -t, degrees, single=single)
    return Effect(
        change=_grown(mean),
        ci_low=_grown(mean - reach),
        ci_high=_grown(mean + reach),
        p=p,
        blocks=blocks,
        sd_log=sd,
        degrees=degrees,
        paired=paired,
        ci90_low=_grown(mean - reach90),
        ci90_high=_grown(mean + reach90),
        mean_log=mean,
        error_log=error,
        level=level,
        others_of_single=others_of_single,
    )


def one_sided_reach(alpha: float, degrees: float, *, single: bool) -> float:
    """Standard errors that a difference needs to be shown in its direction at ``alpha``: 4.36 at 5 % for a single
    replicate (Cantelli).
    """
    reach = student_t_quantile(1.0 - alpha, degrees)
    return max(reach, math.sqrt(1.0 / alpha - 1.0)) if single else reach


def _two_sided_reach(level: float, degrees: float, *, single: bool) -> float:
    """The same in either direction: 4.47 at 95 % for a single replicate (Chebyshev)."""
    reach = student_t_quantile((1.0 + level) / 2.0, degrees)
    return max(reach, 1.0 / math.sqrt(1.0 - level)) if single else reach


def _one_sided_p(effect: Effect, difference_log: float) -> float:
    """The p-value for a difference above zero, with the error and degrees of the effect."""
    assert effect.error_log is not None
    assert effect.degrees is not None
    return _tail(-difference_log / effect.error_log, effect.degrees, single=effect.others_of_single is not None)


def _tail(t: float, degrees: float, *, single: bool) -> float:
    """The share of a distribution at ``t`` or below."""
    share = student_t_cdf(t, degrees)
    return max(share, 1.0 / (1.0 + min(t, 0.0) ** 2)) if single else share


def _grown(log_change: float) -> float:
    """A relative change from its logarithm; infinite if it exceeds every number."""
    return math.expm1(log_change) if log_change < 700.0 else math.inf


def _error(sd_log: float, n: int, paired: bool) -> tuple[float, float]:
    """Standard error and degrees of freedom of the mean log ratio."""
    if paired:
        return sd_log / math.sqrt(max(n, 1)), float(n - 1)
    return sd_log * math.sqrt(2.0 / max(n, 1)), float(2 * (n - 1))


def _power(noncentrality: float, degrees: float, alpha: float) -> float:
    limit = student_t_quantile(1 - alpha / 2, degrees)
    return noncentral_t_cdf(-limit, degrees, noncentrality) + noncentral_t_cdf(-limit, degrees, -noncentrality)


@lru_cache(maxsize=4096)
def noncentrality(degrees: float, alpha: float, power: float) -> float:
    """The standard errors that a change needs to be shown two-sided with ``power`` (regula falsi, Illinois)."""
    low, high = 0.0, 2.0 * student_t_quantile(1 - alpha / 2, degrees) + 10.0
    below, above = alpha - power, _power(high, degrees, alpha) - power
    while above < 0:
        low, below, high = high, above, 2 * high
        above = _power(high, degrees, alpha) - power
    if below >= 0:
        return 0.0
    last = 0
    for _ in range(200):
        middle = (low * above - high * below) / (above - below)
        found = _power(middle, degrees, alpha) - power
        if abs(found) < 1e-11:
            return middle
        side = 1 if found > 0 else -1
        if side > 0:
            high, above = middle, found
            below = below / 2 if last == side else below
        else:
            low, below = middle, found
            above = above / 2 if last == side else above
        last = side
    return (low + high) / 2


# -- censoring ---------------------------------------------------------------------------------------------------------
# Spread of quantities with an upper limit: values above it read as the limit, and vary less than the quantity.
#
# J. Tobin, Estimation of relationships for limited dependent variables, Econometrica 26 (1958): moments of a normal
# distribution that is censored on one side.


def censored_sd_ratio(share: float) -> float:
    """The observed deviation, in deviations of a normal quantity, if its upper ``share`` is cut off.

    1 if nothing is cut off. Also 1 if everything is: the spread is then unobservable, and is not guessed.
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"a share lies between 0 and 1, got {share!r}")
    if share in (0.0, 1.0):
        return 1.0
    limit = normal_quantile(1 - share)
    density = math.exp(-limit * limit / 2) / math.sqrt(2 * math.pi)
    mean = share * limit - density
    return math.sqrt(1 - share - limit * density + share * limit * limit - mean * mean)


def widen_effect(effect: Effect, factor: float) -> Effect:
    """The same change with its error and deviation multiplied by ``factor``; an effect without claim is unchanged."""
    if effect.mean_log is None or effect.error_log is None or effect.degrees is None or effect.sd_log is None:
        return effect
    return build_effect(
        effect.mean_log,
        factor * effect.error_log,
        effect.degrees,
        effect.blocks,
        factor * effect.sd_log,
        1.0,
        "two-sided",
        effect.level,
        paired=effect.paired,
        others_of_single=effect.others_of_single,
    )


# -- few values --------------------------------------------------------------------------------------------------------
# Pairs of blocks whose exact agreement shows noise of few values, and no effect.

FEW_KINDS: Final = "values of all 3 blocks move by the same ratio: their set-ups may be of two kinds"

EXACT_RATIO: Final = 1e-9
"""Ratios that differ by less are equal but for floating point."""


def find_few_kinds(one: Mapping[Key, float], other: Mapping[Key, float]) -> str | None:
    """Why nothing is claimed if values move from block to block and their ratio does not, in three blocks, or None.

    Noise of two values does so in 1 of 32 cases, and measured values never.
    """
    shared = [(one[block], other[block]) for block in one if block in other]
    if len(shared) != MINIMUM_BLOCKS or min(min(pair) for pair in shared) <= 0:
        return None
    ratios, ours, theirs = [a / b for a, b in shared], [a for a, _ in shared], [b for _, b in shared]
    spread, *moves = (max(each) / min(each) - 1 for each in (ratios, ours, theirs))
    return FEW_KINDS if spread <= EXACT_RATIO < min(moves) else None
