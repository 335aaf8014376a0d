"""Features of sequences, which are right-branching trees here (`sapwood.trees.sequences`).

The usual features of a phrase look at rules and tags, never at words, and say nothing about states if all words have
the same tag. `SEQUENCE_INSIDE` and `SEQUENCE_OUTSIDE` look at the word where a node begins and at those just before and
behind it: `Omega` of `S` then has the bigrams that Hsu, Kakade and Zhang (2009) learn HMMs from.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sapwood.learn.spectral.features import Feature
from sapwood.learn.spectral.node_table import NodeTable


def _word_at(table: NodeTable, places: np.ndarray) -> np.ndarray:
    """Return the class of the word so many places behind each node's first, counted from 1; 0 if there is none."""
    is_word = table.is_leaf & ~table.is_empty
    leaves = np.flatnonzero(is_word)
    first = np.cumsum(is_word) - is_word
    at = table.start + places
    present = (at >= 0) & (at < table.end + table.words_after)
    return np.where(present, 1 + table.word_class[leaves[np.where(present, first + places, 0)]], 0)


def _first_word(table: NodeTable) -> np.ndarray:
    return _word_at(table, np.zeros(table.n_nodes, np.int64))


def _word_before(table: NodeTable) -> np.ndarray:
    return _word_at(table, np.full(table.n_nodes, -1))


def _word_behind(table: NodeTable) -> np.ndarray:
    return _word_at(table, table.width)


SEQUENCE_INSIDE: Final = ("rule", Feature("first-word", "inside", _first_word))
SEQUENCE_OUTSIDE: Final = (
    Feature("word-before", "outside", _word_before),
    Feature("word-behind", "outside", _word_behind),
)
