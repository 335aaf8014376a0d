"""Weights that automata give to trees, comparisons of two automata (section 4.2), and brackets without labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import logsumexp

from sapwood.automata.tensors import Tensor, apply
from sapwood.errors import UsageError
from sapwood.grammar.emissions import offsets_of, run_offsets
from sapwood.trees.tree import Tree

Span: TypeAlias = tuple[int, int]
# Spans of a tree's inner nodes, `(start, end)` with `end` not included, parents before children, left to right.
Topology: TypeAlias = tuple[Span, ...]
# Numbers of the vectors of trees that are weighed together.
_ROOM = 1 << 22


class SignedLogs(NamedTuple):
    """Real numbers by their signs (-1, 0 or 1) and the logarithms of their absolute values (-inf for zero)."""

    sign: np.ndarray
    log: np.ndarray


def log_weights(
    root: np.ndarray,
    transitions: Tensor,
    leaves_by_word: np.ndarray,
    trees: Iterable[tuple[Iterable[Span], Sequence[int] | np.ndarray]],
) -> SignedLogs:
    """Return the weight `f(t)` of each tree: signs and logarithms.

    Parameters
    ----------
    root, transitions
        Of an automaton of one sort.
    leaves_by_word
        `(words, n)`.
    trees
        For each its topology (the spans of its inner nodes) and the numbers of its words.
    """
    batch: list[tuple[Topology, np.ndarray]] = []
    parts: list[SignedLogs] = []
    nodes = 0
    for spans, words in trees:
        topology, numbers = spans_of(spans), np.asarray(words, np.int64)
        if len(numbers) != len(topology) + 1:
            raise UsageError(f"{len(numbers)} words do not fit a binary tree with {len(topology)} inner nodes")
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(leaves_by_word):
            raise UsageError(f"words are numbered from 0 to {len(leaves_by_word) - 1}, there is another")
        if batch and nodes * len(root) > _ROOM:
            parts.append(_weigh(root, transitions, leaves_by_word, batch))
            batch, nodes = [], 0
        batch.append((topology, numbers))
        nodes += 2 * len(numbers) - 1
    if batch:
        parts.append(_weigh(root, transitions, leaves_by_word, batch))
    empty = np.zeros(0)
    return SignedLogs(*(np.concatenate([empty, *(part[x] for part in parts)]) for x in range(2)))


def _weigh(
    root: np.ndarray, transitions: Tensor, leaves_by_word: np.ndarray, trees: list[tuple[Topology, np.ndarray]]
) -> SignedLogs:
    """Find the vectors of all nodes, those of the same height together: the words first, then inner nodes."""
    lengths = np.array([len(words) for _, words in trees])
    links = [linked(topology) for topology, _ in trees]
    leaf_offsets, inner_offsets = offsets_of(lengths), offsets_of(lengths - 1)
    n_leaves = int(leaf_offsets[-1])
    # Nodes are numbered tree by tree; now all words of all trees come first.
    children = np.concatenate([found for found, _ in links])
    lengths_below, moved = np.repeat(lengths, lengths - 1)[:, None], np.repeat(leaf_offsets[:-1], lengths - 1)[:, None]
    inner = np.repeat(inner_offsets[:-1] + n_leaves - lengths, lengths - 1)[:, None]
    children += np.where(children < lengths_below, moved, inner)
    values = np.empty((n_leaves + len(children), len(root)))
    exponents = np.empty(len(values), np.int64)
    words = np.concatenate([words for _, words in trees])
    values[:n_leaves], exponents[:n_leaves] = _rescaled(leaves_by_word[words])
    heights = np.concatenate([found for _, found in links])
    order = np.argsort(heights, kind="stable")
    for begin, end in pairwise(run_offsets(heights[order], int(heights.max(initial=0)) + 1)):
        nodes, (left, right) = n_leaves + order[begin:end], children[order[begin:end]].T
        values[nodes], shifts = _rescaled(apply(transitions, values[left], values[right]))
        exponents[nodes] = exponents[left] + exponents[right] + shifts
    tops = np.where(lengths > 1, n_leaves + inner_offsets[1:] - 1, leaf_offsets[:-1])
    totals = values[tops] @ root
    with np.errstate(divide="ignore"):
        return SignedLogs(np.sign(totals), np.log(abs(totals)) + exponents[tops] * np.log(2))


def _rescaled(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bring the largest absolute value of each row into [1/2, 1); return the exponents of the powers of two as well."""
    exponents = np.frexp(np.abs(vectors).max(axis=1, initial=0.0))[1].astype(np.int64)
    return np.ldexp(vectors, -exponents[:, None]), exponents


@dataclass(frozen=True)
class Perplexity:
    """See `perplexity`.

    Attributes
    ----------
    value
        `2 ** bits`.
    bits
        `-H`, the cross entropy.
    floored
        How many trees the approximation gives no positive weight.
    floored_share
        The part that they have of the reference's weight, between 0 and 1.
    """

    value: float
    bits: float
    floored: int
    floored_share: float


