"""What costs nothing to know: trees that branch to one side, balanced ones, random ones; heads that are next door.

A model learned from sentences is worth something where it beats these, all of them: in English branching to the right
is hard to beat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

Span = tuple[int, int]


def right_branching(length: int) -> list[Span]:
    """Return the spans of two words and more of the tree that branches to the right.

    >>> right_branching(3)
    [(0, 3), (1, 3)]
    """
    return [(begin, length) for begin in range(length - 1)]


def left_branching(length: int) -> list[Span]:
    """Return the spans of the tree that branches to the left.

    >>> left_branching(3)
    [(0, 2), (0, 3)]
    """
    return [(0, end) for end in range(2, length + 1)]


def balanced(length: int) -> list[Span]:
    """Return the spans of the tree that divides in halves, the first the longer one.

    >>> balanced(3)
    [(0, 2), (0, 3)]
    """
    return sorted(_divided(length, lambda begin, end: (begin + end + 1) // 2))


def random_tree(length: int, rng: np.random.Generator) -> list[Span]:
    """Return the spans of a tree made by dividing at a place drawn evenly, again and again."""
    return sorted(_divided(length, lambda begin, end: int(rng.integers(begin + 1, end))))


def _divided(length: int, place: Callable[[int, int], int]) -> list[Span]:
    found, waiting = [], [(0, length)]
    while waiting:
        begin, end = waiting.pop()
        if end - begin > 1:
            found.append((begin, end))
            middle = place(begin, end)
            waiting += [(begin, middle), (middle, end)]
    return found


def heads_before(length: int) -> list[int]:
    """Return the tree in which the head of each word is the one before it.

    >>> heads_before(3)
    [-1, 0, 1]
    """
    return list(range(-1, length - 1))


def heads_behind(length: int) -> list[int]:
    """Return the tree in which the head of each word is the one behind it.

    >>> heads_behind(3)
    [1, 2, -1]
    """
    return [*range(1, length), -1] if length else []


def random_heads(length: int, rng: np.random.Generator) -> list[int]:
    """Return a projective tree: a head drawn evenly from its span, and again on both sides of it."""
    heads = [-1] * length
    waiting = [(0, length, -1)]
    while waiting:
        begin, end, above = waiting.pop()
        if begin < end:
            head = int(rng.integers(begin, end))
            heads[head] = above
            waiting += [(begin, head, head), (head + 1, end, head)]
    return heads


BRACKETINGS: Final[Mapping[str, Callable[[int, np.random.Generator], list[Span]]]] = MappingProxyType(
    {
        "left-branching": lambda length, _: left_branching(length),
        "right-branching": lambda length, _: right_branching(length),
        "balanced": lambda length, _: balanced(length),
        "random trees": random_tree,
    }
)
HEADS: Final[Mapping[str, Callable[[int, np.random.Generator], list[int]]]] = MappingProxyType(
    {
        "heads before": lambda length, _: heads_before(length),
        "heads behind": lambda length, _: heads_behind(length),
        "random heads": random_heads,
    }
)
