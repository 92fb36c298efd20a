"""Choosing which neighbouring packets of a stream are sampled: places drawn at random, determined by number and seed.

In every block of 4096 packets the same number of pairs begins, at places drawn at random and rotated afresh for each
block, so bursts that are stamped once and senders that pause at regular intervals cannot fall into step with them (RFC
2330, section 11.1.1). Beyond one pair a block, blocks are left out at random. Each level has half of the places of the
one below: so a sample can be thinned out later, and it is the same however the packets were split into pieces.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from typing import List, Tuple

_BITS = 12
_BLOCK = 1 << _BITS
_WORD = (1 << 64) - 1
MAX_LEVEL = 2 * _BITS
"""One pair in 17 million packets."""
_LAST_IN_BLOCK = bytes((_BITS,))


def _mixed(value: int) -> int:
    """Mix a number by SplitMix64 (Steele, Lea and Flood 2014): the same on every machine and version."""
    value = (value + 0x9E3779B97F4A7C15) & _WORD
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & _WORD
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & _WORD
    return value ^ value >> 31


@lru_cache(maxsize=4)
def _draw_order(seed: int) -> Tuple[List[int], List[List[int]], List[bytes]]:
    """Return each place's last level, and by level the remaining places in order with their last levels."""
    order = list(range(_BLOCK))
    state = _mixed(seed)
    for place in range(_BLOCK - 1, 0, -1):  # Fisher and Yates
        state = _mixed(state)
        other = state % (place + 1)
        order[place], order[other] = order[other], order[place]
    last_levels = [0] * _BLOCK
    for number, place in enumerate(order):
        last_levels[place] = _BITS - number.bit_length()
    left = [sorted(order[: _BLOCK >> level]) for level in range(_BITS + 1)]
    return last_levels, left, [bytes(last_levels[place] for place in places) for places in left]


class PairPlaces:
    """The places where pairs begin at ``level``: one in 2**level packets."""

    __slots__ = ("_last_levels", "_left", "_left_levels", "_of_block", "_seed", "_turn", "level")

    def __init__(self, seed: int) -> None:
        self._seed = _mixed(seed)
        self._last_levels, self._left, self._left_levels = _draw_order(seed)
        self.level = 0
        self._turn: Tuple[int, int, int] = (-1, 0, 0)
        self._of_block: Tuple[int, int, List[int], bytes] = (-1, -1, [], b"")

    def find_places(self, first: int, stop: int) -> Tuple[List[int], bytes]:
        """Return the places from ``first`` on and below ``stop``, in order, and the last level of each."""
        places: List[int] = []
        last_levels = b""
        for block in range(first >> _BITS, ((stop - 1) >> _BITS) + 1):
            there, levels = self._of(block)
            low = bisect_left(there, first) if first > block << _BITS else 0
            high = bisect_left(there, stop) if stop < (block + 1) << _BITS else len(there)
            places += there[low:high]
            last_levels += levels[low:high]
        return places, last_levels

    def last_level(self, place: int) -> int:
        """Return the highest level at which a pair begins here."""
        turn, beyond = self._turned(place >> _BITS)
        last_level = self._last_levels[(place - turn) & _BLOCK - 1]
        return beyond if last_level == _BITS else last_level

    def _of(self, block: int) -> Tuple[List[int], bytes]:
        level = self.level
        if self._of_block[:2] != (level, block):
            turn, beyond = self._turned(block)
            within = min(level, _BITS)
            places, levels = self._left[within], self._left_levels[within]
            wraps = bisect_left(places, _BLOCK - turn)
            after = (block << _BITS) + turn
            before = after - _BLOCK
            turned = [place + before for place in places[wraps:]] + [place + after for place in places[:wraps]]
            last_levels = (levels[wraps:] + levels[:wraps]).replace(_LAST_IN_BLOCK, bytes((beyond,)))
            self._of_block = (level, block, turned, last_levels) if beyond >= level else (level, block, [], b"")
        return self._of_block[2:]

    def _turned(self, block: int) -> Tuple[int, int]:
        """Return the rotation of a block's places, and the last level of the place that remains longest."""
        if self._turn[0] != block:
            drawn = _mixed(self._seed + block)
            self._turn = (block, drawn & _BLOCK - 1, MAX_LEVEL - (drawn >> 64 - _BITS).bit_length())
        return self._turn[1:]
