"""Posterior distributions over the tree topologies of a sentence.

The probability that a span is a constituent, or that a word is the head of another, is a derivative: put a factor 1 on
the span or edge, and differentiate the log-probability of the sentence with respect to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sapwood.errors import UsageError
from sapwood.identifiability.algebra.autodiff import Tensor, constant, gradients
from sapwood.identifiability.algebra.fields import Reals
from sapwood.identifiability.models.inside import InsideRule, Marks, inside_constituents, inside_dependencies
from sapwood.storage.shapes import Array, Float, Int

Span = tuple[int, int]


@dataclass(frozen=True, eq=False)
class ConstituencyPosterior:
    """The posterior over binary trees of one sentence.

    Attributes
    ----------
    log_likelihood
        Log-probability of the sentence, among those of its length.
    spans
        The probability that the words from `i` up to `j`, `j` excluded, are a constituent.
    """

    log_likelihood: float
    spans: Float[Array, "boundaries boundaries"]
    _leaves: Tensor
    _rule: InsideRule
    _root: Float[Array, "states"]
    _mass: float

    def probability(self, topology: Sequence[Span]) -> float:
        """Return the probability of a tree, given by the spans of two or more words."""
        length = len(self.spans) - 1
        wanted = {(int(begin), int(end)) for begin, end in topology}
        if len(wanted) != length - 1 or any(not (0 <= i < j <= length) or j - i < 2 for i, j in wanted):
            raise UsageError(
                f"a binary tree over {length} words has {length - 1} different spans of two words and more"
            )
        factors = []
        for width in range(1, length + 1):
            kept = [width == 1 or (i, i + width) in wanted for i in range(length - width + 1)]
            factors.append(constant(Reals(), np.array(kept, float)[None, None, :, None]))
        inside = inside_constituents(self._leaves, self._rule, Marks(), factors).value[0, 0]
        return float(inside @ self._root / self._mass)

    def best(self) -> tuple[Span, ...]:
        """Return the tree with the largest sum of its spans' probabilities (the largest expected accuracy)."""
        length = len(self.spans) - 1
        score, split = self.spans.copy(), np.zeros((length + 1, length + 1), np.int64)
        for width in range(2, length + 1):
            for i in range(length - width + 1):
                j = i + width
                sums = score[i, i + 1 : j] + score[i + 1 : j, j]
                split[i, j] = i + 1 + int(np.argmax(sums))
                score[i, j] += sums.max()
        found: list[Span] = []
        stack = [(0, length)]
        while stack:
            i, j = stack.pop()
            if j - i > 1:
                found.append((i, j))
                stack += [(i, int(split[i, j])), (int(split[i, j]), j)]
        return tuple(sorted(found))


def constituency_posterior(
    leaves: Float[Array, "length states"], rule: InsideRule, root: Float[Array, "states"], log_normaliser: float
) -> ConstituencyPosterior:
    """Return the posterior over binary trees.

    `leaves` are the probabilities of the words given the states above them, `log_normaliser` is the logarithm of the
    sum over trees with leaves of 1, summed over words.
    """
    length = len(leaves)
    words = constant(Reals(), leaves[None, None])
    factors = [Tensor(Reals(), np.ones((1, 1, length - width + 1, 1))) for width in range(1, length + 1)]
    mass = (inside_constituents(words, rule, Marks(), factors) @ constant(Reals(), root[None, :, None]))[:, 0, 0]
    total = float(mass.value[0])
    if not total > 0:
        raise UsageError("the sentence has probability zero")
    spans = np.zeros((length + 1, length + 1))
    for width, part in enumerate(gradients(mass, factors), 1):
        begin = np.arange(length - width + 1)
        spans[begin, begin + width] = part.reshape(-1) / total
    return ConstituencyPosterior(float(np.log(total)) - log_normaliser, spans, words, rule, root, total)


@dataclass(frozen=True, eq=False)
class DependencyPosterior:
    """The posterior over projective dependency trees of one sentence.

    Attributes
    ----------
    log_likelihood
        Log-probability of the sentence, among those of its length.
    edges
        The probability that the word at `h` is the head of the word at `m`, `edges[h, m]`.
    roots
        The probability that the word is the root.
    """

    log_likelihood: float
    edges: Float[Array, "length length"]
    roots: Float[Array, "length"]
    _edge_weights: Float[Array, "length length"]
    _root_weights: Float[Array, "length"]
    _mass: float

    def probability(self, topology: Sequence[int]) -> float:
        """Return the probability of a projective tree, given by each word's head, -1 for the root."""
        heads = np.asarray(topology)
        length = len(self.roots)
        if heads.shape != (length,) or not is_projective(heads):
            raise UsageError(f"heads of a projective tree over {length} words were expected, -1 for the root's")
        edges = self._edge_weights[heads[heads >= 0], np.flatnonzero(heads >= 0)]
        return float(np.prod(edges) * self._root_weights[np.flatnonzero(heads < 0)[0]] / self._mass)

    def best(self) -> tuple[int, ...]:
        """Return the tree with the largest sum of its edges' probabilities (the largest expected accuracy)."""
        return best_projective(self.edges, self.roots)


