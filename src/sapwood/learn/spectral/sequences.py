"""Sequences as right-branching trees: the learners of L-PCFGs learn hidden Markov models from them.

Cohen et al. (long paper), section 9. A sequence `x_1 .. x_n` becomes `(S x_1 (S x_2 ... (S x_{n-1} x_n)))`: the node
over `x_i .. x_n` carries the hidden state at `i`. With transitions `A(g, h)`, emissions `O(h, x)`, initial
probabilities `pi_h` and the probability `e_h` that a sequence ends after state `h`, an HMM is the L-PCFG with

    S_g -> X_g S_h    A(g, h) (1 - e_h)        S_h at the root    pi_h (1 - e_h)
    S_g -> X_g X_h    A(g, h) e_h              X_h at the root    pi_h e_h          X_h -> x    O(h, x)

where `S` stands for at least two words, so a state of `S` is one that does not end the sequence. What a tagged sequence
adds is a symbol `X` for each tag.

**Features.** The usual features of a phrase look at rules and tags, never at words, and say nothing about states if
all words have the same tag. `SEQUENCE_INSIDE` and `SEQUENCE_OUTSIDE` look at the word where a node begins and at those
just before and behind it: `Omega` of `S` then has the bigrams that Hsu, Kakade and Zhang (2009) learn HMMs from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from sapwood.errors import InputError
from sapwood.learn.spectral.features import Feature
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.trees.tree import Tree


def right_branching(
    sequences: Iterable[Sequence[str]],
    tags: Iterable[Sequence[str]] | None = None,
    *,
    phrase: str = "S",
    tag: str = "X",
) -> list[Tree]:
    """Return sequences as right-branching trees.

    Parameters
    ----------
    sequences
        The words of each; none may be empty.
    tags
        As many tags for each; by default every word has the same one.
    phrase, tag
        The label of all phrases, and the tag if there are no others.

    Examples
    --------
    >>> for tree in right_branching([["rain", "fell", "again"], ["rain"]]):
    ...     print(tree)
    (S (X rain) (S (X fell) (X again)))
    (X rain)
    >>> print(right_branching([["rain", "fell"]], [["N", "V"]])[0])
    (S (N rain) (V fell))
    """
    words = [list(sequence) for sequence in sequences]
    names = [[tag] * len(sequence) for sequence in words] if tags is None else [list(given) for given in tags]
    if len(names) != len(words):
        raise InputError(f"{len(words):,} sequences of words, and {len(names):,} of tags: give each sequence its tags")
    trees = []
    for number, (sequence, given) in enumerate(zip(words, names, strict=True), start=1):
        if not sequence:
            raise InputError(f"sequence {number:,} is empty: a tree has at least one word; leave it out")
        if len(given) != len(sequence):
            raise InputError(f"sequence {number:,} has {len(sequence):,} words and {len(given):,} tags")
        leaves = [Tree(label, word=word) for label, word in zip(given, sequence, strict=True)]
        tree = leaves.pop()
        while leaves:
            tree = Tree(phrase, (leaves.pop(), tree))
        trees.append(tree)
    return trees


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