def perplexity(reference: SignedLogs, approximation: SignedLogs, *, floor: float = 1e-12) -> Perplexity:
    """Return the perplexity of an approximation on test trees, as in section 4.2 of the paper.

    With `H = sum over t of f(t) log2 g(t)`, `f` the reference and `g` the approximation, both normalised to sum to one
    over the test trees, it is `2^-H`, at least that of `f` itself. An approximation may have weights that are not
    positive, of which there is no logarithm. Such a tree counts as if the approximation had given it the part `floor`
    of the reference's share: it costs `log2(1 / floor)` bits more than a right one, in proportion to its share, whether
    it is short and probable or long and improbable. Positive weights are left as they are. `g` is normalised with the
    floors in it.

    Parameters
    ----------
    reference, approximation
        From `log_weights`, for the same trees.
    floor
        See above.
    """
    if len(reference.log) != len(approximation.log) or not len(reference.log):
        raise UsageError(
            f"weights of the same trees, at least one, were expected, not {len(reference.log)} and "
            f"{len(approximation.log)}"
        )
    if not 0 < floor <= 1:
        raise UsageError(f"floor must be above 0 and at most 1, not {floor}")
    if (reference.sign < 0).any() or not (reference.sign > 0).any():
        raise UsageError("the reference must have no negative weights and some positive one")
    log_f = np.where(reference.sign > 0, reference.log, -np.inf)
    log_f = log_f - logsumexp(log_f)
    share = np.exp(log_f)
    positive = approximation.sign > 0
    if not positive.any():
        raise UsageError("the approximation gives no tree a positive weight, so it has no perplexity")
    log_g = np.where(positive, approximation.log, -np.inf)
    log_g = np.where(positive, log_g - logsumexp(log_g), log_f + np.log(floor))
    log_g = log_g - logsumexp(log_g)
    seen = share > 0
    bits = float(-share[seen] @ log_g[seen] / np.log(2))
    return Perplexity(2.0**bits, bits, int((~positive).sum()), float(share[~positive].sum()))


class Agreement(NamedTuple):
    """How well an approximation agrees with the original on trees of which all count the same.

    `positive` is the part of the trees that have a positive weight at all, `right` the part whose weight is right
    within a factor of two, and `error` the median of `|log f'(t) - log f(t)|`, where a weight that is not positive is
    infinitely wrong.
    """

    positive: float
    right: float
    error: float


def agreement(original: SignedLogs, approximation: SignedLogs) -> Agreement:
    """Compare the weights of trees; all of the original's are positive."""
    if not len(original.log) or (original.sign <= 0).any():
        raise UsageError("an approximation is compared on trees with positive weights, one at least")
    positive = approximation.sign > 0
    errors = np.full(len(original.log), np.inf)
    errors[positive] = np.abs(approximation.log - original.log)[positive]
    return Agreement(float(positive.mean()), float((errors <= np.log(2)).mean()), float(np.median(errors)))


def spans_of(tree: Tree | Iterable[Span]) -> Topology:
    """Return the distinct spans of two words and more of any tree, parents before children, left to right."""
    spans = [(start, end) for start, end, _ in tree.spans()] if isinstance(tree, Tree) else tree
    distinct = {(int(start), int(end)) for start, end in spans if end - start > 1}
    return tuple(sorted(distinct, key=lambda span: (span[0], -span[1])))


def topology_of(tree: Tree | Iterable[Span]) -> Topology:
    """Return the spans of the inner nodes of a binary tree, which may have unary nodes in it.

    >>> topology_of(Tree.parse("(S (NP (D the) (N dog)) (VP (V barks)))"))
    ((0, 3), (0, 2))
    """
    spans = spans_of(tree)
    linked(spans)
    return spans


def linked(spans: Topology) -> tuple[np.ndarray, np.ndarray]:
    """Return the children of each inner node and its height, 1 above two words.

    Nodes are numbered: words first, then inner nodes by their ends, children before parents.
    """
    length = len(spans) + 1
    ordered = sorted(spans, key=lambda span: (span[1], -span[0]))
    children, heights = np.empty((len(ordered), 2), np.int64), np.empty(len(ordered), np.int64)
    stack: list[tuple[int, int, int]] = []  # number, start and height of complete nodes
    place = 0
    for word in range(length):
        stack.append((word, word, 0))
        while place < len(ordered) and ordered[place][1] == word + 1:
            if len(stack) < 2 or stack[-2][1] != ordered[place][0]:
                raise UsageError(f"not the spans of a binary tree over {length} words: {spans}; binarise it first")
            (left, start, low), (right, _, high) = stack[-2:]
            children[place], heights[place] = (left, right), 1 + max(low, high)
            stack[-2:] = [(length + place, start, int(heights[place]))]
            place += 1
    if place < len(ordered) or len(stack) != 1:
        raise UsageError(f"not the spans of a binary tree over {length} words: {spans}; binarise it first")
    return children, heights


@dataclass(frozen=True)
class BracketCounts:
    """Numbers of matching spans of two words and more, without that of the whole sentence; counts can be added."""

    matched: int = 0
    gold: int = 0
    found: int = 0

    def __add__(self, other: BracketCounts) -> BracketCounts:
        return BracketCounts(self.matched + other.matched, self.gold + other.gold, self.found + other.found)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall, in per cent; 0 without spans."""
        return 200.0 * self.matched / (self.gold + self.found) if self.gold + self.found else 0.0


def bracket_scores(gold: Tree | Iterable[Span], found: Tree | Iterable[Span]) -> BracketCounts:
    """Compare the spans of two trees over the same sentence; equal spans, as of unary chains, count once."""
    one, other = spans_of(gold), spans_of(found)
    if one[:1] != other[:1]:  # the whole sentence
        raise UsageError(f"two trees over one sentence begin with the same span, not with {one[:1]} and {other[:1]}")
    gold_spans, found_spans = set(one[1:]), set(other[1:])
    return BracketCounts(len(gold_spans & found_spans), len(gold_spans), len(found_spans))