def dependency_posterior(
    root: Float[Array, "length"],
    left: Float[Array, "length length"],
    right: Float[Array, "length length"],
    log_normaliser: float,
) -> DependencyPosterior:
    """Return the posterior over projective trees.

    `root` has the probability of each word of the sentence as the root, `left` and `right` are `A[m, h]`, that of the
    word at `m` as an argument of the word at `h`; `log_normaliser` is the logarithm of the number of trees.
    """
    # Each position is a word of its own, so that edges between words are edges between positions.
    field, length = Reals(), len(root)
    weights = [Tensor(field, array) for array in (root[None, :, None], left[None], right[None])]
    words = constant(field, np.eye(length)[None, None])
    mass = (inside_dependencies(words, weights[1], weights[2], Marks()) @ weights[0])[:, 0, 0]
    total = float(mass.value[0])
    if not total > 0:
        raise UsageError("the sentence has probability zero")
    roots, to_left, to_right = (
        tensor.value[0] * gradient[0] / total
        for tensor, gradient in zip(weights, gradients(mass, weights), strict=True)
    )
    edge_weights = np.where(np.tri(length, k=-1, dtype=bool), left.T, right.T)
    return DependencyPosterior(
        float(np.log(total)) - log_normaliser, (to_left + to_right).T, roots[:, 0], edge_weights, root, total
    )


def is_projective(heads: Sequence[int] | Int[Array, "length"]) -> bool:
    """Return whether heads form one tree in which the words below any word are an unbroken span."""
    heads = np.asarray(heads)
    length = len(heads)
    if np.sum(heads == -1) != 1 or heads.min() < -1 or heads.max() >= length:
        return False
    below: list[set[int]] = [set() for _ in range(length)]
    for word in range(length):
        above, path = word, []
        while above >= 0:
            if above in path:
                return False  # a cycle
            path.append(above)
            above = int(heads[above])
        for node in path:
            below[node].add(word)
    return all(max(words) - min(words) + 1 == len(words) for words in below)


def best_projective(edges: Float[Array, "length length"], roots: Float[Array, "length"]) -> tuple[int, ...]:
    """Return the heads of the projective tree with the largest sum of scores (Eisner 1996).

    `edges[h, m]` is the score of the word at `h` as the head of the word at `m`, `roots[m]` that of a word as the root.
    """
    length = len(roots)
    # Over words i to j: half trees with their head at one end, and those whose last edge goes from end to end.
    right, left = np.zeros((length, length)), np.zeros((length, length))
    right_edge, left_edge = np.zeros((length, length)), np.zeros((length, length))
    for width in range(1, length):
        for i in range(length - width):
            j = i + width
            both = max(right[i, m] + left[m + 1, j] for m in range(i, j))
            right_edge[i, j], left_edge[i, j] = both + edges[i, j], both + edges[j, i]
            right[i, j] = max(right_edge[i, m] + right[m, j] for m in range(i + 1, j + 1))
            left[i, j] = max(left[i, m] + left_edge[m, j] for m in range(i, j))
    heads = np.full(length, -1)
    top = max(range(length), key=lambda m: left[0, m] + roots[m] + right[m, length - 1])
    stack = [("left", 0, top), ("right", top, length - 1)]
    while stack:
        kind, i, j = stack.pop()
        if i == j:
            continue
        if kind == "right":
            m = max(range(i + 1, j + 1), key=lambda m: right_edge[i, m] + right[m, j])
            heads[m] = i
            stack += [("both", i, m), ("right", m, j)]
        elif kind == "left":
            m = max(range(i, j), key=lambda m: left[i, m] + left_edge[m, j])
            heads[m] = j
            stack += [("left", i, m), ("both", m, j)]
        else:
            m = max(range(i, j), key=lambda m: right[i, m] + left[m + 1, j])
            stack += [("right", i, m), ("left", m + 1, j)]
    return tuple(heads.tolist())
