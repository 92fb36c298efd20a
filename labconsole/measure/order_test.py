"""Whether the order of results matters: a permutation test of one change, or of a level that is left again. Pure.

Of any results whose order says nothing, whatever they scatter by, it finds a change in no more than LARGEST_P. The
statistic is that of circular binary segmentation (A. B. Olshen et al., Biostatistics 5, 2004), in which a lasting
change weighs more than a level that is left again, since that takes two changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt

ORDER_RESULTS: Final = 9
"""From so many on a single order can be rare enough: of eight results in halves 2 of 70 orders are the clearest."""

LARGEST_P: Final = 1 / 40
SHUFFLES: Final = 999
SEED: Final = 44
LEFT_AGAIN: Final = 0.9
"""What a level that is left again explains counts by so much."""

Rows = npt.NDArray[np.float64]


def order_p(values: Sequence[float], fewest: int) -> float:
    """The share of shuffled orders, of 999 and this one, that part the results as clearly as their own does.

    ``fewest``: results that are parted from the rest. Series that are read backwards have the same value.
    """
    own = np.asarray(values, dtype=np.float64)
    shuffled = np.random.default_rng(SEED).permuted(np.tile(np.sort(own), (SHUFFLES, 1)), axis=1)
    clear = _clearness(np.vstack([own, shuffled]) - own.mean(), fewest)
    return float(np.mean(clear >= clear[0] * (1 - 1e-9)))


def _clearness(rows: Rows, fewest: int) -> Rows:
    """Of each row, with a mean of zero, the largest sum of squares between a stretch of it and the rest."""
    count = rows.shape[1]
    sums = np.concatenate([np.zeros((len(rows), 1)), rows.cumsum(axis=1)], axis=1)
    clearest = np.zeros(len(rows))
    for length in range(fewest, count - fewest + 1):
        squares = (sums[:, length:] - sums[:, :-length]) ** 2 * (count / (length * (count - length)))
        squares[:, 1:-1] *= LEFT_AGAIN
        np.maximum(clearest, squares.max(axis=1), out=clearest)
    return clearest


def clearest_places(values: Sequence[float], places: Sequence[int]) -> tuple[int, ...]:
    """The one or two of these places, each the number of the first result behind it, that part the results best."""
    own = np.asarray(values, dtype=np.float64)
    count, sums = len(own), np.concatenate([[0.0], (own - own.mean()).cumsum()])

    def clearness(cut: tuple[int, ...]) -> float:
        first, last = (0, cut[0]) if len(cut) == 1 else cut
        between = float(sums[last] - sums[first]) ** 2 * count / ((last - first) * (count - last + first))
        return between if len(cut) == 1 else LEFT_AGAIN * between

    return max([*((place,) for place in places), *combinations(places, 2)], key=clearness)
