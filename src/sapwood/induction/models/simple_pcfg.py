"""SimplePCFG: a PCFG with many symbols whose left and right children are independent (Liu, Yang, Kim and Tu 2023).

A nonterminal has two children, each a nonterminal or a preterminal, and a preterminal has one word:

    P(A -> B C) = left[A, B] right[A, C],    P(T -> w) = word[T, w].

So a cell of the chart is projected once to what it is as a left child, and once as a right child, in quadratic time in
the number of symbols; the rest of a chart over n words is an elementwise product at each of its n^3 / 6 divisions. The
chart has nonterminals only (`src/native/induction/independent.cpp`): what a word is as a child, a sum over
preterminals, is a row of a table, made for the words of a batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sapwood.induction.estep import IndependentSides
from sapwood.kernels import matrix_product
from sapwood.storage.shapes import Array, Float32, Int32, Int64

_TINY = np.float32(1e-37)


class SimplePCFGRules(NamedTuple):
    """Probabilities of a SimplePCFG, or expected counts; children are nonterminals, then preterminals."""

    root: Float32[Array, "nonterminals"]
    left: Float32[Array, "nonterminals children"]
    right: Float32[Array, "nonterminals children"]
    word: Float32[Array, "preterminals terminals"]


def product(
    a: Float32[Array, "a_rows a_columns"],
    b: Float32[Array, "b_rows b_columns"],
    *,
    left: bool = False,
    right: bool = False,
) -> Float32[Array, "rows columns"]:
    """Return `a @ b`, with `left` or `right` transposed; the same bytes on any number of threads."""
    out = np.empty((a.shape[left], b.shape[not right]), np.float32)
    matrix_product(np.ascontiguousarray(a), left, np.ascontiguousarray(b), right, out, False, True)
    return out


class WordRules(NamedTuple):
    """Weights of the trees over some words.

    Attributes
    ----------
    terminals
        The words.
    emission
        Probability of each word given each preterminal.
    rule
        Weights for the chart, whose words are rows of the tables.
    """

    terminals: Int64[Array, "words"]
    emission: Float32[Array, "words preterminals"]
    rule: IndependentSides


def word_rules(rules: SimplePCFGRules, terminals: Int64[Array, "words"]) -> WordRules:
    """Return the weights of the trees over some words."""
    k = len(rules.root)
    emission = np.ascontiguousarray(rules.word[:, terminals].T)
    leaves = [product(emission, side[:, k:], right=True) for side in (rules.left, rules.right)]
    inner = [np.ascontiguousarray(side[:, :k]) for side in (rules.left, rules.right)]
    return WordRules(terminals, emission, IndependentSides(rules.root, *inner, *leaves))


def rule_counts(rules: SimplePCFGRules, words: WordRules, uses: IndependentSides) -> SimplePCFGRules:
    """Return the expected uses of a chart as counts of rules; those of words are of the given ones alone."""
    k = len(rules.root)
    emission = words.emission
    by_word = np.zeros_like(emission)
    sides = []
    for side, inner, leaf, used in (
        (rules.left, uses.left, words.rule.left_leaf, uses.left_leaf),
        (rules.right, uses.right, words.rule.right_leaf, uses.right_leaf),
    ):
        outside = used / np.maximum(leaf, _TINY)
        preterminals = np.ascontiguousarray(side[:, k:])
        sides.append(np.concatenate([inner, preterminals * product(outside, emission, left=True)], axis=1))
        by_word += product(outside, preterminals)
    by_word *= emission
    return SimplePCFGRules(uses.root, sides[0], sides[1], np.ascontiguousarray(by_word.T))


def places(terminals: Int32[Array, "tokens"]) -> tuple[Int64[Array, "words"], Int32[Array, "tokens"]]:
    """Return the distinct terminals of sentences, and the place of each token among these."""
    found, inverse = np.unique(terminals, return_inverse=True)
    return found.astype(np.int64), inverse.astype(np.int32)
