"""Constraints on parses: phrases that must be there, or must not.

A required phrase `(start, end, label)` forbids every span that crosses it, and over its own span allows only symbols
that stand for a phrase (of that label, if one is given). As skeletal trees are binary, that is enough: a tree in
which nothing crosses a span has a node over it. A phrase that must be absent, `(start, end, label, True)`, allows over
its span only symbols that do not stand for it: without a label, intermediate ones and bare tags.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sapwood.errors import UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.shapes import Array, Bool, Int32

FREE, FORBIDDEN = -1, -2


class Phrase(NamedTuple):
    """A phrase over words `start .. end - 1` that must be there or, if `absent`, must not; None is any label."""

    start: int
    end: int
    label: str | None = None
    absent: bool = False


class Constraints(NamedTuple):
    """What each cell may hold: `cells` is FREE, FORBIDDEN or a row of `allowed`; empty if all are free.

    `close` is whether the grammar may close others (`sapwood.grammar.closing`).
    """

    cells: Int32[Array, "cells_or_none"]
    allowed: Bool[Array, "rows symbols"]
    close: bool = True


def compile_constraints(
    phrases: Sequence[Phrase | tuple[int, int, str | None]], n: int, coarse: TensorGrammar, *, close: bool = True
) -> Constraints:
    """Turn required and forbidden phrases into tables for the coarse pass over a sentence of `n` words."""
    if not phrases:
        return Constraints(np.zeros(0, np.int32), np.zeros((0, len(coarse.symbols)), bool), close)
    cells = np.full(n * (n + 1) // 2, FREE, np.int32)
    rows: list[np.ndarray] = []
    chains = [
        chain[:-1] if number >= coarse.n_interminals else chain for number, chain in enumerate(coarse.symbols.chain)
    ]
    ends = np.repeat(np.arange(1, n + 1), np.arange(1, n + 1))
    starts = np.concatenate([np.arange(j) for j in range(1, n + 1)])
    for phrase in phrases:
        start, end, label, absent = Phrase(*phrase)
        start, end = operator.index(start), operator.index(end)
        if not 0 <= start < end <= n:
            raise UsageError(f"a phrase over words {start} to {end} does not fit a sentence of {n} words")
        # A preterminal's lowest label is its tag, no phrase.
        allowed = np.array([bool(chain) if label is None else label in chain for chain in chains])
        if absent:
            allowed = ~allowed
        else:
            crossing = ((starts < start) & (start < ends) & (ends < end)) | (
                (start < starts) & (starts < end) & (end < ends)
            )
            cells[crossing] = FORBIDDEN
            if end - start == 1 and label is None:
                allowed[:] = True  # every word is a phrase of its own, or may be
        cell = end * (end - 1) // 2 + start
        if cells[cell] >= 0:
            rows[cells[cell]] &= allowed
        elif cells[cell] == FREE:
            cells[cell] = len(rows)
            rows.append(allowed)
    return Constraints(cells, np.array(rows) if rows else np.zeros((0, len(coarse.symbols)), bool), close)
