"""Whether the order of results matters: a permutation test for one change, or for a temporary level. Pure.

For any results whose order is meaningless, whatever their distribution, it finds a change with a probability of at most
LARGEST_P. The statistic is that of circular binary segmentation (A. B. Olshen et al., Biostatistics 5, 2004), weighted
in favour of a lasting change over a temporary level, since that needs two changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt

ORDER_RESULTS: Final = 9
"""The number of results from which a single order can be rare enough.

Of eight results in halves 2 of 70 orders are the clearest.
"""

LARGEST_P: Final = 1 / 40
SHUFFLES: Final = 999
SEED: Final = 44
LEFT_AGAIN: Final = 0.9
"""The factor for the sum of squares that a temporary level explains."""

Rows = npt.NDArray[np.float64]


def order_p(values: Sequence[float], fewest: int) -> float:
    """The share of shuffled orders, of 999 and this one, that divide the results at least as clearly as their own does.

    ``fewest``: the smallest group to divide off. A reversed series has the same value.
    """
    own = np.asarray(values, dtype=np.float64)
    shuffled = np.random.default_rng(SEED).permuted(np.tile(np.sort(own), (SHUFFLES, 1)), axis=1)
    clear = _clearness(np.vstack([own, shuffled]) - own.mean(), fewest)
    return float(np.mean(clear >= clear[0] * (1 - 1e-9)))


def _clearness(rows: Rows, fewest: int) -> Rows:
    """For each row, with a mean of zero, the largest sum of squares between a section of it and the rest."""
    count = rows.shape[1]
    sums = np.concatenate([np.zeros((len(rows), 1)), rows.cumsum(axis=1)], axis=1)
    clearest = np.zeros(len(rows))
    for length in range(fewest, count - fewest + 1):
        squares = (sums[:, length:] - sums[:, :-length]) ** 2 * (count / (length * (count - length)))
        squares[:, 1:-1] *= LEFT_AGAIN
        np.maximum(clearest, squares.max(axis=1), out=clearest)
    return clearest


def clearest_places(values: Sequence[float], places: Sequence[int]) -> tuple[int, ...]:
    """The one or two of these places that divide the results best.

    A place is the number of the first result after it.
    """
    own = np.asarray(values, dtype=np.float64)
    count, sums = len(own), np.concatenate([[0.0], (own - own.mean()).cumsum()])

    def clearness(cut: tuple[int, ...]) -> float:
        first, last = (0, cut[0]) if len(cut) == 1 else cut
        between = float(sums[last] - sums[first]) ** 2 * count / ((last - first) * (count - last + first))
        return between if len(cut) == 1 else LEFT_AGAIN * between

    return max([*((place,) for place in places), *combinations(places, 2)], key=clearness)
