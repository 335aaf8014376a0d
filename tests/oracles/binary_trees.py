"""All binary trees over a few words."""

from __future__ import annotations

from itertools import product


def bracketings(i: int, j: int) -> list[frozenset[tuple[int, int]]]:
    """Return the spans of two words or more of every binary tree over words i to j."""
    if j - i == 1:
        return [frozenset()]
    return [
        left | right | {(i, j)}
        for k in range(i + 1, j)
        for left, right in product(bracketings(i, k), bracketings(k, j))
    ]
